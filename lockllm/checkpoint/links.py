"""Paths below `/proc/PID/root` are followed and opened in that process's view of the files: no link leads out of it."""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Callable
from functools import cache

from lockllm.checkpoint import stamps

_VIEW = re.compile(r"/proc/(?:\d+|self|thread-self)/root(?=/|\Z)")
_HOPS = 40
_OPENAT2 = 437
"""The number of the call on every architecture but Alpha (Linux 5.6)."""
_IN_ROOT, _NO_MAGICLINKS = 0x10, 0x02
_TRIES = 8
"""How often a path is tried again that was renamed while it was followed."""


def view(path: str) -> str:
    """The prefix that stands for another process's root directory; empty for our own."""
    found = _VIEW.match(path)
    return found.group(0) if found else ""


def real(path: str) -> str:
    """The path without any link in it, in the same view. OSError where links run in a circle."""
    absolute = os.path.abspath(path)
    return _followed(absolute)[0] if view(absolute) else os.path.realpath(absolute)


def crossed(path: str) -> tuple[str, ...]:
    """The links that lie on the way to a path, each without any link before it."""
    return tuple(_followed(os.path.abspath(path))[1])


def _followed(absolute: str) -> tuple[str, list[str]]:
    prefix = view(absolute)
    todo = absolute[len(prefix) :].strip("/").split("/")
    done: list[str] = []
    crossed: list[str] = []
    while todo:
        part = todo.pop(0)
        if part in {"", "."}:
            continue
        if part == "..":
            done[-1:] = []
            continue
        here = "/".join((prefix, *done, part))
        try:
            target = os.readlink(here)
        except OSError:
            done.append(part)
            continue
        crossed.append(here)
        if len(crossed) > _HOPS:
            raise OSError(40, "too many levels of symbolic links", absolute)
        if target.startswith("/"):
            done = []
        todo[:0] = target.split("/")
    return "/".join((prefix, *done)), crossed


def inner(path: str) -> str:
    """A path to look at by name: without any link where it lies in another process's view, else as it stands."""
    return real(path) if view(os.path.abspath(path)) else path


def opened(path: str, flags: int) -> int:
    """A descriptor of what a path names; every link of a path below `/proc/PID/root` is followed inside that root.

    The kernel itself keeps to the root where it can (`openat2` with RESOLVE_IN_ROOT); else the links are followed by hand.
    """
    if flags & os.O_PATH:
        return _opened(path, flags)
    try:
        descriptor = _opened(
            path, flags | os.O_NOATIME
        )  # a look leaves no trace, and so the next one finds what this one found
    except PermissionError as error:  # another user's file
        if error.errno != errno.EPERM:
            raise
        descriptor = _opened(path, flags)
    stamps.opened(path, descriptor)
    return descriptor


def _opened(path: str, flags: int) -> int:
    absolute = os.path.abspath(path)
    prefix = view(absolute)
    if not prefix:
        return os.open(path, flags)
    rest = absolute[len(prefix) :].lstrip("/") or "."
    folder = os.open(prefix, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = _in_root(folder, rest, flags)
    finally:
        os.close(folder)
    return descriptor if descriptor is not None else os.open(real(path), flags | os.O_NOFOLLOW)


def inside(path: str, folder: str) -> bool:
    """Whether a path without links lies in a folder without links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@cache
def _syscall() -> Callable[..., int] | None:
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_long
    return call


def _in_root(folder: int, rest: str, flags: int) -> int | None:
    """A descriptor by `openat2`; None where the kernel has no such call, or a filter of calls keeps it from us."""
    call = _syscall()
    if call is None:
        return None
    import ctypes

    how = struct.pack("QQQ", flags, 0, _IN_ROOT | _NO_MAGICLINKS)  # `struct open_how`: flags, mode, resolve
    for _ in range(_TRIES):
        found = call(
            ctypes.c_long(_OPENAT2), ctypes.c_int(folder), ctypes.c_char_p(os.fsencode(rest)), ctypes.c_char_p(how),
            ctypes.c_size_t(len(how)),
        )  # fmt: skip
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM, errno.E2BIG, errno.EINVAL):  # EPERM: a filter of calls, or O_NOATIME
            return None
        if number != errno.EAGAIN:
            raise OSError(number, os.strerror(number), rest)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), rest)
