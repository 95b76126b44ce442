"""Processes as /proc shows them: command line, environment, folders, children and mapped files."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

PROC = Path("/proc")
_MOST_ARGV = 4 << 20
_MOST_MAPS = 64 << 20
_MOST_TREE = 4096
_MOST_LINKS = 40
_MOST_SEARCHED = 64 << 10
"""Bytes of each command line and environment that are read while every process is looked through."""
_MOST_HELD = 16 << 20
"""Bytes of command lines and environments that are held of all of them together."""


class Gone(Exception):
    """The process ended or never existed."""


class Crowded(Exception):
    """More processes look like servers than one check holds in memory."""


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


class MappedFile(msgspec.Struct, frozen=True):
    """A file that is mapped into a process."""

    path: str  # as that process sees it
    device: str
    inode: int
    deleted: bool  # the file on disk is another one by now


def read(pid: int, proc: Path = PROC, most: int = _MOST_ARGV) -> Process:
    """The process of that pid. Raises Gone where there is none. `most`: bytes of its command line and its environment."""
    folder = proc / str(pid)
    try:
        status = _status(folder)
        started, owner = _started(folder), folder.stat().st_uid
        raw = _whole_words(_bounded(folder / "cmdline", most + 1), most)
    except OSError as error:
        raise Gone(f"no process {pid}") from error
    argv, title = _words(raw)
    hidden = ""
    env: Mapping[str, str] = {}
    whole = False
    try:
        variables = _bounded(folder / "environ", most + 1)
        env, whole = _environ(_whole_words(variables, most))
        whole = whole and len(variables) <= most
    except PermissionError:
        hidden = _closed(pid, owner)
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
        root=Path("/") if root in ("", "/") and _same_files(folder, proc) else folder / "root",
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


def state(process: Process, proc: Path = PROC) -> str:
    """The kernel's letter for its state: R, S, D, T ...; empty where it ended."""
    try:
        return _fields(proc / str(process.pid))[0].decode("ascii", "replace")
    except OSError:
        return ""


def program_tick(process: Process, proc: Path = PROC) -> int:
    """The clock tick by which a process was the program that it is: the start of its oldest thread but the first.

    A script that downloads a model and then becomes the server (`exec`) hands on its own start; its threads end with it, so
    every other thread is the server's. Engines start theirs when they import their libraries, before they read a model.
    """
    folder = proc / str(process.pid) / "task"
    starts = []
    others: list[str] = []
    with contextlib.suppress(OSError):
        others = [name for name in os.listdir(folder)[:_MOST_TREE] if name != str(process.pid)]
    for name in others:
        with contextlib.suppress(OSError):  # it has ended
            starts.append(_started(folder / name))
    return max(process.started, min(starts, default=process.started))


def started_at(process: Process, tick: int | None = None) -> float | None:
    """When a process started, in seconds since the epoch; or another clock tick of its life."""
    try:
        ticks = (process.started if tick is None else tick) / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks
    except (AttributeError, OSError, ValueError):
        return None


def numbers(pid: int, proc: Path = PROC) -> tuple[int, ...]:
    """A process's pid in every pid namespace that it is in, ours first."""
    try:
        told = _status(proc / str(pid)).get("NSpid", "").split()
    except OSError:
        told = []
    return tuple(int(each) for each in told if each.isdigit()) or (pid,)


def user(uid: int) -> str:
    """The owner of a process: `user nobody`, `uid 1001`."""
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"


def owned(process: Process) -> str:
    """A process in a few words: `pid 71`, with its owner where that is another user."""
    return f"pid {process.pid}" + (f" of {user(process.owner)}" if process.owner != os.geteuid() else "")


def pids(proc: Path = PROC) -> list[int]:
    """Every pid that shows here."""
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        return []


def everything(wanted: Callable[[Process], bool], proc: Path = PROC) -> dict[int, Process]:
    """Every process that shows here and has a command line. Only those that are `wanted` keep their words and variables.

    lockllm reads no more of each than a search needs, so that neither their number nor the length of their command lines makes a
    check longer or larger. Raises Crowded where too many are wanted.
    """
    found = {}
    left = _MOST_HELD
    for pid in pids(proc):
        try:
            process = read(pid, proc, _MOST_SEARCHED)
        except Gone:
            continue
        if not process.title or not (process.argv or process.exe):
            continue
        if wanted(process):
            left -= _size(process)
            if left < 0:
                raise Crowded
        else:
            process = msgspec.structs.replace(process, argv=(), title="", env={}, env_whole=False)
        found[pid] = process
    return found


def tree(proc: Path = PROC) -> dict[int, Process]:
    """Every process with only its place in the tree and its start: one small file of each is read."""
    found = {}
    for pid in pids(proc):
        try:
            fields = _fields(proc / str(pid))
        except OSError:
            continue
        found[pid] = Process(
            pid=pid,
            ppid=int(fields[1]),
            argv=(),
            title="",
            env={},
            env_whole=False,
            cwd="",
            exe="",
            root=Path("/"),
            started=int(fields[19]),
            owner=-1,
        )
    return found


def whole(processes: Iterable[Process], proc: Path = PROC) -> tuple[Process, ...]:
    """The same processes with all their words and variables, as long as they are few; those that ended are left out."""
    found = []
    left = _MOST_HELD
    for process in processes:
        try:
            again = read(process.pid, proc) if left > 0 else process
        except Gone:
            continue
        left -= _size(again)
        found.append(again)
    return tuple(found)


def _size(process: Process) -> int:
    """About how many bytes the words and variables of a process take."""
    words = sum(len(word) + 60 for word in process.argv)
    return words + sum(len(name) + len(value) + 160 for name, value in process.env.items())


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


def mapped_files(pid: int, proc: Path = PROC) -> tuple[MappedFile, ...]:
    """The files mapped into a process, each once. Raises OSError where they are closed to this user."""
    found: dict[tuple[str, str], MappedFile] = {}
    for line in _bounded(proc / str(pid) / "maps", _MOST_MAPS).decode("utf-8", "surrogateescape").split("\n"):
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/"):
            continue
        path = fields[5].removesuffix(" (deleted)")
        key = (path, fields[4])
        if key not in found:
            found[key] = MappedFile(_unescaped(path), fields[3], int(fields[4]), fields[5].endswith(" (deleted)"))
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


def _status(folder: Path) -> dict[str, str]:
    lines = _bounded(folder / "status", 1 << 16).decode("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _started(folder: Path) -> int:
    return int(_fields(folder)[19])


def _fields(folder: Path) -> list[bytes]:
    """What `stat` says after the name: the state, the parent's pid and numbers, of which the 20th is the start."""
    text = _bounded(folder / "stat", 1 << 14)
    try:
        fields = text[text.rindex(b")") + 2 :].split()
        int(fields[1]), int(fields[19])
    except (ValueError, IndexError) as error:
        raise OSError(errno.EIO, "stat is no line of numbers") from error
    return fields


def _same_files(folder: Path, proc: Path) -> bool:
    """Whether it sees the files that we see: the same `/`, in the same mount namespace.

    A container's root also reads as `/`; a process of another mount namespace may have the same root, and another file system
    mounted over any folder below it (`unshare -m`, PrivateTmp and BindPaths of systemd).
    """
    try:
        if os.readlink(folder / "ns/mnt") != os.readlink(proc / "self/ns/mnt"):
            return False
    except OSError:
        pass
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


def _whole_words(raw: bytes, most: int) -> bytes:
    """The words that end within so many bytes; a cut word is left out."""
    return raw if len(raw) <= most else raw[: raw.rfind(b"\0", 0, most) + 1]


def _closed(pid: int, owner: int) -> str:
    """Why a process is closed to this user."""
    if os.geteuid() == owner:
        return f"process {pid} cannot be inspected: this needs the capability CAP_SYS_PTRACE"
    return f"process {pid} belongs to {user(owner)}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _unescaped(path: str) -> str:
    return path.replace("\\012", "\n")
