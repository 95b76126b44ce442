"""A thousand pairs of raw hosts that differ in one thing that moves output: never a match."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from tests.incidents.raw import Place
from tests.pairs.changes import changes, hosts
from tests.pairs.judging import EACH, HOSTS, judged


@pytest.mark.parametrize("seed", range(HOSTS))
def test_what_moves_output_is_never_a_match(place: Place, seed: int) -> None:
    draw = random.Random(seed)
    engine, side = hosts(draw)
    reports = judged(place, engine, side, list(islice(changes(draw, engine, side), EACH)))
    assert [(engine, side.argv, what) for what, report in reports if report.exit_code == 0] == []
