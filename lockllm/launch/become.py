"""Replacing this process by the server that was verified."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from lockllm.errors import UsageError, WorldError


def program(name: str, environ: Mapping[str, str]) -> str:
    """The file that a command's first word names, by PATH where it holds no slash. UsageError where it cannot be run."""
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    if path is not None:
        return path
    what, fix = f"there is no program {name!r}", "name it by its whole path"
    if os.sep in name and os.path.isdir(name):
        what, fix = f"{name!r} is a directory", "name the program"
    elif os.sep in name and os.path.exists(name):
        what, fix = (
            f"{name!r} cannot be run: permission denied",
            "make it executable, or name the program that runs it",
        )
    raise UsageError(what, where="the command after --", fix=fix)


def become(path: str, argv: Sequence[str]) -> NoReturn:
    """Become the command: same pid, the words untouched, signals as they were before Python took them."""
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(path, [os.fsencode(word) for word in argv])  # noqa: S606
    except OSError as cause:
        reason = (cause.strerror or str(cause)).lower()
        raise WorldError(
            f"the command cannot be run: {reason}", where=path, fix="check that it is a program of this machine"
        ) from cause
