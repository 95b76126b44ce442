"""Every machine verified against every other: what differs is told, and nothing else; what is broken says why."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents import observation as document
from lockllm.documents.lock import Lock
from lockllm.facts.observation import ABSENT, Observation
from lockllm.judge.report import Status
from lockllm.judge.verify import verify
from lockllm.observe.gpu import gpu_readings
from tests.observe.machines import Host
from tests.observe.scenarios import ALIKE, SCENARIOS, Scenario, Twofold


def seen_of(scenario: Scenario, host: Host) -> Observation:
    """A look at a machine, through its document and back."""
    stuck = host.root / "stuck"
    machine = dict(scenario.machine)
    if scenario.hangs:
        stuck.touch()
        machine[f"hang.{scenario.hangs}"] = str(stuck)
    for name, text in scenario.files.items():
        host.write(name, text)
    looked = host.look(machine, 0.05 if scenario.hangs else 5.0, {})
    stuck.unlink(missing_ok=True)
    for thread in threading.enumerate():
        if scenario.hangs and thread.daemon:
            thread.join(5)
    choice = gpu_readings.pick(looked, scenario.env, frozenset({1}))
    said = [gpu_readings.machine_facts(looked), gpu_readings.gpu_facts(looked, choice, None)]
    made = Observation(
        readings=tuple(reading for each in said for reading in each.readings),
        unobserved=tuple(gap for each in said for gap in each.unobserved),
        checks=tuple(check for each in said for check in each.checks),
    )
    return document.read(json.dumps(document.dump(made)).encode(), "host.json")


@pytest.fixture(scope="module")
def looks(
    library: Path, old_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Observation]]:
    """All machines, each looked at once."""
    import pynvml

    ctypes.CDLL(str(library))
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, scenario in SCENARIOS.items():
            host = Host(tmp_path_factory.mktemp("machine"))
            patch.setenv("FAKE_NVML", str(host.file))
            with pytest.MonkeyPatch.context() as older:
                if scenario.old:
                    older.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(old_library)))
                    older.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
                found[name] = seen_of(scenario, host)
        yield found


def plain(key: str, value: Any) -> Any:
    """A value as it is compared: names that drivers renamed are one."""
    if key == "gpu":
        names = value if isinstance(value, tuple) else (value,)
        return tuple(ALIKE.get(name, name) for name in names)
    return value


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_seen_of_each_machine(looks: dict[str, Observation], name: str) -> None:
    scenario, seen = SCENARIOS[name], looks[name]
    told = {}
    for path, readings in seen.by_path().items():
        if path[1] != "gpus":
            values: list[Any] = [None if each.value is ABSENT else each.value for each in readings]
            told[path[1]] = values[0] if len(set(map(str, values))) == 1 else Twofold(*values)
    assert told == scenario.told
    gaps = {each.path[-1]: each.reason for each in seen.unobserved}
    assert gaps == scenario.gaps
    assert not {each.path[-1] for each in seen.unobserved if not each.fix} - {"interconnect"}


@pytest.mark.parametrize("locked", SCENARIOS)
def test_verify_tells_what_differs_between_two_machines_and_nothing_else(
    looks: dict[str, Observation], locked: str
) -> None:
    readings = {path: found[0] for path, found in looks[locked].by_path().items() if found[0].fact.lockable}
    lock = Lock(
        values={path: each.value for path, each in readings.items() if each.value is not ABSENT},
        absent=frozenset(path for path, each in readings.items() if each.value is ABSENT),
    )
    held = {path[1]: None if each.value is ABSENT else each.value for path, each in readings.items()}
    for name, scenario in SCENARIOS.items():
        report = verify(lock, looks[name])
        found = {result.fact.path[1]: (result.status, result.reason) for result in report.results}
        wanted = {}
        for key, value in held.items():
            if key not in scenario.told:
                wanted[key] = (Status.UNKNOWN, scenario.gap(key))
            elif plain(key, scenario.told[key]) == plain(key, value):
                wanted[key] = (Status.MATCH, "")
            elif isinstance(scenario.told[key], Twofold):
                wanted[key] = (Status.MISMATCH, "2 witnesses of one rank disagree")
            else:
                wanted[key] = (Status.MISMATCH, "")
        assert found == wanted, f"{locked} against {name}"


def test_each_broken_machine_has_a_reason_of_its_own() -> None:
    reasons = [scenario.gaps["host"] for scenario in SCENARIOS.values() if "host" in scenario.gaps]
    assert len(set(reasons)) == len(reasons) >= 12
    assert len(SCENARIOS) >= 25


def test_no_lock_holds_what_names_one_card(looks: dict[str, Observation]) -> None:
    for seen in looks.values():
        for path, readings in seen.by_path().items():
            if readings[0].fact.lockable:
                text = str([each.value for each in readings])
                assert not [word for word in ("GPU-", "MIG-", "00000000:") if word in text], path
