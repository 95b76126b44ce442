"""Digests that were computed earlier, kept in a private folder, and believed only while nothing about a file has moved."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from lockllm.checkpoint import bounded, links
from lockllm.checkpoint.hashing import Digest
from lockllm.checkpoint.stamps import Stamp, stamp

_VERSION = 1
_LONGEST = 64 * 2**20
_FRESH_NS = 2_000_000_000
"""A file modified this shortly before it was hashed may be modified again under the same time: two seconds, FAT's clock."""
_LOCAL = frozenset({
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay", "bcachefs", "jfs", "reiserfs", "apfs", "hfs", "ufs",
})  # fmt: skip
"""Those whose times tell of every write. tmpfs notes no time for a second write through one mapping, ZFS notes it half a minute late."""
_WITHOUT = frozenset(
    {"squashfs", "erofs", "cramfs", "romfs", "iso9660", "udf", "vfat", "msdos", "exfat", "hfsplus", "ntfs3", "ntfs"}
)
"""Those that keep no time of the last change of a file, or are images that are made with any times and exchanged whole: two
images made with fixed times agree in device, inode, size and every time. Nothing is kept of them, whoever asks for it."""
_UNSEEN = "an overlay whose layers do not show here"
_LAYERS = re.compile(r"(?:lowerdir\+?|datadir\+|upperdir)=(.*)", re.DOTALL)
_DEEP = 4
_MOST_SPANS = 8
_NEWS_NS = 10**9
"""A span that grew by less is not worth writing."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_BOOT = "/proc/sys/kernel/random/boot_id"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One digest that was computed earlier."""

    stamp: Stamp
    filesystem: str
    sha256: str  # empty where only BLAKE3 was computed
    git: str | None = None
    blake3: str | None = None
    at: str = ""  # when, RFC 3339


_JUDGED = "2"  # moves with what headers are held against: findings of an older rule are not believed


class Headers(msgspec.Struct, frozen=True, kw_only=True):
    """What all headers of the weight files said together, when nothing was wrong with them."""

    key: str  # over names, stamps and file systems of the weight files and their index
    dtypes: dict[str, int]
    packed: tuple[str, ...]
    read: int
    right: tuple[tuple[str, str, str], ...]  # findings that passed: name, detail, source


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of time in which a file was known to hold the bytes of one digest: from its last change to a look, in ns."""

    digest: str
    spans: tuple[tuple[int, int], ...]
    stamp: Stamp  # at the last look


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """The file of one checkpoint."""

    version: int
    boot: str
    files: dict[str, Kept]
    headers: Headers | None = None
    known: dict[str, Known] = {}


class Cache(msgspec.Struct, kw_only=True):
    """What is kept for one checkpoint. `file` is None where nothing may be kept; `reason` says why."""

    file: str | None
    kind: str = ""  # of file system
    reason: str = ""
    kept: dict[str, Kept] = {}
    headers: Headers | None = None
    known: dict[str, Known] = {}
    boot: str = ""
    moved: bool = False  # whether there is something to write


def folder(environ: Mapping[str, str], home: str) -> str:
    """Where digests are kept: `LOCKLLM_CACHE`, else below `XDG_CACHE_HOME`, else below the home directory."""
    given = environ.get("LOCKLLM_CACHE")
    return given or os.path.join(environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "lockllm")


def opened(root: str, where: str, *, everywhere: bool, read: bool = True) -> Cache:
    """The cache of one checkpoint. On network and FUSE file systems only if `everywhere`. Whatever is wrong with it, it is empty.

    The folder is trusted: it must belong to this user, and nothing in it is signed.
    """
    kind = filesystem(root)
    if kind in _WITHOUT or (not everywhere and kind not in _LOCAL):
        return Cache(file=None, reason=f"the checkpoint lies on {kind or 'a file system of unknown kind'}")
    if links.inside(os.path.realpath(where), root):
        return Cache(file=None, reason="the cache folder lies in the checkpoint")
    problem = _private(where)
    if problem:
        return Cache(file=None, reason=f"{where} {problem}")
    named = hashlib.sha256(_name(root), usedforsecurity=False).hexdigest()
    file = os.path.join(where, named[:32] + ".json")
    boot = _boot()
    held = _read(file, boot)
    if held is None:
        return Cache(file=file, kind=kind, boot=boot)
    return Cache(
        file=file, kind=kind, boot=boot, known=held.known, kept=held.files if read else {},
        headers=held.headers if read else None,
    )  # fmt: skip


def _name(root: str) -> bytes:
    """What a checkpoint is known by: its path; of one in another process's view not the pid, but what lies there."""
    prefix = links.view(root)
    if not prefix:
        return os.fsencode(root)
    try:
        status = os.stat(root)
    except OSError:
        return os.fsencode(root)
    return os.fsencode(root[len(prefix) :]) + b"\0%d-%d" % (status.st_dev, status.st_ino)


def settler(cache: Cache) -> Callable[[int], bool]:
    """What writes out the pages of an open file, so that its times tell of every later write; false where that fails.

    The kernel notes the time of a write through a mapping only where the page was clean before (Linux 6.18: ext4, overlayfs).
    """
    import ctypes

    libc = ctypes.CDLL(None)
    start, end, flags = ctypes.c_int64(0), ctypes.c_int64(0), 7  # the whole file: wait, write, wait
    by_range = cache.kind != "overlay" and hasattr(libc, "sync_file_range")  # overlayfs hands on the slower one alone

    def settle(descriptor: int) -> bool:
        if by_range and libc.sync_file_range(descriptor, start, end, flags) == 0:
            return True
        try:
            os.fdatasync(descriptor)
        except OSError:
            return False
        return True

    return settle


def settled(cache: Cache, paths: Iterable[str]) -> bool:
    """Writes out the pages of these files; whether all could be."""
    settle = settler(cache)
    for path in paths:
        try:
            descriptor = bounded.open_regular(path)
        except (OSError, bounded.Malformed):
            return False
        try:
            if not settle(descriptor):
                return False
        finally:
            os.close(descriptor)
    return True


def look_up(cache: Cache, name: str, path: str) -> tuple[Kept | None, Stamp | None]:
    """The kept digest of a file, if everything that a file system says of it is as it was; and what it says now."""
    try:
        now = stamp(os.stat(path))
        kept = cache.kept.get(name)
        if kept is None or kept.stamp != now or kept.filesystem != identity(path):
            return None, now
    except OSError:
        return None, None
    return kept, now


def keep(cache: Cache, found: Mapping[str, tuple[str, Digest]]) -> None:
    """Adds digests (name -> path, digest). A file that was modified just before it was hashed is left out."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for name, (path, digest) in found.items():
        cache.moved = cache.kept.pop(name, None) is not None or cache.moved
        if not digest.settled or not _is_old(digest.stamp, digest.began_ns):
            continue
        try:
            system = identity(path)
        except OSError:
            continue
        cache.moved = True
        cache.kept[name] = Kept(
            stamp=digest.stamp, filesystem=system, sha256=digest.sha256, git=digest.git, blake3=digest.blake3, at=at
        )


def remember(
    cache: Cache | None, name: str, digest: str, now_at: Stamp, since: int, *, first: int | None = None
) -> Known:
    """The spans in which a file is known to hold these bytes: those of earlier looks, and the one from its last change to now.

    `first` takes the place of `since` where no earlier look speaks against it.
    """
    now = time.time_ns()
    former = cache.known.get(name) if cache is not None else None
    if former is None:
        spans = [(since if first is None else first, now)]
    elif former.digest != digest:
        spans = [(since, now)]
    else:
        spans = [*former.spans]
        if spans and spans[-1][0] <= since <= spans[-1][1]:
            spans[-1] = (spans[-1][0], now)
        else:
            spans = [*spans[1 - _MOST_SPANS :], (since, now)]
    made = Known(digest=digest, spans=tuple(spans), stamp=now_at)
    if cache is not None and cache.file is not None:
        cache.known[name] = made
        cache.moved = cache.moved or former is None or former.stamp != now_at or now - former.spans[-1][1] > _NEWS_NS
    return made


def headers_key(paths: Mapping[str, str], now_ns: int) -> str | None:
    """The key of what the headers of these files say; None where one was modified just now or cannot be seen."""
    lines = [_JUDGED]
    for name, path in sorted(paths.items()):
        try:
            found = stamp(os.stat(path))
            lines.append(repr((name, *msgspec.structs.astuple(found), identity(path))))
        except OSError:
            return None
        if not _is_old(found, now_ns):
            return None
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def write(cache: Cache) -> None:
    """Writes what is kept, if anything moved: beside, then renamed. A cache that cannot be written is no cache."""
    if cache.file is not None and cache.moved:
        _write(
            cache.file,
            _Document(version=_VERSION, boot=cache.boot, files=cache.kept, headers=cache.headers, known=cache.known),
        )


def _is_old(found: Stamp, began_ns: int) -> bool:
    return max(found.mtime_ns, found.ctime_ns) <= began_ns - _FRESH_NS


def identity(path: str) -> str:
    """The identity of the file system that a path lies on, as far as the kernel gives one."""
    found = os.statvfs(path)
    return f"{found.f_fsid:x}-{found.f_bsize}-{found.f_namemax}"


def filesystem(path: str, depth: int = 0) -> str:
    """The kind of file system that a path without links lies on, by the mounts of its view; empty where nothing tells.

    Of an overlay it is that of the first layer that is not of a kind that tells of every write: a file of it may lie there.
    """
    prefix = links.view(path)
    table = os.path.join(os.path.dirname(prefix), "mountinfo") if prefix else "/proc/self/mountinfo"
    try:
        lines = bounded.read_small(table, 2**24).decode("utf-8", "replace").splitlines()
    except bounded.Malformed:
        return ""
    kind, options = mounted(lines, path[len(prefix) :] or "/")
    if kind != "overlay":
        return kind
    layers = list(_layers(options))
    if not layers or depth > _DEEP:
        return _UNSEEN
    for layer in layers:
        where = next((each for each in (prefix + layer, layer) if os.path.isdir(each)), None)
        if where is None:
            return _UNSEEN
        below = filesystem(links.real(where), depth + 1)
        if below not in _LOCAL:
            return below
    return kind


def mounted(lines: Iterable[str], path: str) -> tuple[str, str]:
    """The kind and the options of the file system that lies at a path, by the lines of a mountinfo."""
    best, kind, options = -1, "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        mount = _plain(fields[4])
        if links.inside(path, mount) and len(mount) >= best:
            kind, _, rest = after.partition(" ")
            options = rest.rpartition(" ")[2]
            best = len(mount)
    return kind, options


def _layers(options: str) -> Iterator[str]:
    """The folders that an overlay is made of. A colon between two of them stands bare, one in a name behind a backslash."""
    for option in options.split(","):
        found = _LAYERS.fullmatch(option)
        for layer in re.split(r"(?<!\\):", _plain(found[1])) if found is not None else ():
            if layer:
                yield re.sub(r"\\(.)", r"\1", layer)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 8)), text)


def _boot() -> str:
    try:
        return bounded.read_small(_BOOT, 100).decode("ascii", "replace").strip()
    except bounded.Malformed:
        return ""


def _private(where: str) -> str:
    """What keeps a folder from being used: it must be ours alone. It is made where it is not there."""
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        status = os.lstat(where)
    except OSError as error:
        return f"cannot be made: {bounded.why(error)}"
    if not stat.S_ISDIR(status.st_mode):
        return "is no folder"
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        return "is not private: others may write it"
    return ""


def _read(file: str, boot: str) -> _Document | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as opened_file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        try:
            # read(n) reserves n bytes at once: as many as the file has, not as many as it may have
            raw = opened_file.read(min(status.st_size, _LONGEST) + 1)
            if len(raw) > _LONGEST:
                return None
            found = msgspec.json.decode(raw, type=_Document)
        except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None
    if found.version != _VERSION or found.boot != boot or not boot:
        return None
    files = {name: each for name, each in found.files.items() if _can_be(each)}
    return msgspec.structs.replace(found, files=files)


def _can_be(kept: Kept) -> bool:
    """Whether every digest that an entry holds can be one, and it holds one."""
    held = [digest for digest in (kept.sha256, kept.blake3) if digest]
    return bool(held) and all(map(_DIGEST.match, held))


def _write(file: str, document: _Document) -> None:
    import tempfile

    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(file))
        with open(descriptor, "wb") as out:
            out.write(msgspec.json.encode(document))
        os.replace(temporary, file)
    except (OSError, UnicodeError):
        if temporary is not None:
            try:
                os.unlink(temporary)
            except OSError:
                pass
