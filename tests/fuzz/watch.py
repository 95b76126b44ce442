"""Every case is watched: how long it takes, and the most memory that the process ever held while it ran."""

from __future__ import annotations

import functools
import os
import resource
import struct
import time
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Any

MOST_SECONDS = 5.0
MOST_KB = 300_000
_NOTE = struct.Struct("<QddQd")


class Board:
    """A note in shared memory: what the fuzzing process does now, for the one that watches it."""

    size = _NOTE.size

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(self.size))
        with path.open("r+b") as file:
            self.held = mmap(file.fileno(), self.size)
        self.cases = 0
        self.peak = 0
        self.slowest = 0.0

    def note(self, begun: float, cpu: float) -> None:
        self.held[:] = _NOTE.pack(self.cases, begun, cpu, self.peak, self.slowest)

    def read(self) -> tuple[int, float, float, int, float]:
        """Cases, when the present one began (0: none runs), processor seconds by then, most memory in kB, slowest seconds."""
        return _NOTE.unpack(self.held[:])  # type: ignore[return-value]


class TooMuch(BaseException):
    """A case took more memory than is allowed. No Exception, so that nothing on the way swallows it."""


def watched(board: Board) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that puts each call under watch."""

    def around(run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def case(*args: Any, **kwargs: Any) -> Any:
            _forget_peak()
            begun, cpu = time.monotonic(), time.process_time()
            board.note(begun, cpu)
            try:
                return run(*args, **kwargs)
            finally:
                board.cases += 1
                board.slowest = max(board.slowest, time.process_time() - cpu)
                board.peak = max(board.peak, peak := _peak())
                board.note(0.0, 0.0)
                if peak > MOST_KB:
                    raise TooMuch(f"{peak:,} kB of memory")

        return case

    return around


def _forget_peak() -> None:
    descriptor = os.open("/proc/self/clear_refs", os.O_WRONLY)
    try:
        os.write(descriptor, b"5")
    finally:
        os.close(descriptor)


def _peak() -> int:
    """In kB: of this process since the last case began, of its children ever."""
    with open("/proc/self/status") as status:
        own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
