"""Progress of long work on stderr: one line, drawn again on a terminal; a plain line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

from lockllm.output.escape import visible

Progress = Callable[[int, int], None]
"""Called with bytes done, bytes in all, and the file at hand; from any thread."""

_REDRAW = 0.1
_PATIENCE = 0.5  # nothing is drawn for what is over sooner
_LINE_EVERY = 5.0
_WINDOW = 8.0  # the rate is that of the last seconds
_BAR = 20


@contextlib.contextmanager
def hashing(*, enabled: bool = True, stream: TextIO | None = None) -> Iterator[Progress | None]:
    """Shows progress while the block runs, and leaves a terminal as it was. Nothing where there is no stderr."""
    stream = sys.stderr if stream is None else stream
    if not enabled or stream is None:
        yield None
        return
    meter = Meter(stream, terminal=_is_terminal(stream))
    try:
        yield meter.advance
    finally:
        meter.close()


@contextlib.contextmanager
def requests(*, enabled: bool = True) -> Iterator[Callable[[int, int], None]]:
    """As `hashing`, for requests to a server."""
    if not enabled or sys.stderr is None:
        yield lambda done, total: None
        return
    meter = Meter(
        sys.stderr, terminal=_is_terminal(sys.stderr), words=("asking", "asked"), amount=lambda n: f"{n:.0f} requests"
    )
    try:
        yield meter.advance
    finally:
        meter.close()


class Meter:
    """How much is done, the rate, and the time left. `clock` counts seconds and never runs back.

    `words`: the verb now and afterwards; `amount` writes a count with its unit.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        terminal: bool,
        clock: Callable[[], float] = time.monotonic,
        words: tuple[str, str] = ("hashing", "hashed"),
        amount: Callable[[float], str] | None = None,
    ) -> None:
        self._words = words
        self._amount = amount or size
        self._stream = stream
        self._terminal = terminal
        self._clock = clock
        self._lock = threading.Lock()
        self._begun = clock()
        self._shown = self._begun + (_PATIENCE - _REDRAW if terminal else 0.0)
        self._samples: deque[tuple[float, int]] = deque([(self._begun, 0)])
        self._written = 0
        self._done = 0

    def advance(self, done: int, total: int, name: str = "") -> None:
        """Take note of where hashing stands; writes at most every tenth of a second, without a terminal every 5 s."""
        if not self._lock.acquire(blocking=False):
            return  # another thread is drawing: the next call will tell
        try:
            self._done = max(self._done, done)
            now = self._clock()
            if now - self._shown < (_REDRAW if self._terminal else _LINE_EVERY):
                return
            self._shown = now
            self._samples.append((now, self._done))
            while len(self._samples) > 2 and now - self._samples[0][0] > _WINDOW:
                self._samples.popleft()
            self._draw(total, visible(name))
        finally:
            self._lock.release()

    def close(self) -> None:
        """Take the line off the terminal; elsewhere say how it ended, if anything was said."""
        with self._lock:
            if not self._written:
                return
            if self._terminal:
                self._write("\r" + " " * self._written + "\r")
                return
            seconds = max(self._clock() - self._begun, 0.001)
            self._write(
                f"lockllm: {self._words[1]} {self._amount(self._done)} in {duration(seconds)}, {self._amount(self._done / seconds)}/s\n"
            )

    def _draw(self, total: int, name: str) -> None:
        (since, before), (now, done) = self._samples[0], self._samples[-1]
        rate = (done - before) / (now - since) if now > since else 0.0
        share = min(done / total, 1.0) if total > 0 else 0.0
        left = f", {duration(max(total - done, 0) / rate)} left" if rate > 0 and total > 0 else ""
        figures = f"{self._amount(done)} of {self._amount(total)}, {self._amount(rate)}/s{left}"
        if not self._terminal:
            self._written = 1
            self._write(f"lockllm: {self._words[0]}: {figures} ({share:.0%})\n")
            return
        bar = "#" * round(share * _BAR)
        width = shutil.get_terminal_size((80, 24)).columns - 1
        line = f"{self._words[0]} [{bar:.<{_BAR}}] {share:4.0%}  {figures}  {name}"[:width]
        self._write("\r" + line + " " * max(self._written - len(line), 0))
        self._written = len(line)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def size(count: float) -> str:
    """A number of bytes in the unit that a person reads."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} TB"


def duration(seconds: float) -> str:
    """A time in one or two units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (OSError, ValueError):
        return False
