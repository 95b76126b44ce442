"""A thousand starts of the same raw hosts, with other ports, names, logs and times: always a match."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from tests.incidents.raw import Place
from tests.pairs.changes import hosts, restarts
from tests.pairs.judging import EACH, HOSTS, judged


@pytest.mark.parametrize("seed", range(HOSTS))
def test_another_start_of_the_same_host_is_always_a_match(place: Place, seed: int) -> None:
    draw = random.Random(seed)
    engine, side = hosts(draw)
    reports = judged(place, engine, side, list(islice(restarts(draw, engine, side), EACH)))
    odd = [
        (engine, side.argv, what, [(each.fact.key, each.status.value, each.reason) for each in report.results if each.blocking],
         [check.detail for check in report.checks if check.status.value == "fail"])
        for what, report in reports if report.exit_code != 0
    ]  # fmt: skip
    assert odd == []
