"""A server's start log: its last start, however long the log is, and whether it is the log of this server."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from lockllm import engines
from lockllm.engines.shown import log
from lockllm.errors import UsageError
from lockllm.observe.process import proc
from lockllm.observe.safe import files
from lockllm.observe.server.find import RunningServer

_WHOLE = 16 << 20
_MOST_LINES = 45_000
"""A log within both bounds is read whole: no engine's reader takes less."""
_BEFORE = 64 << 10
"""Bytes before the line that begins a start: engines log some settings before it."""
_LINES_BEFORE = 400
_BLOCK = 4 << 20
_LONGEST = 4 << 10  # of a line that begins a start, as far as it tells that
_MOST = 8 << 30
_MOST_INPUT = 64 << 20
_PIDS = (
    re.compile(r"\((?:APIServer|EngineCore|MainProcess|Worker|DPCoordinator)[^()]{0,60} pid=(\d{1,10})\)"),  # vLLM
    re.compile(r"Started server process \[(\d{1,10})\]"),  # uvicorn
    re.compile(r"\A[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w./@-]+\[(\d{1,10})\]: "),  # journald, syslog
)
_WRITTEN_SLACK = 1.0  # seconds


class StartLog(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of the last start. `gap` says why there are none, `note` what was left out."""

    lines: tuple[str, ...] = ()
    gap: str = ""
    fix: str = ""
    note: str = ""
    pids: frozenset[int] = frozenset()  # of the processes that wrote the last start
    written: float | None = None  # when the file was last written


def check(name: str) -> None:
    """Raises UsageError where the log does not exist or is not a regular file."""
    if name != "-":
        _opened(name).close()


def read(name: str, engine: str) -> StartLog:
    """The last start in a log; `-` is standard input. UsageError where it cannot be read."""
    if name == "-":
        raw = sys.stdin.buffer.read(_MOST_INPUT + 1)
        if len(raw) > _MOST_INPUT:
            fix = "write it to a file, and name that"
            return StartLog(gap=f"what comes on standard input is longer than {_MOST_INPUT >> 20} MiB", fix=fix)
        return _made(raw, engine)
    with _opened(name) as file:
        try:
            return _of_file(file, name, engine)
        except OSError as error:
            raise _unread((error.strerror or str(error)).lower(), name) from error


def other(log: StartLog, server: RunningServer | None) -> str:
    """Why a log is not the running server's; empty where it may be."""
    if server is None:
        return ""
    started = proc.started_at(server.process)
    if log.written is not None and started is not None and log.written < started - _WRITTEN_SLACK:
        return f"the log was last written before pid {server.process.pid} started"
    above = (
        process.pid for process in proc.ancestors(server.process.pid, proc.tree())
    )  # a script may have opened the log
    own = {number for pid in (*(each.pid for each in server.processes), *above) for number in proc.numbers(pid)}
    if log.pids and not log.pids & own:
        told = ", ".join(map(str, sorted(log.pids)[:3]))
        return f"the last start in the log is of pid {told}, and the server is pid {server.process.pid}"
    return ""


def _opened(name: str) -> BinaryIO:
    if "\0" in name:
        raise _unread("its name contains a NUL", name)
    try:
        return files.opened(name)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise _unread((error.strerror or str(error)).lower(), name, error.errno == errno.ENOENT) from error
        fix = "name a file, or give the text on standard input: --log -"
        raise UsageError("the log is not a regular file", where=name, fix=fix) from error


def _unread(reason: str, name: str, is_missing: bool = False) -> UsageError:
    fix = "name a file that exists" if is_missing else "name a file that can be read"
    return UsageError(f"the log cannot be read: {reason}", where=name, fix=fix)


def _of_file(file: BinaryIO, name: str, engine: str) -> StartLog:
    status = os.fstat(file.fileno())
    head = file.read(_WHOLE + 1)
    if len(head) <= _WHOLE and head.count(b"\n") <= _MOST_LINES:
        return msgspec.structs.replace(_made(head, engine), written=status.st_mtime)
    size = max(status.st_size, len(head))
    begin = _last(file, size, engines.identity(engine).log_start)
    if begin is None:
        gap = f"{name} is too long to read completely, and lockllm finds no start of {engine} in it"
        return StartLog(gap=gap, fix="cut it before its last start", written=status.st_mtime)
    load = _last(file, size, engines.identity(engine).log_load, begin)
    parts = [begin] if load is None or load - begin < _WHOLE // 2 else [begin, load]
    raw = b"".join(_around(file, at, _WHOLE // len(parts), _MOST_LINES // len(parts)) for at in parts)
    end = (
        ""
        if parts[-1] + _WHOLE // len(parts) >= size
        else f"; what follows {_WHOLE // len(parts) >> 20} MiB later is not read"
    )
    note = f"log {name}: read from its last start, at byte {begin:,} of {size:,}{end}"
    return msgspec.structs.replace(_made(raw, engine), note=note, written=status.st_mtime)


def _made(raw: bytes, engine: str) -> StartLog:
    pattern = engines.identity(engine).log_start
    starts = [match.start() for match in re.finditer(pattern, raw)] if pattern else []
    begin = raw.rfind(b"\n", 0, starts[-1]) + 1 if len(starts) > 1 else 0
    return StartLog(lines=tuple(log.lines(raw)), pids=_pids(log.lines(raw[begin:])))


def _last(file: BinaryIO, size: int, pattern: bytes, least: int = 0) -> int | None:
    """Where the last line that fits a pattern begins, looked for from the end."""
    if not pattern:
        return None
    marker = re.compile(pattern)
    end = size
    while end > max(least, size - _MOST):
        begin = max(least, end - _BLOCK)
        file.seek(begin)
        block = file.read(end - begin + _LONGEST)
        found = [match.start() for match in marker.finditer(block)]
        if found:
            line = block.rfind(b"\n", 0, found[-1]) + 1
            return begin + line
        end = begin
    return None


def _around(file: BinaryIO, at: int, most: int, lines: int) -> bytes:
    """The text from a little before a place on."""
    begin = max(0, at - _BEFORE)
    file.seek(begin)
    before = b"".join(file.read(at - begin).splitlines(keepends=True)[-_LINES_BEFORE:])
    file.seek(at)
    after = file.read(most).splitlines(keepends=True)
    return before + b"".join(after[: lines - _LINES_BEFORE])


def _pids(lines: Iterable[str]) -> frozenset[int]:
    """The pids that processes state in a log."""
    return frozenset(int(match[1]) for line in lines for pattern in _PIDS if (match := pattern.search(line[:_LONGEST])))
