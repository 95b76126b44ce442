"""Files of a foreign environment, opened without waiting: a pipe or a device that lies in a file's place ends nothing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def opened(path: str | Path) -> BinaryIO:
    """A regular file. OSError for a pipe, a device, a folder and whatever is no path."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return open(descriptor, "rb")


def start(path: str | Path, most: int) -> bytes:
    """The first bytes of a regular file."""
    with opened(path) as file:
        return file.read(most)
