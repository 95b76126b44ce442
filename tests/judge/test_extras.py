"""What a host has and the lock does not name: denied where the lock lists its family, else nobody's business."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.documents.lock import Lock
from lockllm.facts import keys, registry
from lockllm.facts.check import CHECKS
from lockllm.facts.fact import Fact, Policy
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Observation, Raw, Reading, Unobserved
from lockllm.judge import ready
from lockllm.judge.report import Report, Status
from lockllm.judge.verify import verify

STEADY = registry.fact("engine.name")
CONFIG, MORE = (registry.fact(f'checkpoint.files."{name}"') for name in ("config.json", "more.safetensors"))
BYTES = {"size": 1, "sha256": "a" * 64}
DENIED = [row for row in registry.ROWS if row.denied]
CLOSED = [
    each for each in registry.FAMILIES if each.closed and not each.closed_by and each.path != ("checkpoint", "files")
]


def judged(lock: Lock, *readings: Reading, **more: Any) -> Report:
    return verify(lock, Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT), *readings), **more))


def statuses(report: Report) -> dict[str, Status]:
    return {each.fact.key: each.status for each in report.results if each.fact != STEADY}


def lock(values: dict[Any, Any] | None = None, edition: int = 2, **more: Any) -> Lock:
    return Lock(values={STEADY.path: "vllm", **(values or {})}, edition=edition, **more)


def parsed(row: Fact[Any]) -> Any:
    """A value that the row's type takes."""
    values = (registry.read(row, raw) for raw in ("1" * 64, "1" * 40, True, 1, BYTES, ["a"], {"a": 1}))
    return next(each for each in values if not isinstance(each, Raw))


def test_a_file_that_the_lock_does_not_list_is_denied_where_it_lists_files() -> None:
    extra = Reading(MORE, BYTES, "", By.FILE)
    config = Reading(CONFIG, BYTES, "", By.FILE)
    held = {CONFIG.path: BYTES}
    report = judged(lock(held), config, extra)
    assert statuses(report) == {CONFIG.key: Status.MATCH, MORE.key: Status.MISMATCH}
    added = report.results[-1]
    assert (added.expected, added.found, report.exit_code) == (None, BYTES, 1)
    assert added.fix == "remove what was added, or run `lockllm lock` if it is meant"
    assert statuses(judged(lock(), extra)) == {}  # a lock without files says nothing of files
    assert statuses(judged(lock(held, exclude=("more.*",)), config, extra)) == {CONFIG.key: Status.MATCH}
    assert statuses(judged(lock(held, include=("*.json",)), config, extra)) == {CONFIG.key: Status.MATCH}
    assert MORE.key in statuses(judged(lock(held, exclude=("files", "checkpoint")), config, extra))
    gone = Reading(MORE, ABSENT, "", By.FILE)
    assert statuses(judged(lock(held), config, gone)) == {CONFIG.key: Status.MATCH}


@pytest.mark.parametrize("family", CLOSED, ids=lambda family: keys.dotted(family.path))
def test_a_member_that_came_is_denied_where_the_lock_lists_its_family(family: Any) -> None:
    names = [tuple(f"{word}{number}" for number in range(family.depth or 1)) for word in ("one", "two")]
    one, other = (family.of(*each) for each in names)
    value = parsed(one)
    first, second = (Reading(each, value, "", By.FILE) for each in (one, other))
    if not (one.verified and one.since <= 2):
        pytest.skip("its members are recorded, not verified")
    listed = statuses(judged(lock({one.path: value}), first, second))
    assert (listed[one.key], listed[other.key]) == (Status.MATCH, Status.MISMATCH)
    assert other.key not in statuses(judged(lock({CONFIG.path: BYTES}), second))


@pytest.mark.parametrize("row", DENIED, ids=lambda row: row.key)
def test_a_denied_fact_is_one_that_a_lock_of_its_group_leaves_out(row: Any) -> None:
    beside = next(each for each in registry.ROWS if each.group == row.group and each != row and each.verified)
    value = parsed(beside)
    came = Reading(row, registry.read(row, "org/other"), "", By.PROCESS)
    shown = Reading(beside, value, "", By.FILE)
    assert statuses(judged(lock({beside.path: value}), shown, came))[row.key] is Status.MISMATCH
    assert statuses(judged(lock(), came)) == {}  # nothing of the group is locked
    gone = Reading(row, ABSENT, "", By.PROCESS)
    assert statuses(judged(lock({beside.path: value}), shown, gone)) == {beside.key: Status.MATCH}
    if row.since > 1:
        assert row.key not in statuses(judged(lock({beside.path: value}, edition=1), shown, came))


def variable(name: str, value: Any = "1") -> Reading:
    return Reading(registry.find(("env", name)), value, f"environment: {name}", By.PROCESS)


def test_a_variable_that_the_spec_leaves_open_may_come_go_and_differ() -> None:
    held = {("env", "VLLM_USE_V1"): "1", ("env", "NCCL_ALGO"): "Ring"}
    steady = variable("VLLM_USE_V1")
    for algo in (variable("NCCL_ALGO", "Tree"), variable("NCCL_ALGO", ABSENT), None, variable("NCCL_DEBUG", "INFO")):
        shown = [steady, *([algo] if algo is not None else [])]
        report = judged(lock(held, env_open=("NCCL_*",)), *shown, complete=frozenset({("env",)}))
        assert (statuses(report), report.exit_code) == ({"env.VLLM_USE_V1": Status.MATCH}, 0)
    closed = judged(lock(held), steady, variable("NCCL_ALGO", "Tree"), variable("NCCL_PROTO", "LL"))
    assert statuses(closed)["env.NCCL_ALGO"] is Status.MISMATCH
    assert statuses(closed)["env.NCCL_PROTO"] is Status.MISMATCH


def test_a_variable_that_is_there_and_cannot_be_read_is_not_absent() -> None:
    held = lock({("env", "VLLM_USE_V1"): "1"})
    hidden = Unobserved(("env", "LD_PRELOAD"), "another user's process", "run it as that user")
    report = judged(held, variable("VLLM_USE_V1"), unobserved=(hidden,))
    assert (statuses(report)["env.LD_PRELOAD"], report.exit_code) == (Status.UNKNOWN, 3)
    found = next(each for each in report.results if each.fact.key == "env.LD_PRELOAD")
    assert (found.reason, found.fix, found.blocking) == ("another user's process", "run it as that user", True)
    both = judged(held, variable("VLLM_USE_V1"), variable("LD_PRELOAD", ABSENT), unobserved=(hidden,))
    assert "env.LD_PRELOAD" not in statuses(both)
    open_ = lock({("env", "VLLM_USE_V1"): "1"}, unpinned={("env", "LD_PRELOAD"): "it differs by node"})
    assert "env.LD_PRELOAD" not in statuses(judged(open_, variable("VLLM_USE_V1"), unobserved=(hidden,)))
    first = lock({("env", "VLLM_USE_V1"): "1"}, edition=1)
    for name in ("LD_PRELOAD", "VLLM_ATTENTION_BACKEND"):
        gap = Unobserved(("env", name), "another user's process")
        assert f"env.{name}" not in statuses(judged(first, variable("VLLM_USE_V1"), unobserved=(gap,)))
        assert f"env.{name}" in statuses(judged(held, variable("VLLM_USE_V1"), unobserved=(gap,)))
    unset = Unobserved(("engine", "build"), "not shown")  # a fact that every host has is named by no observation
    assert statuses(judged(held, variable("VLLM_USE_V1"), unobserved=(unset,))) == {"env.VLLM_USE_V1": Status.MATCH}


def test_a_family_that_a_lock_leaves_open_is_closed_beside_it() -> None:
    """A setting left open is one of a family that was looked at; locks of the first edition did not say so."""
    path = ("serve", "args", "max_logprobs")
    came = Reading(registry.find(("serve", "args", "runner")), "pooling", "argument --runner", By.PROCESS)
    assert "serve.args.runner" in statuses(judged(lock(unpinned={path: "auto"}), came))
    assert statuses(judged(lock(edition=1, unpinned={path: "auto"}), came)) == {}
    assert statuses(judged(lock(), came)) == {}


NEWER, OLD = (
    next(row.name for row in CHECKS if row.since == since and row.policy.value == "exact") for since in (2, 1)
)


@pytest.mark.parametrize(("edition", "name", "code"), [(1, NEWER, 0), (2, NEWER, 1), (1, OLD, 1), (2, OLD, 1)])
def test_a_finding_that_is_newer_than_the_lock_is_informational(edition: int, name: str, code: int) -> None:
    report = judged(lock(edition=edition), checks=(Check(name, CheckStatus.FAIL, "so"),))
    assert report.exit_code == code
    assert report.informational == (frozenset() if code else frozenset({name}))


def test_a_lock_is_made_ready_once() -> None:
    held, equal = lock(), lock()
    assert ready.of(held) is ready.of(held)
    assert ready.of(equal) is not ready.of(held)
    assert ready._Itself(held) == ready._Itself(held)
    assert ready._Itself(held) != ready._Itself(equal)
    assert ready._Itself(held) != held


def test_a_policy_that_hits_nothing_is_said_unless_it_is_the_rows_own() -> None:
    own = next(row for row in registry.ROWS if row.policy is Policy.COMPATIBLE)
    glob = f"{own.group}.*"
    for text, policy, said in (
        (own.key, Policy.COMPATIBLE, False), (own.key, Policy.REPORT, True), (glob, Policy.COMPATIBLE, True),
        ("check.bos_once", Policy.REPORT, False), ("engine.name", Policy.REPORT, False),
    ):  # fmt: skip
        warnings = judged(lock(policy={text: policy})).warnings
        assert warnings == ((f"policy {text!r} matches no locked fact",) if said else ())


def test_a_glob_that_stops_at_guarded_groups_names_them() -> None:
    held = {CONFIG.path: BYTES, ("serve", "dtype"): "bfloat16"}
    warnings = judged(lock(held, policy={"*": Policy.REPORT}), Reading(CONFIG, BYTES, "", By.FILE)).warnings
    assert warnings == (
        "policy '*' does not reach checkpoint, serve: ignore and report need a line for each fact there",
    )
