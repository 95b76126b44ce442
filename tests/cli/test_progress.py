"""Progress while files are hashed, with a clock that the test turns."""

from __future__ import annotations

import io
import threading

import pytest

from lockllm.cli._progress import Meter, duration, hashing, size

GB = 10**9


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def meter(*, terminal: bool) -> tuple[Meter, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    return Meter(stream, terminal=terminal, clock=clock), stream, clock


def test_a_terminal_shows_bar_bytes_rate_time_left_and_file_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown, stream, clock = meter(terminal=True)
    clock.now = 2.0
    shown.advance(2 * GB, 10 * GB, "a.safetensors")
    assert (
        stream.getvalue()
        == "\rhashing [####................]  20%  2.0 GB of 10.0 GB, 1.0 GB/s, 8 s left  a.safetensors"
    )
    shown.close()
    last = stream.getvalue().split("\r")[-2]
    assert last.strip() == ""
    assert stream.getvalue().endswith("\r")


def test_what_is_over_soon_shows_nothing() -> None:
    for terminal in (True, False):
        shown, stream, clock = meter(terminal=terminal)
        clock.now = 0.3
        shown.advance(10, 10, "a")
        shown.close()
        assert stream.getvalue() == ""


def test_without_a_terminal_a_plain_line_comes_every_few_seconds_and_one_at_the_end() -> None:
    shown, stream, clock = meter(terminal=False)
    for second in range(1, 13):
        clock.now = float(second)
        shown.advance(second * GB, 100 * GB, "a\n::error::b")
    shown.close()
    assert stream.getvalue().splitlines() == [
        "lockllm: hashing: 5.0 GB of 100 GB, 1.0 GB/s, 1 min 35 s left (5%)",
        "lockllm: hashing: 10.0 GB of 100 GB, 1.0 GB/s, 1 min 30 s left (10%)",
        "lockllm: hashed 12.0 GB in 12 s, 1.0 GB/s",
    ]


def test_a_line_never_wraps_and_holds_no_foreign_control_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown, stream, clock = meter(terminal=True)
    clock.now = 1.0
    shown.advance(1, 0, "\x1b[2J\n" + "x" * 500)
    assert stream.getvalue().count("\r") == 1
    assert len(stream.getvalue()) <= 60
    assert "\x1b" not in stream.getvalue()
    assert "\n" not in stream.getvalue()


def test_the_rate_is_that_of_the_last_seconds() -> None:
    shown, stream, clock = meter(terminal=False)
    done = 0
    for second in range(1, 41):
        clock.now = float(second)
        done += GB if second <= 20 else GB // 10
        shown.advance(done, 100 * GB)
    assert "100 MB/s" in stream.getvalue().splitlines()[-1]


def test_many_threads_may_call_at_once() -> None:
    shown, stream, clock = meter(terminal=True)
    clock.now = 1.0
    threads = [threading.Thread(target=lambda: [shown.advance(n, 1000) for n in range(1000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown.close()
    assert stream.getvalue().count("hashing [") == 1


def test_a_stream_that_is_closed_ends_nothing() -> None:
    stream = io.StringIO()
    with hashing(stream=stream) as progress:
        stream.close()
        assert progress is not None
        progress(1, 2, "a")


def test_progress_can_be_left_out() -> None:
    with hashing(enabled=False) as progress:
        assert progress is None


@pytest.mark.parametrize(
    "count,words",
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123456, "123 kB"), (5 * GB, "5.0 GB"), (8e14, "800.00 TB")],
)
def test_bytes_are_told_in_a_unit_that_a_person_reads(count: float, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    "seconds,words", [(0.2, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (3600, "1 h 00 min"), (7325, "2 h 02 min")]
)
def test_time_is_told_in_one_or_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
