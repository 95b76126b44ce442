"""Opens files of a foreign environment without waiting: a pipe or device in a file's place cannot block lockllm.

Of a path below another process's root every link is followed inside that root: `uv`'s `link-mode=symlink`, conda and Nix
link to absolute paths.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

from lockllm.checkpoint import links, stamps
from lockllm.checkpoint.bounded import Malformed, open_regular


def opened(path: str | Path) -> BinaryIO:
    """Open a regular file. OSError for a pipe, a device, a folder, and an impossible path."""
    try:
        return open(open_regular(os.fspath(path)), "rb")
    except Malformed as error:
        raise OSError(errno.EINVAL, "it is not a regular file") from error
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from error


def start(path: str | Path, most: int) -> bytes:
    """The first bytes of a regular file."""
    with opened(path) as file:
        raw = file.read(most)
        stamps.read(os.fspath(path), file.fileno(), raw, most)
        return raw


def is_file(path: Path) -> bool:
    """Whether a path names a regular file."""
    return os.path.isfile(_inner(path))


def is_folder(path: Path) -> bool:
    """Whether a path names a folder."""
    return os.path.isdir(_inner(path))


def names(folder: Path) -> list[str]:
    """The names in a folder, sorted. OSError where it cannot be listed."""
    return sorted(os.listdir(_inner(folder)))


def resolved(path: Path) -> Path:
    """The path without any link in it, in the same process's view."""
    try:
        return Path(links.real(str(path)))
    except OSError:
        return path


def _inner(path: Path) -> str:
    try:
        return links.inner(str(path))
    except OSError:  # links in a circle
        return str(path)
