"""Real drift incidents from raw material to the report: the host of before is locked, the host of after verified."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts import keys
from lockllm.judge.report import Report, Status
from lockllm.judge.verify import verify
from tests.incidents import cases_engines, cases_files, cases_gpus, cases_vllm
from tests.incidents.raw import Case, Place, locked

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
DATA = HERE.parent / "judge" / "data" / "incidents.jsonl"
RECORDS: Mapping[str, Any] = {each["id"]: each for each in map(json.loads, DATA.read_text().splitlines())}
CASES: Mapping[str, Case] = {**cases_vllm.CASES, **cases_engines.CASES, **cases_files.CASES, **cases_gpus.CASES}
TABLE: Mapping[str, Any] = tomllib.loads((HERE / "told.toml").read_text())
TOLD, NOT_RAW = TABLE["told"], TABLE["not_raw"]


def with_status(report: Report, status: Status) -> set[str]:
    """The facts with a status, by key; all probes together are one."""
    names = {each.fact.key for each in report.results if each.status is status}
    return {"prompt_probes" if name.startswith("prompt_probes.") else name for name in names}


def fact_of(record: Mapping[str, Any], key: str) -> str:
    """The fact that stands for a key of a record, or the finding where the record names a self-check."""
    own = TOLD.get(record["id"], {}).get("stands_for", {})
    name = own.get(key) or TABLE["stands_for"].get(key) or (record["lock_facts"].get(key) or "").removeprefix("+")
    if name == "checkpoint.files":
        return keys.dotted(("checkpoint", "files", key.removeprefix("file:").removesuffix(".sha256")))
    return str(name)


@pytest.mark.parametrize("name", CASES)
def test_an_incident_is_told_from_its_raw_material(place: Place, name: str) -> None:
    case, record, expected = CASES[name], RECORDS[name], TOLD[name]
    first = place.look(case.before, case.engine)
    lock = locked(case.engine, first, case.before, place)
    again = verify(lock, first)
    assert with_status(again, Status.MISMATCH) | with_status(again, Status.UNKNOWN) == set()
    report = verify(lock, place.look(case.after, case.engine, lock))
    told = with_status(report, Status.MISMATCH)
    failed = {check.name for check in report.checks if check.status.value == "fail"}
    assert told == set(expected.get("differ", ()))
    assert with_status(report, Status.UNKNOWN) == set(expected.get("unknown", ()))
    assert failed == set(expected.get("checks", ()))
    facts = {key: fact_of(record, key) for key in record["must_flag"]}
    seen = told | failed | with_status(report, Status.UNKNOWN)
    unseen = {key for key, fact in facts.items() if fact not in seen}
    assert unseen == set(expected.get("unseen", {}))
    assert {facts[key] for key in unseen} & with_status(report, Status.MATCH) == set()


def test_every_incident_is_raw_material_or_says_why_not() -> None:
    assert set(RECORDS) == {*CASES, *NOT_RAW}
    assert set(CASES) == set(TOLD)
    assert not set(CASES) & set(NOT_RAW)
