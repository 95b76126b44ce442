"""`make bench`: lockllm beside what a person would use instead, in one run, as ratios of medians.

python -m benchmarks            # everything
python -m benchmarks start      # one of them
"""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("start", "hashing", "cached", "judging", "host", "growth")


def main() -> None:
    """Runs the benchmarks that were asked for and prints one table."""
    asked = sys.argv[1:] or NAMES
    print(f"{'what':<56} {'ours':>9} {'theirs':>9} {'ratio':>6} {'goal':>6}")
    for name in asked:
        for row in import_module(f"benchmarks.{name}").rows():
            mark = "" if row.ratio <= row.goal else "  missed"
            goal = f"{row.goal:.2f}" if row.goal < float("inf") else "-"
            times = f"{row.ours:>7.1f}{row.unit} {row.theirs:>7.1f}{row.unit}"
            print(f"{row.what:<56} {times} {row.ratio:>6.2f} {goal:>6}{mark}", flush=True)


if __name__ == "__main__":
    main()
