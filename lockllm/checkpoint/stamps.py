"""What a file system said of each file that was looked at, so that one more look can tell what moved in between."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
from collections.abc import Iterator
from contextvars import ContextVar

import msgspec

_LIVING = re.compile(r"/(?:proc/(?!(?:\d+|self|thread-self)/root(?:/|\Z))|sys/|dev/)")
"""What the kernel makes up at each look: its times say nothing."""


_HERE, _NO_FOLLOW, _BIRTH = -100, 0x100, 0x800
"""`AT_FDCWD`, `AT_SYMLINK_NOFOLLOW` and `STATX_BTIME` of Linux."""


class Stamp(msgspec.Struct, frozen=True):
    """What a file system says of a file that changes whenever its bytes do."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Held(msgspec.Struct, frozen=True):
    """A digest of a file, or of its first bytes, and the stamp that the file bore while they were read."""

    algorithm: str  # sha256, blake3
    digest: str
    length: int | None  # of the first bytes; None: of all
    stamp: Stamp


class Noted(msgspec.Struct):
    """One file that was looked at: how it looked first, and what is known of its bytes."""

    first: Stamp
    held: list[Held] = []

    def add(self, held: Held) -> None:
        """One more digest; the same one under another stamp replaces the former."""
        same = (held.algorithm, held.digest, held.length)
        self.held = [each for each in self.held if (each.algorithm, each.digest, each.length) != same] + [held]


class Ledger:
    """The files that were looked at, by the paths that were opened."""

    def __init__(self) -> None:
        self.files: dict[str, Noted] = {}


_active: ContextVar[tuple[Ledger, ...]] = ContextVar("ledgers", default=())
"""A thread sees the ledgers of whoever started it, if it is started in a copy of that context: two looks do not mix."""


@contextlib.contextmanager
def watching() -> Iterator[Ledger]:
    """While the block runs, every file that it opens is noted; so is what its threads open, if they run in its context."""
    ledger = Ledger()
    token = _active.set((*_active.get(), ledger))
    try:
        yield ledger
    finally:
        _active.reset(token)


def stamp(status: os.stat_result) -> Stamp:
    """The stamp in a stat result."""
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def born_ns(path: str) -> int | None:
    """When the file that a path without links names came into being; None where the file system does not tell."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "statx", None)
    buffer = ctypes.create_string_buffer(256)  # `struct statx`
    if call is None or call(_HERE, os.fsencode(path), _NO_FOLLOW, _BIRTH, buffer) != 0:
        return None
    (mask,) = struct.unpack_from("I", buffer, 0)
    seconds, fraction = struct.unpack_from("qI", buffer, 80)
    return seconds * 10**9 + fraction if mask & _BIRTH else None


def only_touched(path: str, at: Stamp, atime_ns: int) -> bool:
    """Whether the last thing that happened to a file was `touch`, which moves all its times to one moment, and no byte.

    A write leaves the time of access, and a file that is new has no earlier time of birth. The path is one without links.
    """
    if not atime_ns == at.mtime_ns == at.ctime_ns:
        return False
    born = born_ns(path)
    return born is not None and born < at.ctime_ns


def timeless(found: Stamp) -> tuple[int, int, int, int]:
    """A stamp without the time of the last change of anything, which a hard link or another mode moves too."""
    return found.device, found.inode, found.size, found.mtime_ns


def opened(path: str, descriptor: int) -> None:
    """Note a file that was opened."""
    if _active.get() and not _LIVING.match(path):
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            seen(path, stamp(status))


def seen(path: str, first: Stamp) -> None:
    """Note how a file looks; of one that is noted already the first word stays."""
    for ledger in _active.get():
        ledger.files.setdefault(os.path.abspath(path), Noted(first))


def holds(path: str, held: Held) -> None:
    """Note what is known of a file's bytes."""
    for ledger in _active.get():
        ledger.files.setdefault(os.path.abspath(path), Noted(held.stamp)).add(held)


def read(path: str, descriptor: int, raw: bytes, length: int | None = None) -> None:
    """Note bytes that were read from an open file: all of it, or the first `length`."""
    import hashlib

    if not _active.get() or len(raw) > 1 << 20 or _LIVING.match(path):
        return
    now = stamp(os.fstat(descriptor))
    digest = hashlib.sha256(raw, usedforsecurity=False).hexdigest()
    for ledger in _active.get():
        noted = ledger.files.setdefault(os.path.abspath(path), Noted(now))
        # where it moved since it was opened first, the stamp of then lets the last look read it again
        noted.add(Held("sha256", digest, length, noted.first))
