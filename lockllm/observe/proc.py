"""Processes as /proc shows them: command line, environment, folders, children, listeners and mapped files."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

PROC = Path("/proc")
_MOST_ARGV = 4 << 20
_MOST_MAPS = 64 << 20
_MOST_TREE = 4096
_MOST_LINKS = 40
_LISTEN = "0A"


class Gone(Exception):
    """The process ended, or never was."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process at one moment. Texts that could not be read are empty, and `hidden` names why."""

    pid: int
    ppid: int
    argv: tuple[str, ...]  # empty where the process has overwritten it
    title: str  # argv joined, or the title that it gave itself
    env: Mapping[str, str]
    env_whole: bool  # false: a name that is not in `env` is unknown, never unset
    cwd: str
    exe: str  # resolved by the kernel, as that process sees it
    root: Path  # where its own `/` is, seen from here
    started: int  # clock ticks since boot: a pid that is used again has another
    owner: int  # uid
    hidden: str = ""  # why its environment and folders are closed to this user

    def path(self, name: str) -> Path:
        """A path as that process means it, as this process can open it."""
        return inside(self.root, os.path.join(self.cwd or "/", name))


class Mapped(msgspec.Struct, frozen=True):
    """A file that is mapped into a process."""

    path: str  # as that process sees it
    device: str
    inode: int
    deleted: bool  # the file on disk is another one by now


def read(pid: int, proc: Path = PROC) -> Process:
    """The process of that pid. Raises Gone where there is none."""
    folder = proc / str(pid)
    try:
        status = _status(folder)
        started, owner = _started(folder), folder.stat().st_uid
        raw = _bounded(folder / "cmdline", _MOST_ARGV)
    except OSError as error:
        raise Gone(f"no process {pid}") from error
    argv, title = _words(raw)
    hidden = ""
    env: Mapping[str, str] = {}
    whole = False
    try:
        env, whole = _environ(_bounded(folder / "environ", _MOST_ARGV))
    except PermissionError:
        hidden = f"process {pid} belongs to {_name(owner)}"
    except OSError as error:
        if not folder.exists():
            raise Gone(f"process {pid} ended") from error
        hidden = f"the environment of process {pid} cannot be read: {error.strerror}"
    if status.get("State", "").startswith(("Z", "X")):
        raise Gone(f"process {pid} ended")
    root = _link(folder / "root")
    return Process(
        pid=pid,
        ppid=int(status.get("PPid", "0") or 0),
        argv=argv,
        title=title or status.get("Name", ""),
        env=env,
        env_whole=whole and bool(argv),
        cwd=_link(folder / "cwd"),
        exe=_link(folder / "exe").removesuffix(" (deleted)"),
        root=Path("/") if root in ("", "/") and _same_root(folder) else folder / "root",
        started=started,
        owner=owner,
        hidden=hidden,
    )


def inside(root: Path, name: str) -> Path:
    """An absolute path of another root, as this process can open it: links are followed inside that root."""
    path = os.path.normpath(name)
    if root == Path("/"):
        return Path(path)
    rest = [part for part in path.split("/") if part]
    done: list[str] = []
    hops = 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            del done[-1:]
            continue
        target = _link(root.joinpath(*done, part))
        if not target or hops > _MOST_LINKS:
            done.append(part)
            continue
        hops += 1
        if target.startswith("/"):
            done = []
        rest = [each for each in target.split("/") if each not in ("", ".")] + rest
    return root.joinpath(*done)


def alive(process: Process, proc: Path = PROC) -> bool:
    """Whether it still runs: the same process, not another under its pid."""
    try:
        return _started(proc / str(process.pid)) == process.started
    except OSError:
        return False


def pids(proc: Path = PROC) -> list[int]:
    """Every pid that shows here."""
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        return []


def everything(proc: Path = PROC) -> dict[int, Process]:
    """Every process that shows here and has a command line."""
    found = {}
    for pid in pids(proc):
        try:
            process = read(pid, proc)
        except Gone:
            continue
        if process.title and (process.argv or process.exe):
            found[pid] = process
    return found


def descendants(pid: int, processes: Mapping[int, Process]) -> tuple[Process, ...]:
    """Everything below a process, nearest first; itself left out."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.ppid, []).append(process)
    found: list[Process] = []
    rank = [pid]
    seen = {pid}
    while rank and len(found) < _MOST_TREE:
        below = [child for parent in rank for child in children.get(parent, ()) if child.pid not in seen]
        seen.update(child.pid for child in below)
        found += sorted(below, key=lambda child: child.pid)
        rank = [child.pid for child in below]
    return tuple(found)


def ancestors(pid: int, processes: Mapping[int, Process]) -> tuple[Process, ...]:
    """Everything above a process, nearest first; itself left out."""
    found: list[Process] = []
    at = processes.get(pid)
    while at is not None and at.ppid in processes and len(found) < _MOST_TREE:
        at = processes[at.ppid]
        if at in found:
            break
        found.append(at)
    return tuple(found)


def listeners(port: int, proc: Path = PROC) -> tuple[int, ...] | None:
    """The pids that listen on a TCP port. Empty: nobody does. None: somebody does, and this user may not see who."""
    inodes = _listening(port, proc)
    if not inodes:
        return ()
    wanted = {f"socket:[{inode}]" for inode in inodes}
    found = []
    for pid in pids(proc):
        try:
            with os.scandir(proc / str(pid) / "fd") as entries:
                if any(_link(Path(entry.path)) in wanted for entry in entries):
                    found.append(pid)
        except OSError:
            continue
    return tuple(found) or None


def listens(pid: int, proc: Path = PROC) -> tuple[tuple[str, int], ...]:
    """The addresses and TCP ports that a process listens on."""
    try:
        with os.scandir(proc / str(pid) / "fd") as entries:
            links = {_link(Path(entry.path)) for entry in entries}
    except OSError:
        return ()
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = _rows(proc / str(pid) / "net")
    return tuple(sorted({(_address(row[0]), row[1]) for row in rows if row[2] in inodes}, key=lambda each: each[1]))


def mapped(pid: int, proc: Path = PROC) -> tuple[Mapped, ...]:
    """The files mapped into a process, each once. Raises OSError where they are closed to this user."""
    found: dict[tuple[str, str], Mapped] = {}
    for line in _bounded(proc / str(pid) / "maps", _MOST_MAPS).decode("utf-8", "surrogateescape").split("\n"):
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        path = fields[5].removesuffix(" (deleted)")
        key = (path, fields[4])
        if key not in found:
            found[key] = Mapped(_unescaped(path), fields[3], int(fields[4]), fields[5].endswith(" (deleted)"))
    return tuple(found.values())


def _words(raw: bytes) -> tuple[tuple[str, ...], str]:
    """The arguments, and the title. A process that renamed itself left its title padded with NULs."""
    if not raw:
        return (), ""
    title, _, rest = raw.partition(b"\0")
    renamed = (len(rest) > 1 and not rest.strip(b"\0")) or not raw.endswith(b"\0")
    words = tuple(_text(word) for word in raw.removesuffix(b"\0").split(b"\0"))
    if renamed:
        return (), _text(title if b"\0" in raw else raw)
    return words, " ".join(words)


def _environ(raw: bytes) -> tuple[dict[str, str], bool]:
    """The variables, and whether these are all. The first of a doubled name counts, as in libc."""
    found: dict[str, str] = {}
    for pair in raw.split(b"\0"):
        name, equals, value = pair.partition(b"=")
        if equals and name:
            found.setdefault(_text(name), _text(value))
    destroyed = raw.startswith(b"\0") or (bool(raw) and not found)
    return found, not destroyed


def _listening(port: int, proc: Path) -> set[str]:
    return {inode for _, number, inode in _rows(proc / "net") if number == port}


def _rows(folder: Path) -> list[tuple[str, int, str]]:
    """Listening sockets: address, port, inode."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            lines = _bounded(folder / name, _MOST_MAPS).decode("ascii", "replace").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                address, _, port = fields[1].rpartition(":")
                found.append((address, int(port, 16), fields[9]))
    return found


def _address(text: str) -> str:
    """An address of /proc/net: words of four bytes in this machine's own order."""
    import ipaddress

    raw = bytes.fromhex(text)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    address = ipaddress.ip_address(raw)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _status(folder: Path) -> dict[str, str]:
    lines = _bounded(folder / "status", 1 << 16).decode("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _started(folder: Path) -> int:
    text = _bounded(folder / "stat", 1 << 14)
    try:
        return int(text[text.rindex(b")") + 2 :].split()[19])
    except (ValueError, IndexError) as error:
        raise OSError(errno.EIO, "stat is no line of numbers") from error


def _same_root(folder: Path) -> bool:
    """Whether its `/` is ours: a container's root also reads as `/`."""
    try:
        theirs, ours = os.stat(folder / "root"), os.stat("/")
    except OSError:
        return True
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def _bounded(path: Path, most: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(most)


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _unescaped(path: str) -> str:
    return path.replace("\\012", "\n")


def _name(uid: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"
