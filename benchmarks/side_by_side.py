"""Two commands, turn by turn, so that what else the machine does meets both."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One comparison. A ratio at or below its goal is good."""

    what: str
    ours: float
    theirs: float
    goal: float
    unit: str = "ms"

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs


class Run(NamedTuple):
    """One run of a command: how long it took, what it printed, and the most memory that it held."""

    ms: float
    out: str
    mb: float
    cpu: float  # milliseconds of processor time
    code: int


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> Run:
    """Run a command once. Memory is that of the process itself, without its children."""
    start = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    cpu = (used.ru_utime + used.ru_stime) * 1000
    return Run((time.perf_counter() - start) * 1000, out, used.ru_maxrss / 1024, cpu, process.returncode)


def medians(commands: Mapping[str, Sequence[str]], cwd: Path, *, rounds: int = 5) -> dict[str, Run]:
    """Each command's run of median length; all of them turn by turn. What prints one number of milliseconds is believed."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            each = run(command, cwd)
            own = each.out.strip()
            runs[name].append(each._replace(ms=float(own)) if own.replace(".", "", 1).isdigit() else each)
    return {name: sorted(each)[len(each) // 2] for name, each in runs.items()}


def compare(
    what: str,
    ours: Sequence[str],
    theirs: Sequence[str],
    goal: float,
    *,
    cwd: Path,
    rounds: int = 15,
    env: Mapping[str, str] | None = None,
) -> Row:
    """Medians of both, in milliseconds."""
    took: tuple[list[float], list[float]] = ([], [])
    environ = {**os.environ, **(env or {})}
    for _ in range(rounds):
        for times, command in zip(took, (ours, theirs), strict=True):
            start = time.perf_counter()
            subprocess.run(command, cwd=cwd, env=environ, capture_output=True, check=False)
            times.append((time.perf_counter() - start) * 1000)
    return Row(what, statistics.median(took[0]), statistics.median(took[1]), goal)
