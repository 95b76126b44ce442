"""`python -m tests.fuzz.worker KIND SEED SECONDS BOARD`: one kind of case until the time is over; the first bug ends it."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from pathlib import Path

os.environ["LOCKLLM_FUZZ"] = (
    "5"  # read when the tests are imported: how many cases a round has, and other ones each time
)

from tests.fuzz.kinds import rounds
from tests.fuzz.watch import Board, watched


def main(kind: str, seed: int, seconds: float, board: Path) -> None:
    """Rounds of cases; an exception goes through, with the case that Hypothesis found to be the simplest."""
    faulthandler.enable()  # whoever watches ends a case that hangs with SIGABRT, and this says where it hung
    until = time.monotonic() + seconds
    for each in rounds(kind, seed, watched(Board(board))):
        each()
        if time.monotonic() > until:
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
