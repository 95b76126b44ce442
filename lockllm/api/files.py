"""Read and write documents: with a size limit, and never half written."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time

import msgspec

from lockllm.documents import toml
from lockllm.documents.lock import Lock
from lockllm.documents.lock import read as read_lock_text
from lockllm.errors import LockError, LockllmError, UsageError, WorldError
from lockllm.facts.observation import Observation

_FIXES = {errno.ENOSPC: "free some space", errno.EDQUOT: "free some space", errno.ENOENT: "create its directory"}
_NO_LOCK = "make one with `lockllm lock`, or name it: lockllm verify PATH"
_DAY = 86_400  # seconds
PENDING: set[str] = set()
"""Temporary files that are not renamed to their targets yet."""


def read_bytes(path: str, error: type[LockllmError], fix: str) -> bytes:
    """The bytes of a regular file, or of standard input for `-`. A file that is missing or no file is `error`; I/O is WorldError."""
    if path == "-":
        return sys.stdin.buffer.read(toml.LONGEST + 1)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise error("not a regular file", where=path, fix="name a file")
            return file.read(toml.LONGEST + 1)
    except FileNotFoundError as cause:
        raise error("no such file", where=path, fix=fix) from cause
    except IsADirectoryError as cause:
        raise error("this is a directory", where=path, fix="name a file in it") from cause
    except ValueError as cause:
        raise error("not a file name", where=repr(path), fix="name a file") from cause
    except OSError as cause:
        raise WorldError(
            f"the file cannot be read: {_reason(cause)}", where=path, fix="check its permissions"
        ) from cause


def read_text(path: str) -> str:
    """The text of any file."""
    return toml.decode(read_bytes(path, UsageError, "name a file"), path, UsageError)


def read_lock(path: str) -> Lock:
    """The lock in a file."""
    return _lock(read_bytes(path, LockError, _NO_LOCK), path)


def read_observation(path: str) -> Observation:
    """The observation in a file, or on standard input."""
    from lockllm.errors import ObservationError

    return _observation(read_bytes(path, ObservationError, "write one with `lockllm observe -o FILE`"), path)


def read_either(path: str) -> Lock | Observation:
    """The lock or the observation in a file: what begins with a brace is JSON."""
    data = read_bytes(path, LockError, _NO_LOCK)
    is_json = path.endswith(".json") or data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return _observation(data, path) if is_json else _lock(data, path)


def write_text(path: str, text: str) -> None:
    """Write a temporary file, flush, and rename it: the old text stays until the new one is complete. Links are followed."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target) or "."
    if os.path.exists(target) and not os.path.isfile(target):
        if stat.S_ISCHR(os.stat(target).st_mode) or stat.S_ISFIFO(os.stat(target).st_mode):
            _write_stream(path, target, text)
            return
        raise UsageError("not a regular file", where=path, fix="name a file")
    beside = ""
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else None
        _sweep(folder, os.path.basename(target))
        beside = os.path.join(folder, f".{os.path.basename(target)[:100]}.{os.urandom(4).hex()}")
        PENDING.add(beside)
        descriptor = os.open(
            beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(beside, mode)
        os.replace(beside, target)
    except OSError as cause:
        fix = _FIXES.get(cause.errno or 0, "check the permissions of its directory")
        raise WorldError(f"the file cannot be written: {_reason(cause)}", where=path, fix=fix) from cause
    finally:
        with contextlib.suppress(OSError):
            if beside:
                os.unlink(beside)
        PENDING.discard(beside)


def _lock(data: bytes, path: str) -> Lock:
    if not data.strip():
        raise LockError("the file is empty", where=path, fix="make a lock with `lockllm lock`")
    return msgspec.structs.replace(read_lock_text(toml.decode(data, path, LockError), path), name=path)


def _observation(data: bytes, path: str) -> Observation:
    from lockllm.documents import observation
    from lockllm.errors import ObservationError

    if not data.strip():
        raise ObservationError("the file is empty", where=path, fix="write one with `lockllm observe -o FILE`")
    return observation.read(data, path)


def _write_stream(path: str, target: str, text: str) -> None:
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a reader is an error
        os.set_blocking(descriptor, True)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as cause:
        if cause.errno == errno.ENXIO:
            raise WorldError(
                "nothing reads this pipe", where=path, fix="name a file, or start the reader first"
            ) from cause
        fix = _FIXES.get(cause.errno or 0, "name another file")
        raise WorldError(f"the file cannot be written: {_reason(cause)}", where=path, fix=fix) from cause


def _sweep(folder: str, name: str) -> None:
    """Remove temporary files of a killed run: none takes a day."""
    left = re.compile(rf"\.{re.escape(name[:100])}\.[a-z0-9_]{{8}}\Z")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if left.match(entry.name) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.geteuid() and time.time() - status.st_mtime > _DAY:
                    os.unlink(entry.path)


def _reason(cause: OSError) -> str:
    return (cause.strerror or str(cause)).lower()
