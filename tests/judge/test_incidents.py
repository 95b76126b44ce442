"""Real drift incidents: yesterday's lock against today's observation names every decisive fact, and nothing that is equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents.lock import Lock
from lockllm.facts import keys, registry
from lockllm.facts.fact import Path as FactPath
from lockllm.facts.observation import ABSENT, By, Observation, Reading
from lockllm.judge.diff import diff
from lockllm.judge.report import Status
from lockllm.judge.verify import verify

RECORDS = [json.loads(line) for line in (Path(__file__).parent / "data" / "incidents.jsonl").read_text().splitlines()]
GIVEN = ("arg.", "env.", "launcher.", "request.", "used", "node", "replica")
"""Case keys that say what was asked for: an effective value outranks them."""


def path_of(record: dict[str, Any], key: str) -> FactPath | None:
    """The fact that a case key stands for; None where it is narrative, a self-check, or part of a file's content."""
    name = (record["lock_facts"].get(key) or "?").removeprefix("+")
    if name.startswith("?"):
        return None
    if name == "checkpoint.files":
        file = key.removeprefix("file:").removesuffix(".sha256")
        return ("checkpoint", "files", file) if key.startswith("file:") and key.endswith(".sha256") else None
    return keys.parse(name)


def side(record: dict[str, Any], which: str) -> dict[FactPath, Any]:
    """The facts of one side, parsed."""
    chosen: dict[FactPath, tuple[bool, Any]] = {}
    for key, raw in record["case"][which].items():
        path = path_of(record, key)
        if path is None or raw is None:
            continue
        is_digest = path[-1].endswith("sha256") or (path[0], path[1]) == ("checkpoint", "files")
        if is_digest and not str(raw).startswith("sha256:"):
            continue
        if path[-1].endswith("commit") and not (isinstance(raw, str) and len(raw) == 40):
            continue
        if path not in chosen or (chosen[path][0] and not key.startswith(GIVEN)):
            value = {"size": 1, "sha256": str(raw)} if path[1] == "files" else raw
            chosen[path] = (key.startswith(GIVEN), value)
    return {path: registry.read(registry.find(path), raw) for path, (_, raw) in chosen.items()}


def world(record: dict[str, Any]) -> tuple[Lock, Observation, set[FactPath]]:
    """The lock of before, the observation of after, and the facts that moved."""
    before, after = side(record, "before"), side(record, "after")
    known = {*before, *after}
    moved = {
        path for path in known
        if not registry.same(registry.find(path), before.get(path, ABSENT), after.get(path, ABSENT))
    }  # fmt: skip
    readings = tuple(Reading(registry.find(path), after.get(path, ABSENT), "case", By.ENDPOINT) for path in known)
    families = frozenset({("checkpoint", "files"), ("serve", "args"), ("packages",), ("env",)})
    absent = frozenset(path for path in known - set(before) if path[:2] != ("checkpoint", "files"))
    return Lock(values=before, absent=absent), Observation(readings=readings, complete=families), moved


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_an_incident_is_told_by_its_decisive_facts_and_by_nothing_else(record: dict[str, Any]) -> None:
    lock, observation, moved = world(record)
    report = verify(lock, observation)
    told = {result.fact.path for result in report.results if result.status is Status.MISMATCH}
    must = {path for key in record["must_flag"] if (path := path_of(record, key)) in moved}
    assert must <= told <= moved
    assert report.exit_code == (1 if any(result.blocking for result in report.results) else 0 if report.results else 3)
    assert report.exit_code == 1 or not must


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["id"])
def test_the_diff_of_an_incident_names_the_same_facts(record: dict[str, Any]) -> None:
    lock, observation, moved = world(record)
    after = Lock(values={each.fact.path: each.value for each in observation.readings if each.value is not ABSENT})
    result = diff(lock, after)
    told = {
        path
        for change in result.changes
        for path in (change.fact.path, *([keys.parse(change.moved_from)] if change.moved_from else []))
    }
    assert told == moved
    expected = {"noise": "noise", "step": "step", "failure": "failure", "identity": "nothing"}
    kinds = {expected[change.kind.value] for change in result.changes if change.change != "moved"}
    assert result.verdict == next((word for word in ("failure", "step", "noise") if word in kinds), "nothing")
