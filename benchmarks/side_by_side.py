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
