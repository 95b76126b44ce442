"""Following links by hand, so that a path below `/proc/PID/root` stays in that process's view of the files."""

from __future__ import annotations

import os
import re

_VIEW = re.compile(r"/proc/(?:\d+|self|thread-self)/root(?=/|\Z)")
_HOPS = 40


def view(path: str) -> str:
    """The prefix that stands for another process's root directory; empty for our own."""
    found = _VIEW.match(path)
    return found.group(0) if found else ""


def real(path: str) -> str:
    """The path without any link in it, in the same view. OSError where links run in a circle."""
    absolute = os.path.abspath(path)
    prefix = view(absolute)
    if not prefix:
        return os.path.realpath(absolute)
    todo = absolute[len(prefix) :].strip("/").split("/")
    done: list[str] = []
    hops = 0
    while todo:
        part = todo.pop(0)
        if part in {"", "."}:
            continue
        if part == "..":
            done[-1:] = []
            continue
        try:
            target = os.readlink("/".join((prefix, *done, part)))
        except OSError:
            done.append(part)
            continue
        hops += 1
        if hops > _HOPS:
            raise OSError(40, "too many levels of symbolic links", path)
        if target.startswith("/"):
            done = []
        todo[:0] = target.split("/")
    return "/".join((prefix, *done))


def inside(path: str, folder: str) -> bool:
    """Whether a path without links lies in a folder without links."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
