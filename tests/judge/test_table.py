"""The one table of statuses, policies and exit codes, cell by cell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lockllm.documents.lock import Lock
from lockllm.documents.terms import Waiver
from lockllm.facts import registry
from lockllm.facts.fact import Path, Policy, Stage
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Observation, Reading, Unobserved
from lockllm.judge import policy as policies
from lockllm.judge.report import Report, Status
from lockllm.judge.verify import best, verify

EXACT, COMPATIBLE, REPORT, IGNORE = Policy
MATCH, MISMATCH, UNKNOWN, ALLOWED, IGNORED, WAIVED, NOT_DUE = Status
STEADY = registry.fact("engine.name")
"""A fact that always matches, so that each cell stands on something that was checked."""
DRIVER, PRODUCT, MEMORY, TORCH, GPU, DTYPE, BUILD = (
    registry.fact(key)
    for key in (
        "host.driver", "host.gpu_product", "host.gpu_memory", "packages.torch", "host.gpu", "serve.dtype", "engine.build",
    )
)  # fmt: skip
OUTSIDE = ("550.54.14", "535.1")
INSIDE = ("550.54.14", "570.124.06")


def judged(
    fact: Any, expected: Any, found: Any, policy: Policy, *, stage: Stage = Stage.ALL, lock: Lock | None = None, **more: Any
) -> Report:  # fmt: skip
    """One fact and the steady one. `found` None: nothing tells of it; ABSENT: looked for and not there."""
    held = {STEADY.path: "vllm"}
    if expected is not ABSENT:
        held[fact.path] = registry.read(fact, expected)
    made = msgspec.structs.replace(
        lock or Lock(), values=held, absent=frozenset({fact.path} if expected is ABSENT else ()),
        policy={fact.key: policy} if policy is not EXACT else {},
    )  # fmt: skip
    readings = [Reading(STEADY, "vllm", "GET /version", By.ENDPOINT)]
    if found is not None:
        readings.append(Reading(fact, found if found is ABSENT else registry.read(fact, found), "seen", By.ENDPOINT))
    seen = Observation(readings=tuple(readings), stage=stage, observed_at="2026-05-01T12:00:00Z", **more)
    return verify(made, seen)


def outcome(report: Report, path: Path) -> tuple[Status, int]:
    return next(each.status for each in report.results if each.fact.path == path), report.exit_code


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize(("expected", "found"), [("550.54.14", "550.54.14"), (ABSENT, ABSENT)])
def test_what_matches_is_good_under_every_policy(policy: Policy, expected: Any, found: Any) -> None:
    assert outcome(judged(DRIVER, expected, found, policy), DRIVER.path) == (MATCH, 0)


@pytest.mark.parametrize(
    ("policy", "values", "status", "code"),
    [
        (EXACT, INSIDE, MISMATCH, 1), (COMPATIBLE, INSIDE, ALLOWED, 0), (REPORT, INSIDE, MISMATCH, 0), (IGNORE, INSIDE, IGNORED, 0),
        (EXACT, OUTSIDE, MISMATCH, 1), (COMPATIBLE, OUTSIDE, MISMATCH, 1), (REPORT, OUTSIDE, MISMATCH, 0), (IGNORE, OUTSIDE, IGNORED, 0),
        *(
            (policy, sides, status, code)
            for sides in ((ABSENT, "550.54.14"), ("550.54.14", ABSENT))
            for policy, status, code in ((EXACT, MISMATCH, 1), (COMPATIBLE, MISMATCH, 1), (REPORT, MISMATCH, 0), (IGNORE, IGNORED, 0))
        ),
    ],
)  # fmt: skip
def test_what_differs_is_judged_by_its_policy(policy: Policy, values: Any, status: Status, code: int) -> None:
    lock = Lock(requires={DRIVER.path: ">=550"})
    assert outcome(judged(DRIVER, *values, policy, lock=lock), DRIVER.path) == (status, code)


@pytest.mark.parametrize(("policy", "code"), [(EXACT, 3), (COMPATIBLE, 3), (REPORT, 0), (IGNORE, 0)])
@pytest.mark.parametrize("expected", ["550.54.14", ABSENT])
def test_what_is_due_and_not_seen_is_unknown(policy: Policy, code: int, expected: Any) -> None:
    assert outcome(judged(DRIVER, expected, None, policy), DRIVER.path) == (UNKNOWN, code)


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize(
    ("stage", "gap", "fact", "value"),
    [(Stage.LIVE, Unobserved(("host",), "no NVML at this stage"), DRIVER, "550.54.14"),
     (Stage.PREFLIGHT, Unobserved(("serve",), "only a running server shows it", due=Stage.LIVE), DTYPE, "bfloat16")],
)  # fmt: skip
def test_what_needs_another_stage_is_not_due(
    policy: Policy, stage: Stage, gap: Unobserved, fact: Any, value: str
) -> None:
    report = judged(fact, value, None, policy, stage=stage, unobserved=(gap,))
    assert outcome(report, fact.path) == (NOT_DUE, 0)


@pytest.mark.parametrize("due", Stage)
@pytest.mark.parametrize(
    "key", ["checkpoint.commit", "host.driver", "packages.torch", "quantization.method", "rocm.version"]
)
def test_an_observation_cannot_put_off_what_is_there_before_a_server_runs(key: str, due: Stage) -> None:
    fact = registry.fact(key)
    held = {STEADY.path: "vllm", fact.path: registry.read(fact, "1")}
    readings = (Reading(STEADY, "vllm", "GET /version", By.ENDPOINT),)
    gaps = (Unobserved((fact.group,), "later", due=due), Unobserved(fact.path, "later", due=due))
    seen = Observation(readings=readings, unobserved=gaps, stage=Stage.PREFLIGHT)
    assert outcome(verify(Lock(values=held), seen), fact.path) == (UNKNOWN, 3)


GUARDED = {
    "checkpoint.commit": ("a" * 40, "b" * 40), "chat_template.sha256": ("a" * 64, "b" * 64), "serve.dtype": ("bfloat16", "float16"),
    "serve.args.runner": ("generate", "pooling"), "env.VLLM_USE_V1": ("1", "0"),
}  # fmt: skip


@pytest.mark.parametrize("policy", [IGNORE, REPORT])
@pytest.mark.parametrize("key", GUARDED)
@pytest.mark.parametrize(
    "glob", ["*", "?*", "{group}", "{group}.*", "{group}.?*", "[a-z]*.*", "{start}*", "{group}.*.*"]
)
def test_a_glob_weakens_no_guarded_group(policy: Policy, key: str, glob: str) -> None:
    fact = registry.fact(key)
    text = glob.format(group=fact.group, start=fact.group[0])
    expected, found = (registry.read(fact, raw) for raw in GUARDED[key])
    values = {STEADY.path: "vllm", fact.path: expected}
    seen = Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT), Reading(fact, found, "", By.ENDPOINT)))
    report = verify(Lock(values=values, policy={text: policy}, edition=2), seen)
    assert outcome(report, fact.path) == (MISMATCH, 1)
    if registry.find(fact.path) and policies.compile_globs((text,))[0].matches(fact.path):
        assert any("does not reach" in each and fact.group in each for each in report.warnings)
    own = verify(Lock(values=values, policy={fact.key: policy}, edition=2), seen)
    assert own.exit_code == 0


def test_an_old_lock_keeps_the_reach_that_its_globs_had() -> None:
    values = {STEADY.path: "vllm", DTYPE.path: "bfloat16"}
    seen = Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT), Reading(DTYPE, "float16", "", By.ENDPOINT)))
    assert verify(Lock(values=values, policy={"serve.*": REPORT}), seen).exit_code == 0


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize(
    ("fact", "expected", "found", "named"),
    [(DRIVER, "550.54.14", "535.1", "535.1"), (TORCH, "2.8.0+cu128", "2.8.1+cu128", "v2.8.1+cu128"),
     (DTYPE, "bfloat16", "float16", "half"), (MEMORY, "80 GiB", "40 GiB", "40960 MiB"),
     (PRODUCT, "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 PCIe")],
)  # fmt: skip
def test_a_living_waiver_of_the_value_that_was_found_is_good(
    policy: Policy, fact: Any, expected: str, found: str, named: str
) -> None:
    waivers = (Waiver(fact=fact.key, found=named, reason="two spare nodes", until="2026-05-01"),)
    report = judged(fact, expected, found, policy, lock=Lock(waive=waivers))
    assert outcome(report, fact.path) == (WAIVED, 0)
    assert report.results[-1].reason == "two spare nodes"


@pytest.mark.parametrize(
    "waiver",
    [
        Waiver(fact="host.driver", found="535.2", reason="another value"),
        Waiver(fact="host.gpu", found="535.1", reason="another fact"),
        Waiver(fact="host.driver", found="535.1", reason="ended the day before", until="2026-04-30"),
    ],
    ids=lambda waiver: waiver.reason,
)
def test_a_waiver_of_something_else_or_of_yesterday_waives_nothing(waiver: Waiver) -> None:
    report = judged(DRIVER, "550.54.14", "535.1", EXACT, lock=Lock(waive=(waiver,)))
    assert outcome(report, DRIVER.path) == (MISMATCH, 1)


def test_an_ended_waiver_is_told() -> None:
    waiver = Waiver(fact="host.driver", found="535.1", reason="", until="2026-04-30")
    report = judged(DRIVER, "550.54.14", "535.1", EXACT, lock=Lock(waive=(waiver,)))
    assert report.warnings == ("the waiver of host.driver ended on 2026-04-30",)


def test_a_waiver_with_an_end_does_not_count_where_the_time_is_not_told() -> None:
    waiver = Waiver(fact="serve.dtype", found="float16", reason="", until="2999-01-01")
    lock = Lock(values={DTYPE.path: "bfloat16"}, waive=(waiver,))
    seen = Observation(readings=(Reading(DTYPE, "float16", "", By.ENDPOINT),))
    report = verify(lock, seen)
    assert (report.exit_code, report.warnings) == (
        1, ("the waiver of serve.dtype ends on 2999-01-01, and the observation does not say when it was made",),
    )  # fmt: skip


@pytest.mark.parametrize("policy", Policy)
def test_a_waiver_makes_nothing_of_what_is_not_seen(policy: Policy) -> None:
    waivers = (Waiver(fact="host.driver", found="535.1", reason="two spare nodes"),)
    report = judged(DRIVER, "550.54.14", None, policy, lock=Lock(waive=waivers))
    assert outcome(report, DRIVER.path)[0] is UNKNOWN


@pytest.mark.parametrize(
    ("policy", "status", "code"),
    [
        (policy, status, code)
        for policy, failing in ((EXACT, 1), (REPORT, 0), (IGNORE, 0))
        for status, code in ((CheckStatus.PASS, 0), (CheckStatus.FAIL, failing), (CheckStatus.UNKNOWN, 0))
    ],
)
def test_a_check_that_fails_counts_under_exact_alone(policy: Policy, status: CheckStatus, code: int) -> None:
    lock = Lock(values={STEADY.path: "vllm"}, policy={"check.bos_once": policy} if policy is not EXACT else {})
    seen = Observation(
        readings=(Reading(STEADY, "vllm", "", By.ENDPOINT),), checks=(Check("check.bos_once", status, "twice"),)
    )
    assert verify(lock, seen).exit_code == code


@pytest.mark.parametrize(
    ("fact", "expected", "found", "allowed"),
    [
        (BUILD, "release", "debug", False), (DTYPE, "bfloat16", "float16", False),  # no rule of their type
        (TORCH, "2.8.0+cu128", "2.8.0+cu129", True), (TORCH, "2.8.0+cu128", "2.8", True), (TORCH, "2.8.0", "2.8.1", False),
        (GPU, "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", False),
        (MEMORY, "80 GiB", "78 GiB", True), (MEMORY, "80 GiB", "77 GiB", False), (MEMORY, "80 GiB", "40 GiB", False),
        (DRIVER, "550.54.14", "550.54.15", False),  # no range is required: the same public version
    ],
)  # fmt: skip
def test_compatible_means_what_its_type_says(fact: Any, expected: str, found: str, allowed: bool) -> None:
    report = judged(fact, expected, found, COMPATIBLE)
    assert outcome(report, fact.path) == ((ALLOWED, 0) if allowed else (MISMATCH, 1))


def test_a_gpu_of_another_name_is_compatible_where_its_device_is_the_locked_one() -> None:
    device = registry.fact("host.gpu_device")
    lock = Lock(values={GPU.path: "NVIDIA H100", device.path: "10de:2330"}, policy={"host.gpu": COMPATIBLE})

    def seen(ids: str) -> Observation:
        return Observation(readings=(Reading(GPU, "Unheard Of", "", By.FILE), Reading(device, ids, "", By.FILE)))

    assert verify(lock, seen("10de:2330")).exit_code == 0
    assert verify(lock, seen("10de:20b5")).exit_code == 1


@pytest.mark.parametrize(
    ("lock", "only"),
    [
        (Lock(), ()),
        (Lock(values={STEADY.path: "vllm"}), ("host.*",)),
        (Lock(values={STEADY.path: "sglang"}, policy={"*": IGNORE}), ()),
        (Lock(values={DRIVER.path: "550"}, policy={"*": REPORT}), ()),
        (Lock(values={("checkpoint", "revision"): "main"}), ()),
    ],
    ids=["empty lock", "only hits nothing", "all ignored", "all unknown and only told", "nothing that is verified"],
)
def test_where_nothing_due_was_checked_the_code_is_3(lock: Lock, only: tuple[str, ...]) -> None:
    report = verify(lock, Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT),)), only=only)
    assert report.exit_code == 3
    assert "nothing was checked: no locked fact was due and seen" in report.warnings


def test_a_difference_outranks_what_is_not_seen() -> None:
    lock = Lock(values={DTYPE.path: "bfloat16", DRIVER.path: "550"})
    report = verify(lock, Observation(readings=(Reading(DTYPE, "float16", "", By.ENDPOINT),)))
    assert (report.status, report.exit_code) == ("mismatch", 1)


@pytest.mark.parametrize(("named", "code"), [("host.driver", 0), ("host", 0), ("host.*", 0), ("host.gpu", 3)])
def test_an_unknown_that_is_allowed_does_not_block(named: str, code: int) -> None:
    lock = Lock(values={STEADY.path: "vllm", DRIVER.path: "550"})
    report = verify(lock, Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT),)), allow_unknown=(named,))
    assert outcome(report, DRIVER.path) == (UNKNOWN, code)


def test_an_unknown_that_is_allowed_may_still_not_differ() -> None:
    lock = Lock(values={STEADY.path: "vllm", DRIVER.path: "550"})
    readings = (Reading(STEADY, "vllm", "", By.ENDPOINT), Reading(DRIVER, "570", "", By.FILE))
    assert verify(lock, Observation(readings=readings), allow_unknown=("host.*",)).exit_code == 1


@pytest.mark.parametrize("gate", ["warn", "off"])
def test_a_gate_that_is_off_changes_the_code_and_not_the_status(gate: str) -> None:
    lock = Lock(values={STEADY.path: "sglang"})
    report = verify(lock, Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT),)), gate=gate)
    assert (report.status, report.exit_code, report.gate) == ("mismatch", 0, gate)


def test_of_several_locks_the_one_that_passes_whole_is_taken_else_the_nearest() -> None:
    seen = Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT), Reading(DTYPE, "float16", "", By.ENDPOINT)))
    far = Lock(values={STEADY.path: "sglang", DTYPE.path: "bfloat16"})
    near = Lock(values={STEADY.path: "vllm", DTYPE.path: "bfloat16"})
    good = Lock(values={STEADY.path: "vllm", DTYPE.path: "float16"})
    reports = [verify(lock, seen, name=name) for lock, name in ((far, "far"), (near, "near"), (good, "good"))]
    assert (best(reports).lock, best(reports).exit_code) == ("good", 0)
    assert (best(reports[:2]).lock, best(reports[:2]).exit_code) == ("near", 1)
    assert best(reports[:2]).others == ("far: 2 mismatches, 0 unknown",)


@pytest.mark.parametrize(("glob", "reaches"), [
    ("*", False), ("checkpoint", False), ("checkpoint.*", False), ("checkpoint.files.*", False), ("checkpoint.d*", False),
    ("checkpoint.dtype", True),
])  # fmt: skip
def test_ignore_reaches_a_guarded_group_by_a_line_of_its_own_alone(glob: str, reaches: bool) -> None:
    fact = registry.fact("checkpoint.dtype")
    lock = Lock(values={STEADY.path: "vllm", fact.path: "bfloat16"}, policy={glob: IGNORE})
    readings = (Reading(STEADY, "vllm", "", By.ENDPOINT), Reading(fact, "float16", "", By.FILE))
    assert verify(lock, Observation(readings=readings)).exit_code == (0 if reaches else 1)


@pytest.mark.parametrize("policy", [REPORT, EXACT])
def test_the_most_precise_line_of_a_policy_holds(policy: Policy) -> None:
    table = {"*": REPORT, "host.*": IGNORE, "host.driver": policy, "host.dri*": REPORT}
    held = Lock(values={DRIVER.path: "550"}, policy=table)
    report = verify(held, Observation(readings=(Reading(DRIVER, "570", "", By.FILE),)))
    assert report.exit_code == (0 if policy is REPORT else 1)


def test_of_several_locks_the_one_that_passes_is_best() -> None:
    good, moved = (Lock(values={STEADY.path: "vllm", DTYPE.path: each}) for each in ("bfloat16", "float16"))
    unseen = Lock(values={STEADY.path: "vllm", MEMORY.path: registry.read(MEMORY, "80 GiB")})
    wrong = Lock(values={STEADY.path: "sglang", DTYPE.path: "float16"})
    seen = Observation(
        readings=(Reading(STEADY, "vllm", "", By.ENDPOINT), Reading(DTYPE, "bfloat16", "", By.ENDPOINT)),
        observed_at="2026-05-01T12:00:00Z",
    )
    reports = {
        name: verify(lock, seen, name=name)
        for name, lock in (("good", good), ("moved", moved), ("unseen", unseen), ("wrong", wrong))
    }

    def chosen(*names: str) -> Report:
        return best([reports[name] for name in names])

    assert chosen("moved", "good", "unseen").lock == "good"
    assert chosen("moved", "good").others == ("moved: 1 mismatches, 0 unknown",)
    assert chosen("wrong", "moved").lock == "moved"
    assert chosen("moved", "unseen").lock == "unseen"  # nothing that was seen differs
    assert chosen("unseen", "moved").others == ("moved: 1 mismatches, 0 unknown",)
    assert chosen("wrong").others == ()


def test_the_report_says_what_it_was_called_with() -> None:
    seen = Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT),), host="gpu-01")
    report = verify(Lock(values={STEADY.path: "vllm"}), seen)
    assert (report.lock, report.subject, report.host, report.gate) == ("llm.lock", "", "gpu-01", "enforce")
    named = verify(Lock(values={STEADY.path: "vllm"}), seen, name="a.lock", subject="server", gate="warn")
    assert (named.lock, named.subject, named.gate) == ("a.lock", "server", "warn")


def test_findings_that_only_inform_are_named() -> None:
    fails = tuple(
        Check(name, CheckStatus.FAIL, "so")
        for name in ("check.files_complete", "check.one_weight_set", "check.bos_once")
    )
    seen = Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT),), checks=fails)
    lock = Lock(values={STEADY.path: "vllm"}, policy={each.name: REPORT for each in fails[1:]})
    report = verify(lock, seen)
    assert report.informational == {"check.one_weight_set", "check.bos_once"}
    assert report.exit_code == 1
    spared = verify(lock, seen, skip=("check.files_complete",))
    assert spared.exit_code == 0
    assert [check.name for check in spared.checks] == ["check.one_weight_set", "check.bos_once"]
    assert verify(lock, seen, only=("check.files_complete",)).checks == fails[:1]


@pytest.mark.parametrize(
    ("only", "skip", "expected"),
    [
        ((), (), {"engine.name", "serve.dtype", "host.driver"}),
        (("serve.*",), (), {"serve.dtype"}),
        ((), ("serve.*",), {"engine.name", "host.driver"}),
        (("serve.*", "host.*"), ("host.driver",), {"serve.dtype"}),
        (("host",), (), {"host.driver"}),
        ((), ("serve.*", "host.*"), {"engine.name"}),
    ],
)  # fmt: skip
def test_only_and_skip_choose_what_is_judged(only: tuple[str, ...], skip: tuple[str, ...], expected: set[str]) -> None:
    values = {STEADY.path: "vllm", DTYPE.path: "bfloat16", DRIVER.path: "550.1"}
    seen = Observation(
        readings=tuple(Reading(registry.find(path), value, "", By.ENDPOINT) for path, value in values.items())
    )
    report = verify(Lock(values=values), seen, only=only, skip=skip)
    assert {result.fact.key for result in report.results} == expected


def test_a_firm_key_that_was_not_seen_allows_nothing() -> None:
    row = registry.fact("host.gpu")
    firm = registry.fact(row.firm)
    lock = Lock(
        values={STEADY.path: "vllm", row.path: "NVIDIA H100 80GB HBM3", firm.path: registry.read(firm, "10de:2330")},
        policy={row.key: COMPATIBLE},
    )
    other = Reading(row, "NVIDIA H999", "", By.ENDPOINT)
    steady = Reading(STEADY, "vllm", "", By.ENDPOINT)

    def status(*more: Reading) -> Status:
        return outcome(verify(lock, Observation(readings=(steady, other, *more))), row.path)[0]

    assert status() is MISMATCH
    assert status(Reading(firm, registry.read(firm, "10de:9999"), "", By.ENDPOINT)) is MISMATCH
    assert status(Reading(firm, registry.read(firm, "10de:2330"), "", By.ENDPOINT)) is ALLOWED


COMMIT, CONFIG = registry.fact("checkpoint.commit"), registry.fact('checkpoint.files."config.json"')
BYTES = {"size": 1, "sha256": "a" * 64}


def followed(*readings: Reading, **more: Any) -> tuple[Status, int]:
    lock = Lock(values={STEADY.path: "vllm", COMMIT.path: "a" * 40, CONFIG.path: BYTES})
    return outcome(
        verify(lock, Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT), *readings), **more)), COMMIT.path
    )


def test_what_follows_from_files_matches_where_their_bytes_were_read() -> None:
    assert followed(Reading(CONFIG, BYTES, "", By.FILE)) == (MATCH, 0)
    assert followed(Reading(CONFIG, BYTES, "", By.FILE, "cached")) == (MATCH, 0)
    assert followed(Reading(CONFIG, BYTES, "", By.FILE, "claimed")) == (UNKNOWN, 3)
    assert followed(Reading(CONFIG, {"size": 1, "sha256": "b" * 64}, "", By.FILE)) == (UNKNOWN, 1)
    assert followed() == (UNKNOWN, 3)
    assert followed(Reading(CONFIG, BYTES, "", By.PROCESS), Reading(CONFIG, BYTES, "", By.FILE, "claimed")) == (
        MATCH,
        0,
    )


def test_what_follows_is_not_said_to_be_seen() -> None:
    lock = Lock(values={COMMIT.path: "a" * 40, CONFIG.path: BYTES})
    report = verify(lock, Observation(readings=(Reading(CONFIG, BYTES, "", By.FILE),)))
    result = next(each for each in report.results if each.fact is COMMIT or each.fact.path == COMMIT.path)
    assert (result.seen, result.found, result.blocking, result.reason) == (False, "a" * 40, False, "")
    assert result.source == "follows from checkpoint.files"


def test_witnesses_of_one_rank_that_disagree_are_a_mismatch_with_a_reason() -> None:
    lock = Lock(values={DTYPE.path: "bfloat16"})
    both = [Reading(DTYPE, each, f"replica {each}", By.ENDPOINT) for each in ("bfloat16", "float16")]
    for readings in (both, both[::-1]):
        (result,) = verify(lock, Observation(readings=tuple(readings))).results
        assert (result.status, result.found, result.source) == (MISMATCH, "float16", "replica float16")
        assert result.reason == "2 witnesses of one rank disagree"
    worse = [Reading(DTYPE, "float16", "", By.PROCESS)]
    (result,) = verify(lock, Observation(readings=(both[0], *worse))).results
    assert (result.status, result.reason) == (MATCH, "")
    agreeing = [Reading(DTYPE, "bfloat16", "one", By.ENDPOINT), Reading(DTYPE, "bfloat16", "two", By.ENDPOINT)]
    (result,) = verify(lock, Observation(readings=tuple(agreeing))).results
    assert (result.status, result.source, result.reason) == (MATCH, "one", "")
    # Neither is what is locked: the first is told.
    (result,) = verify(Lock(values={DTYPE.path: "float32"}), Observation(readings=tuple(both))).results
    assert result.found == "bfloat16"


def disagreement(*readings: Reading) -> Check | None:
    report = verify(Lock(values={DTYPE.path: "bfloat16"}), Observation(readings=readings))
    return next((check for check in report.checks if check.name == "check.witnesses_agree"), None)


def test_a_lower_witness_that_differs_is_one_finding() -> None:
    said, typed = (
        Reading(DTYPE, "bfloat16", "GET /x", By.ENDPOINT),
        Reading(DTYPE, "float16", "argument --dtype", By.PROCESS),
    )
    found = disagreement(said, typed)
    assert found is not None
    assert found.status is CheckStatus.FAIL
    assert found.detail == "serve.dtype: bfloat16 (GET /x), but float16 (argument --dtype)"
    assert found.fix == "restart the server, so that what runs is what is installed and given"
    assert disagreement(said) is None
    assert disagreement(said, Reading(DTYPE, "bfloat16", "", By.PROCESS)) is None
    # A rule and a default say what an engine would do, not what was seen.
    for by in (By.RULE, By.DEFAULT):
        assert disagreement(said, Reading(DTYPE, "float16", "", by)) is None
        assert disagreement(Reading(DTYPE, "bfloat16", "", by), Reading(DTYPE, "float16", "", By.DEFAULT)) is None
    gone = disagreement(said, Reading(DTYPE, ABSENT, "argument --dtype", By.PROCESS))
    assert gone is not None
    assert gone.detail.endswith("but absent (argument --dtype)")
    seed = registry.fact("serve.seed")
    two = disagreement(said, typed, Reading(seed, 1, "a", By.ENDPOINT), Reading(seed, 2, "b", By.LOG))
    assert two is not None
    detail = "serve.dtype: bfloat16 (GET /x), but float16 (argument --dtype); serve.seed: 1 (a), but 2 (b)"
    assert two.detail == detail
    turned = disagreement(Reading(seed, 1, "a", By.ENDPOINT), Reading(seed, 2, "b", By.LOG), said, typed)
    assert turned is not None
    assert turned.detail == detail
    ruled = Reading(DTYPE, "float16", "rule", By.RULE)
    assert disagreement(said, ruled, Reading(DTYPE, "bfloat16", "", By.PROCESS)) is None


def test_a_family_that_was_seen_whole_holds_nothing_more() -> None:
    fact = registry.fact("serve.args.runner")
    lock = Lock(values={STEADY.path: "vllm", fact.path: registry.read(fact, "generate")})
    steady = Reading(STEADY, "vllm", "", By.ENDPOINT)
    for family in (("serve", "args"), ("serve",)):
        seen = Observation(readings=(steady,), complete=frozenset({family}))
        assert outcome(verify(lock, seen), fact.path) == (MISMATCH, 1)
    for family in ((), ("serve", "args", "runner"), ("env",)):
        seen = Observation(readings=(steady,), complete=frozenset({family}))
        assert outcome(verify(lock, seen), fact.path) == (UNKNOWN, 3)
    # What could not be seen is not absent, whole family or not.
    gap = Unobserved(fact.path, "the command is cut")
    seen = Observation(readings=(steady,), complete=frozenset({("serve", "args")}), unobserved=(gap,))
    assert outcome(verify(lock, seen), fact.path) == (UNKNOWN, 3)


def test_a_waiver_warns_from_the_day_after_its_last() -> None:
    waiver = Waiver(fact="host.driver", found="535.1", reason="spare", until="2026-05-01")
    for day, words in (("2026-05-01", []), ("2026-05-02", ["the waiver of host.driver ended on 2026-05-01"])):
        lock = Lock(values={STEADY.path: "vllm"}, waive=(waiver,))
        seen = Observation(readings=(Reading(STEADY, "vllm", "", By.ENDPOINT),), observed_at=f"{day}T12:00:00Z")
        assert list(verify(lock, seen).warnings) == words


@pytest.mark.parametrize(
    ("stage", "due", "status"),
    [
        (Stage.LIVE, Stage.PREFLIGHT, UNKNOWN), (Stage.LIVE, Stage.LIVE, UNKNOWN), (Stage.LIVE, Stage.ALL, NOT_DUE),
        (Stage.PREFLIGHT, Stage.PREFLIGHT, UNKNOWN), (Stage.PREFLIGHT, Stage.LIVE, NOT_DUE), (Stage.PREFLIGHT, Stage.ALL, NOT_DUE),
        (Stage.ALL, Stage.LIVE, UNKNOWN), (Stage.ALL, Stage.ALL, UNKNOWN),
    ],
)  # fmt: skip
def test_a_running_servers_fact_is_due_where_it_can_be_seen(stage: Stage, due: Stage, status: Status) -> None:
    gap = Unobserved(DTYPE.path, "later", due=due)
    assert outcome(judged(DTYPE, "bfloat16", None, EXACT, stage=stage, unobserved=(gap,)), DTYPE.path)[0] is status


def test_a_lock_that_passes_is_best_however_much_of_it_is_informational() -> None:
    """It may hold more differences than one that fails: its policies let them pass."""
    seen = Observation(
        readings=(
            Reading(STEADY, "vllm", "", By.ENDPOINT),
            Reading(DTYPE, "float16", "", By.FILE),
            Reading(DRIVER, "1", "", By.FILE),
        )
    )
    lenient = Lock(
        values={STEADY.path: "vllm", DTYPE.path: "bfloat16", DRIVER.path: "2"},
        policy={DTYPE.key: REPORT, DRIVER.key: REPORT},
    )
    strict = Lock(values={STEADY.path: "vllm", DTYPE.path: "bfloat16"})
    reports = [verify(lock, seen, name=name) for name, lock in (("strict", strict), ("lenient", lenient))]
    assert [report.counts["mismatch"] for report in reports] == [1, 2]
    assert best(reports).lock == "lenient"
    assert best(reports).others == ("strict: 1 mismatches, 0 unknown",)


def test_a_firm_fact_on_which_witnesses_disagree_allows_nothing() -> None:
    row = registry.fact("host.gpu")
    firm = registry.fact(row.firm)
    lock = Lock(values={row.path: "NVIDIA H100 80GB HBM3", firm.path: "10de:2330"}, policy={row.key: COMPATIBLE})
    other = Reading(row, "NVIDIA H999", "", By.ENDPOINT)
    for ids, code in ((("10de:2330", "10de:9999"), 1), (("10de:9999", "10de:2330"), 1), (("10de:2330",) * 2, 0)):
        both = tuple(Reading(firm, each, "", By.FILE) for each in ids)
        report = verify(lock, Observation(readings=(other, *both)), only=("host.gpu",))
        assert report.exit_code == code


@pytest.mark.parametrize("stage", Stage)
def test_what_nothing_reveals_says_so_and_how_to_see_it(stage: Stage) -> None:
    report = judged(DTYPE, "bfloat16", None, EXACT, stage=stage)
    (result,) = (each for each in report.results if each.fact == DTYPE)
    assert (result.status, result.seen, result.found, result.blocking) == (UNKNOWN, False, None, True)
    assert result.reason == "nothing on this host reveals it"
    assert result.fix == "give a source that shows it (a start log: --log FILE), or lock without it"
    told = Unobserved(("serve",), "it is asleep", "wake it")
    (said,) = (
        each
        for each in judged(DTYPE, "bfloat16", None, EXACT, stage=stage, unobserved=(told,)).results
        if each.fact == DTYPE
    )
    assert (said.reason, said.fix) == ("it is asleep", "wake it")


def test_witnesses_that_differ_from_each_other_and_not_from_the_lock_match() -> None:
    """A lock of CUDA 12.8 holds for 12.8.90 and for 12.8.57, which are two releases."""
    row = registry.fact("cuda.runtime")
    readings = tuple(Reading(row, each, each, By.FILE) for each in ("12.8.90", "12.8.57"))
    (result,) = verify(Lock(values={row.path: "12.8"}), Observation(readings=readings)).results
    assert (result.status, result.found, result.source) == (MATCH, "12.8.90", "12.8.90")
    (other,) = verify(Lock(values={row.path: "12.8.90"}), Observation(readings=readings)).results
    assert (other.status, other.found) == (MISMATCH, "12.8.57")


@pytest.mark.parametrize("key", ["serve.rope_scaling", "serve.args.anything"])
def test_true_is_not_one_wherever_it_stands(key: str) -> None:
    row = registry.fact(key)
    for one, other in ((True, 1), ({"a": True}, {"a": 1}), ([True], [1]), ({"a": {"b": 0}}, {"a": {"b": False}})):
        report = judged(row, one, other, EXACT)
        assert outcome(report, row.path) == (MISMATCH, 1)
        assert outcome(judged(row, one, one, EXACT), row.path) == (MATCH, 0)
