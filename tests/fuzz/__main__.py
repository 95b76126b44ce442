"""`python -m tests.fuzz --minutes N`: every kind of input in turn, each case watched for crashes, hangs and memory.

Prints a line a turn and keeps the sum in a file, so that runs add up. What it finds lies beside that file, one text a bug.
Where atheris is installed, the binary readers are also driven by the lines that a file reaches.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.fuzz.binary import TARGETS
from tests.fuzz.kinds import NAMES
from tests.fuzz.watch import MOST_KB, MOST_SECONDS, Board

_PATIENCE = 30.0  # seconds of the clock for one case on a machine that has other things to do
_GUIDED = tuple(f"{name}-guided" for name in TARGETS) if importlib.util.find_spec("atheris") else ()


def main(arguments: Iterable[str] | None = None) -> int:
    """Turns until the time is over; the exit code says whether anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--turn", type=float, default=30.0, help="seconds that one kind has at a time")
    parser.add_argument("--kind", action="append", choices=[*NAMES, *_GUIDED], help="only these")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000, help="of the first turn")
    parser.add_argument("--state", type=Path, default=Path(".cache/fuzz"), help="folder of sums, corpus and findings")
    given = parser.parse_args(arguments)
    given.state.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + given.minutes * 60
    found, seed = 0, given.seed
    while time.monotonic() < until:
        for kind in given.kind or [*NAMES, *_GUIDED]:
            seconds = min(given.turn, until - time.monotonic())
            if seconds <= 0:
                break
            seed += 1
            told = guided(kind, seconds, given.state) if kind in _GUIDED else turn(kind, seed, seconds, given.state)
            found += _account(given.state, kind, seed, told)
    return 1 if found else 0


def turn(kind: str, seed: int, seconds: float, state: Path) -> dict[str, Any]:
    """One kind for a while in a process of its own: cases, peak, slowest, and what went wrong."""
    place = state / f"board-{os.getpid()}"
    place.unlink(missing_ok=True)
    board, log = Board(place), state / "log.txt"
    words = [sys.executable, "-m", "tests.fuzz.worker", kind, str(seed), str(seconds), str(place)]
    with log.open("wb") as out, subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT) as worker:
        wrong = _watch(worker, board, seconds)
    cases, _, _, peak, slowest = board.read()
    place.unlink()
    if worker.returncode:
        wrong = (wrong or f"ended with {worker.returncode}") + "\n" + log.read_text(errors="replace")[-20_000:]
    return {"cases": cases, "peak_kb": peak, "slowest_s": round(slowest, 3), "wrong": wrong}


def _watch(worker: subprocess.Popen[bytes], board: Board, seconds: float) -> str:
    """Waits for the end; a case that hangs ends the process, and is told."""
    end = time.monotonic() + seconds + 400  # Hypothesis may look for a simpler case
    while worker.poll() is None:
        time.sleep(0.2)
        _, begun, cpu, _, _ = board.read()
        now = time.monotonic()
        hangs = begun and (_cpu(worker.pid) - cpu > MOST_SECONDS or now - begun > _PATIENCE)
        if hangs or now > end:
            worker.send_signal(signal.SIGABRT)
            return (
                f"hung: one case took {_cpu(worker.pid) - cpu:.1f} s of the processor, {now - begun:.1f} s of the clock"
            )
    return ""


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def guided(kind: str, seconds: float, state: Path) -> dict[str, Any]:
    """One binary reader under atheris for a while, with a corpus that grows from turn to turn."""
    name = kind.removesuffix("-guided")
    corpus = state / f"corpus-{name}"
    corpus.mkdir(exist_ok=True)
    starts = sorted({str(path.parent) for path in TARGETS[name].starts})
    options = [
        f"-max_total_time={max(1, int(seconds))}", f"-rss_limit_mb={MOST_KB // 1000}", f"-timeout={MOST_SECONDS:.0f}",
        "-print_final_stats=1", "-max_len=100000", f"-artifact_prefix={state}/{name}-",
    ]  # fmt: skip
    words = [sys.executable, "-m", "tests.fuzz.guided", name, str(corpus), *starts, *options]
    done = subprocess.run(words, capture_output=True, check=False, timeout=seconds + 600)
    text = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    said = {key: int(value) for key, value in re.findall(r"stat::(\w+):\s+(\d+)", text)}
    return {
        "cases": said.get("number_of_executed_units", 0), "peak_kb": said.get("peak_rss_mb", 0) * 1000,
        "slowest_s": said.get("slowest_unit_time_sec", 0), "wrong": text[-20_000:] if done.returncode else "",
    }  # fmt: skip


def _account(state: Path, kind: str, seed: int, told: dict[str, Any]) -> int:
    """Adds a turn to the sum and tells it; 1 where something was found."""
    place = state / "sum.json"
    sums: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {}
    row = sums.setdefault(kind, {"cases": 0, "peak_kb": 0, "slowest_s": 0, "found": 0})
    row["cases"] += told["cases"]
    row["peak_kb"] = max(row["peak_kb"], told["peak_kb"])
    row["slowest_s"] = max(row["slowest_s"], told["slowest_s"])
    row["found"] += bool(told["wrong"])
    place.write_text(json.dumps(sums, indent=1))
    if told["wrong"]:
        (state / f"found-{kind}-{seed}.txt").write_text(told["wrong"])
    total = sum(each["cases"] for each in sums.values())
    line = (
        f"{kind:20} seed {seed}  {told['cases']:8,} cases  {told['peak_kb'] // 1000:4} MB  {told['slowest_s']:6.2f} s"
    )
    print(f"{line}  {'FOUND' if told['wrong'] else 'ok'}   {total:,} in all", flush=True)
    return int(bool(told["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
