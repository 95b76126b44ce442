"""How a host after a change is judged by the lock of the host before."""

from __future__ import annotations

import os

from lockllm.judge.report import Report
from lockllm.judge.verify import verify
from tests.incidents.raw import Place, Side, locked
from tests.pairs.changes import Change

HOSTS, EACH = 50, 20
"""Hosts that are drawn, and changes of each: a thousand pairs."""


def judged(place: Place, engine: str, side: Side, those: list[Change]) -> list[tuple[str, Report]]:
    lock = locked(engine, place.look(side, engine), side, place)
    same = verify(lock, place.look(side, engine, lock))
    odd = [(each.fact.key, each.status.value, each.reason) for each in same.results if each.blocking]
    failing = [(check.name, check.detail) for check in same.checks if check.status.value == "fail"]
    assert same.exit_code == 0, (side.argv, side.env, odd, failing)
    reports = []
    for number, (what, other) in enumerate(those):
        seen = place.look(other, engine, lock)
        os.utime(place.folder, (number, number))
        reports.append((what, verify(lock, seen)))
    return reports
