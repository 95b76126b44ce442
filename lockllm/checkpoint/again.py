"""One more look at the files that were looked at: which of them hold other bytes by now, or may."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from lockllm.checkpoint import links
from lockllm.checkpoint.stamps import Held, Ledger, Noted, Stamp, stamp, timeless

_BLOCK = 1 << 20


def moved(ledger: Ledger) -> dict[str, str]:
    """The files that moved since they were noted, and how: `changed`, `is gone`.

    One whose times moved alone is read again where a digest of its bytes is known: a touched file holds what it held.
    """
    found = {}
    for path, noted in tuple(ledger.files.items()):
        if (why := _moved(path, noted)) is not None:
            found[path] = why
    return found


def _moved(path: str, noted: Noted) -> str | None:
    now = look(path)
    if now is None:
        return "is gone"
    if noted.held:
        return None if all(now == held.stamp or _holds(path, held) for held in noted.held) else "changed"
    if now == noted.first:
        return None
    return "changed" if timeless(now) != timeless(noted.first) else "may have changed: its time of change moved"


def look(path: str) -> Stamp | None:
    """The stamp of a file as it is now; None where nothing can be seen of it."""
    try:
        descriptor = links.opened(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        return stamp(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _holds(path: str, held: Held) -> bool:
    """Whether a file still holds the bytes of a digest."""
    try:
        descriptor = links.opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    made = _made(held.algorithm)
    left = held.length
    with open(descriptor, "rb", buffering=0) as file:
        before = stamp(os.fstat(descriptor))
        while block := file.read(_BLOCK if left is None else min(_BLOCK, left)):
            made.update(block)
            left = None if left is None else left - len(block)
        after = stamp(os.fstat(descriptor))
    return before == after and made.hexdigest() == held.digest


def _made(algorithm: str) -> Any:
    if algorithm == "blake3":
        from blake3 import blake3

        return blake3(max_threads=blake3.AUTO)
    return hashlib.new(algorithm, usedforsecurity=False)
