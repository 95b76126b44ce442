"""The child's own code in a fork of this process that answers one template after another, within the same bounds.

A child of its own costs 100 ms and more before it sees a template, a fork 20 ms, and a template 3 ms.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import IO, Any

from lockllm.prompt import child
from lockllm.prompt.sandbox import Limits, Outcome, outcome

SOON = Limits(seconds=0.25)
"""A template that takes longer is one without end."""
SECRET = "hf_no_template_may_see_this"
"""Stands in the environment of the process that renders: an escape from the sandbox would find it."""
_DONE = b'{"done": true}\n'
_CASES = 200
"""So many templates are one process's: what they leave behind may only be so much."""


class Fork:
    """One process that renders until a template ends it."""

    def __init__(self) -> None:
        its_in, mine_out = os.pipe()
        mine_in, its_out = os.pipe()
        sys.stdout.flush()
        gc.freeze()  # no page of what is here already is copied for the sake of a collection
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the threads of other tests have no part in this
            self.pid = os.fork()
        if self.pid == 0:
            _render(its_in, its_out)
        gc.unfreeze()
        os.close(its_in)
        os.close(its_out)
        self.given = open(mine_out, "wb")  # noqa: SIM115 - closed when the process is done
        self.said = open(mine_in, "rb")  # noqa: SIM115
        self.cases = 0

    def ask(self, task: Mapping[str, Any], jobs: Sequence[Any], limits: Limits) -> tuple[bytes, int | None]:
        """What it says to one task, and how it ended, where it did."""
        bounds = {"seconds": limits.seconds, "longest": limits.longest}
        for each in (bounds, task, jobs):
            self.given.write(json.dumps(each, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        self.given.flush()
        self.cases += 1
        lines = []
        for line in self.said:
            if line == _DONE:
                return b"".join(lines), None
            lines.append(line)
        return b"".join(lines), self.end()

    def end(self) -> int:
        """Its exit code."""
        self.given.close()
        self.said.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


_now: list[Fork] = []
atexit.register(lambda: [each.end() for each in _now])


def run(task: Mapping[str, Any], jobs: Sequence[Any], limits: Limits = SOON) -> Outcome:
    """As `sandbox.run`, in a process that may have rendered other templates before."""
    if _now and _now[0].cases >= _CASES:
        _now.pop().end()
    if not _now:
        _now.append(Fork())
    said, code = _now[0].ask(task, jobs, limits)
    if code is not None:
        _now.clear()
    return outcome(b'{"ready": "jinja2"}\n' + said, "", code or 0)


def _render(given: int, said: int) -> None:
    code = 1
    try:
        os.environ["HF_TOKEN"] = SECRET
        os.dup2(given, 0)
        os.dup2(said, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.closerange(3, 256)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        child._jinja()
        child._bound(1_000.0, SOON.memory)
        while line := sys.stdin.buffer.readline():
            bounds, task, jobs = (json.loads(each.decode("utf-8", "surrogatepass")) for each in _three(line))
            signal.setitimer(signal.ITIMER_PROF, bounds["seconds"])
            for each in child._fitting(child._template(task, jobs), bounds["longest"]):
                child._say(each)
            signal.setitimer(signal.ITIMER_PROF, 0)
            sys.stdout.buffer.write(_DONE)
            sys.stdout.buffer.flush()
        code = 0
    finally:
        os._exit(code)


def _three(first: bytes) -> list[bytes]:
    read: IO[bytes] = sys.stdin.buffer
    return [first, read.readline(), read.readline()]
