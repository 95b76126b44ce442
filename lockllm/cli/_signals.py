"""SIGINT and SIGTERM end a run at once: hashing threads must not delay it, and process 1 of a container ignores them by default.

Both are blocked in every thread, and a thread of their own waits for them. A handler would run on the main thread only, which
waits for the others and is not always the one that the kernel wakes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Collection
from types import FrameType

from lockllm.api import files

_before: list[set[int]] = []


def install() -> None:
    """End at once on SIGINT and SIGTERM, unless the parent process set them to be ignored."""
    numbers = {each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN}
    for number in numbers:
        signal.signal(number, _handle)
    _before.append({int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, numbers)})
    try:
        threading.Thread(target=_wait, args=(numbers,), name="signals", daemon=True).start()
    except RuntimeError:  # a limit on memory or on threads: the handlers above do what they can
        restore()


def restore() -> None:
    """Restore the signal mask for the program that this process becomes."""
    if _before:
        signal.pthread_sigmask(signal.SIG_SETMASK, _before[-1])


def _wait(numbers: Collection[int]) -> None:
    _end(signal.sigwait(numbers))


def _handle(number: int, frame: FrameType | None) -> None:
    _end(number)


def _end(number: int) -> None:
    """Remove temporary files that were not renamed to their targets yet."""
    for path in tuple(files.PENDING):
        with contextlib.suppress(OSError):
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.write(2, b"\nlockllm: interrupted; no file was left half written\n")
    os._exit(128 + number)
