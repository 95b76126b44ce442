"""A refusal is shown where operators look at a container: its first lines go to the termination log."""

from __future__ import annotations

import contextlib
import os

TERMINATION_LOG = "/dev/termination-log"
_LONGEST = 4000  # Kubernetes keeps 4096 bytes


def termination_log(text: str, path: str = TERMINATION_LOG) -> None:
    """Write the first lines of a text to the termination log, if there is one."""
    if not text or not os.path.exists(path):
        return
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text[:_LONGEST])
