"""Running foreign templates and tokenizers in a child: bounded time, memory and output, no secret within reach."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

_START = "import sys; sys.path[:0] = sys.argv[1:]; from lockllm.prompt.child import main; main()"
_START_THERE = "import sys; sys.path += sys.argv[1:]; from lockllm.prompt.child import main; main()"
_MIB = 2**20


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a child may use beyond what it holds when it starts on foreign input, for all jobs together."""

    seconds: float = 1.5  # of processor time
    patience: float = 15.0  # of the clock, on a machine that has other things to do
    memory: int = 128 * _MIB
    longest: int = _MIB  # characters, or token ids, of all answers


class Program(msgspec.Struct, frozen=True):
    """Another interpreter than our own that may be run, and with which rights: arguments of `Popen`."""

    path: str
    rights: Mapping[str, Any] = {}


TEMPLATE_LIMITS = Limits()
BOUNDS = {
    "memory": "it needs more memory than it may take",
    "depth": "it is nested or calls itself too deeply",
    "size": "its output is too long",
    "names": "it reads too many names",
}
"""Which bound stopped it, as a child says it -> why, for people."""
_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
"""Signals that no template sends itself: somebody, or a machine without memory, ends the process."""


class Outcome(msgspec.Struct, frozen=True):
    """The answers in the order of the jobs; `ended` says why there are fewer than jobs, where there are.

    `world`: the reason lies with this machine, not with what was run. `release`: the version of the library that did the jobs.
    """

    answers: tuple[dict[str, Any], ...]
    ended: str = ""
    world: bool = False
    release: str = ""


def run(
    task: Mapping[str, Any], jobs: Sequence[Any], modules: Sequence[str], limits: Limits, program: Program | None = None
) -> Outcome:
    """Do the jobs of a task in a child that can import these modules. Never raises for what is foreign.

    `program`: an interpreter that has the modules itself.
    """
    places = _places(modules if program is None else ())
    if isinstance(places, str):
        return Outcome((), places, world=True)
    start = [sys.executable, "-I", "-S", "-B", "-c", _START]
    if program is not None:
        start = [program.path, "-I", "-B", "-W", "ignore", "-c", _START_THERE]
    work, listed = _written(task), _written(jobs)
    if work is None or listed is None:
        return Outcome((), "the request is nested too deeply")
    room = 8 * len(listed)  # a long request is no attack: it may be held a few times over
    bounds = {"seconds": limits.seconds, "longest": limits.longest + room, "memory": limits.memory + room}
    try:
        child, line, held = _started([*start, *places], program.rights if program is not None else {})
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Outcome((), f"no child process can be started: {reason}", world=True)
    parts = (json.dumps({**bounds, "line": line}).encode(), work, listed)
    with child:
        try:
            given = b"".join(each + b"\n" for each in parts)
            out, late = _talk(child, given, limits.patience, 8 * (limits.longest + room))
        finally:
            child.kill()
            os.close(held)
    return outcome(out, late, child.returncode)


def _started(words: Sequence[str], rights: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], int, int]:
    """The child; its end of a pipe on which nothing is ever written; and ours, which closes when this process ends."""
    import fcntl

    end, held = os.pipe()
    try:
        try:
            line = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)  # clear of the standard streams, where those are closed
        finally:
            os.close(end)
        try:
            child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(),
                pass_fds=(line,), **rights,
            )  # fmt: skip
        finally:
            os.close(line)
    except BaseException:
        os.close(held)
        raise
    return child, line, held


def outcome(out: bytes, late: str, code: int) -> Outcome:
    """What a child said, and how it ended: `late` is why it was ended, if it was, and `code` its exit code."""
    found = _lines(out)
    reason = late or _ending(code)
    if not found or "ready" not in found[0]:
        missing = found[0].get("missing") if found else None
        return Outcome((), str(missing or reason or "its process ended without an answer"), world=True)
    outside = not late and code < 0 and _signal(code) in _OUTSIDE
    return Outcome(found[1:], reason, world=outside, release=str(found[0]["ready"]))


def _written(task: Any) -> bytes | None:
    try:
        return json.dumps(task, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except RecursionError:
        return None


def _places(modules: Sequence[str]) -> list[str] | str:
    """The folders that the child imports from, or what is missing."""
    from importlib.util import find_spec

    if not sys.executable:
        return "this interpreter does not know its own path"
    places = [str(Path(__file__).resolve().parents[2])]
    for name in modules:
        spec = find_spec(name)
        if spec is None or not spec.origin:
            return f"the {name} library is not installed"
        places.append(str(Path(spec.origin).resolve().parents[1]))
    return list(dict.fromkeys(places))


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC", "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}


def _talk(child: subprocess.Popen[bytes], given: bytes, patience: float, longest: int) -> tuple[bytes, str]:
    """Write to the child and read from it at once, until it ends, the time is over or it says too much."""
    assert child.stdin is not None
    assert child.stdout is not None
    deadline = time.monotonic() + patience
    parts: list[bytes] = []
    size = 0
    rest = memoryview(given)
    os.set_blocking(child.stdin.fileno(), False)
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdin, selectors.EVENT_WRITE)
        waiting.register(child.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return b"".join(parts), f"it took longer than {patience:g} s"
            for key, _ in waiting.select(left):
                if key.fileobj is child.stdin:
                    rest = rest[_put(child.stdin.fileno(), rest) :]
                    if not rest:
                        waiting.unregister(child.stdin)
                        child.stdin.close()
                    continue
                part = os.read(child.stdout.fileno(), 65_536)
                if not part:
                    return b"".join(parts), _left(child, deadline)
                parts.append(part)
                size += len(part)
                if size > longest:
                    return b"".join(parts), "its output is too long"


def _left(child: subprocess.Popen[bytes], deadline: float) -> str:
    try:
        child.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "it does not end"
    return ""


def _put(descriptor: int, rest: memoryview) -> int:
    try:
        return os.write(descriptor, rest[:65_536])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(rest)  # the child is gone: reading tells the rest


def _lines(out: bytes) -> tuple[dict[str, Any], ...]:
    found = []
    for line in out.split(b"\n"):
        try:
            value = json.loads(line.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return tuple(found)


def _ending(code: int) -> str:
    if not code:
        return ""
    if code > 0:
        return f"its process ended with exit code {code}"
    name = _signal(code)
    return "it needs too much processor time" if name in {"SIGPROF", "SIGXCPU"} else f"its process was ended by {name}"


def _signal(code: int) -> str:
    import signal

    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
