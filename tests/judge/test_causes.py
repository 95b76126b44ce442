"""Which difference explains which, for verdicts and for diffs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lockllm.documents.lock import Lock
from lockllm.facts import registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Observation, Reading
from lockllm.judge import causes
from lockllm.judge.causes import Moved, roots
from lockllm.judge.diff import diff
from lockllm.judge.report import Status
from lockllm.judge.verify import verify

A, B, C, D = ("a",), ("b",), ("c",), ("d",)


@pytest.mark.parametrize(
    ("direct", "expected"),
    [
        ({}, {}),
        ({B: A}, {B: A}),
        ({B: A, C: B, D: C}, {B: A, C: A, D: A}),
        ({A: B, B: A}, {A: B, B: A}),
        ({A: A}, {}),
        ({A: B, B: C, C: B}, {A: C, B: C, C: B}),
    ],
)
def test_a_fact_follows_from_the_root_of_its_chain(direct: dict[Path, Path], expected: dict[Path, Path]) -> None:
    assert roots(direct) == expected


def fact(key: str, **more: Any) -> Any:
    return msgspec.structs.replace(registry.fact(key), **more)


FILES = [
    ("checkpoint", "files", name)
    for name in ("config.json", "generation_config.json", "model-00001-of-00002.safetensors")
]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("generation_config.json: temperature", "generation_config.json"),
        ("models/qwen/generation_config.json", "generation_config.json"),
        ("model-00001-of-00002.safetensors header", "model-00001-of-00002.safetensors"),
        ("tokenizer.json", "config.json"),
        ("", "config.json"),
        ("config.json and generation_config.json", "config.json"),
        ("config.json of model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors"),  # the longest name counts
        ("x " * 30 + "generation_config.json", "generation_config.json"),
        ("generation_config.json " + "x " * 30, "config.json"),  # only the last words are looked at
        ("y" * 1000 + " generation_config.json", "config.json"),
    ],
)  # fmt: skip
def test_of_several_causes_the_one_that_the_source_names_is_told(source: str, expected: str) -> None:
    moved = Moved(FILES)
    row = fact("sampling.temperature", follows_from=("checkpoint.files",))
    assert moved.base(row, source) == ("checkpoint", "files", expected)
    other = fact("sampling.temperature", follows_from=(), causes=("kernels.*", "checkpoint.files.*"))
    assert moved.cause(other, source) == ("checkpoint", "files", expected)
    assert moved.base(other, source) is None


def test_no_fact_explains_itself() -> None:
    row = fact("serve.dtype", causes=("serve.*",))
    assert Moved([row.path]).cause(row, "") is None
    other = ("serve", "max_model_len")
    assert Moved([row.path, other]).cause(row, "argument --dtype") == other
    assert Moved([other, row.path]).cause(row, "dtype") == other


def test_a_cause_given_by_the_same_argument_is_its_cause() -> None:
    given = {
        ("serve", "dtype"): "argument --dtype",
        ("serve", "max_model_len"): "argument --x",
        ("serve", "seed"): "argument --x",
    }
    moved = Moved(given, lambda path: given[path])
    row = fact("serve.max_num_seqs", causes=("serve.*",))
    assert moved.cause(row, "", "argument --x") == ("serve", "max_model_len")
    assert moved.cause(row, "argument: seed", "argument --x") == ("serve", "seed")
    assert moved.cause(row, "", "argument --y") is None
    assert moved.cause(row, "", "argument --dtype") == ("serve", "dtype")
    assert moved.cause(row, "") == ("serve", "dtype")


def test_what_moved_is_asked_by_path() -> None:
    assert ("a",) in Moved([("a",)])
    assert ("b",) not in Moved([("a",)])


ENGINE, DTYPE, KV = registry.fact("engine.version"), registry.fact("serve.dtype"), registry.fact("serve.kv_cache_dtype")
CONFIG, DECLARED = registry.fact('checkpoint.files."config.json"'), registry.fact("checkpoint.dtype")


def because(**readings: tuple[Any, By, str]) -> dict[str, str | None]:
    """What each mismatch follows from, of a lock that differs from the host in all of these."""
    locked: dict[Path, Any] = {}
    seen = []
    for key, (value, by, source) in readings.items():
        row = registry.fact(key.replace("__", "."))
        locked[row.path] = registry.read(
            row, {"size": 1, "sha256": "a" * 64} if row.group == "checkpoint" and "files" in row.path else "1"
        )
        seen.append(Reading(row, registry.read(row, value), source, by))
    report = verify(Lock(values=locked), Observation(readings=tuple(seen)))
    return {result.fact.key: result.because for result in report.results if result.status is Status.MISMATCH}


def test_a_default_that_moved_follows_from_the_engine() -> None:
    for by in (By.RULE, By.DEFAULT):
        found = because(engine__version=("2", By.ENDPOINT, ""), host__mig=("2", by, ""))
        assert found["host.mig"] == "engine.version"
        assert found["engine.version"] is None
    for by in (By.ENDPOINT, By.PROCESS):
        found = because(engine__version=("2", By.ENDPOINT, ""), host__mig=("2", by, "argument --seed"))
        assert found["host.mig"] is None


def test_without_the_engine_a_default_follows_from_nothing() -> None:
    assert because(host__mig=("2", By.DEFAULT, "")) == {"host.mig": None}


def test_the_engine_that_a_rule_tells_does_not_follow_from_itself() -> None:
    assert because(engine__version=("2", By.RULE, "")) == {"engine.version": None}


def test_an_argument_that_was_typed_is_a_cause_of_its_own() -> None:
    found = because(
        serve__dtype=("2", By.PROCESS, "argument --dtype"),
        serve__kv_cache_dtype=("2", By.PROCESS, "argument --kv-cache-dtype"),
    )
    assert found == {"serve.dtype": None, "serve.kv_cache_dtype": None}
    ruled = because(serve__dtype=("2", By.PROCESS, "argument --dtype"), serve__kv_cache_dtype=("2", By.RULE, "rule"))
    assert ruled["serve.kv_cache_dtype"] == "serve.dtype"


def test_the_argument_is_told_behind_any_number_of_witnesses() -> None:
    row = registry.fact("serve.seed")

    def result(*by: By) -> Any:
        readings = tuple(Reading(row, 1, f"source {number}", each) for number, each in enumerate(by))
        report = verify(Lock(values={row.path: 2}), Observation(readings=readings))
        return causes._typed(report.results[0])

    assert result(By.PROCESS) == "source 0"
    assert result(By.ENDPOINT, By.PLAN) == "source 1"
    assert result(By.LIBRARY, By.ENDPOINT, By.PROCESS) == "source 2"
    assert result(By.ENDPOINT) == ""


def locks(**changed: Any) -> tuple[Lock, Lock]:
    """Two locks that differ in these facts; `via` of the second under `via`."""
    via = changed.pop("via", {})
    sides: list[dict[Path, Any]] = [{}, {}]
    for key, values in changed.items():
        row = registry.fact(key.replace("__", "."))
        for side, raw in zip(sides, values, strict=True):
            if raw is not ABSENT:
                side[row.path] = registry.read(row, raw)
    told = {registry.fact(key).path: text for key, text in via.items()}
    return Lock(values=sides[0]), Lock(values=sides[1], via=told)


def follows(before: Lock, after: Lock) -> dict[str, str | None]:
    return {change.fact.key: change.because for change in diff(before, after).changes}


@pytest.mark.parametrize("via", ["default", "rule"])
def test_a_default_of_another_release_follows_from_it_in_a_diff(via: str) -> None:
    before, after = locks(engine__version=("1", "2"), host__mig=("1", "2"), via={"host.mig": via})
    assert follows(before, after) == {"engine.version": None, "host.mig": "engine.version"}
    assert follows(after, before) == {"engine.version": None, "host.mig": "engine.version"}
    alone = locks(host__mig=("1", "2"), via={"host.mig": via})
    assert follows(*alone) == {"host.mig": None}


@pytest.mark.parametrize("via", ["llm.toml", "", "config.json"])
def test_what_the_spec_says_follows_from_no_release(via: str) -> None:
    before, after = locks(engine__version=("1", "2"), host__mig=("1", "2"), via={"host.mig": via} if via else {})
    assert follows(before, after)["host.mig"] is None


def test_the_release_itself_follows_from_nothing() -> None:
    before, after = locks(engine__version=("1", "2"), via={"engine.version": "rule"})
    assert follows(before, after) == {"engine.version": None}


def test_a_value_of_the_spec_has_no_cause_but_what_it_follows_from() -> None:
    before, after = locks(serve__dtype=("bfloat16", "float16"), serve__kv_cache_dtype=("bfloat16", "float16"))
    assert follows(before, after)["serve.kv_cache_dtype"] == "serve.dtype"
    told = msgspec.structs.replace(after, via={KV.path: "llm.toml"})
    assert follows(before, told)["serve.kv_cache_dtype"] is None
    other = msgspec.structs.replace(after, via={KV.path: "serve.toml"}, spec="serve.toml")
    assert follows(before, other)["serve.kv_cache_dtype"] is None


def test_a_declared_value_follows_from_its_file() -> None:
    one, other = ({"size": 1, "sha256": each * 64} for each in "ab")
    before = Lock(values={CONFIG.path: one, DECLARED.path: "bfloat16"})
    after = Lock(values={CONFIG.path: other, DECLARED.path: "float16"}, via={DECLARED.path: "config.json: torch_dtype"})
    assert follows(before, after)["checkpoint.dtype"] == CONFIG.key


@pytest.mark.parametrize("before", [0, 1, 2, 5])
def test_two_arguments_are_two_causes_however_many_endpoints_show_their_values(before: int) -> None:
    """A step change of the length is not filed under the noise of the sequences."""
    told = {"serve.max_model_len": (256, 128, "--max-model-len"), "serve.max_num_seqs": (8, 16, "--max-num-seqs")}
    lock = Lock(values={registry.fact(key).path: old for key, (old, _, _) in told.items()})
    readings = tuple(
        registry.seen(key, new, source, by)
        for key, (_, new, flag) in told.items()
        for source, by in [*[(f"GET /{at}", By.ENDPOINT) for at in range(before)], (f"argument {flag}", By.PROCESS)]
    )
    report = verify(lock, Observation(readings=readings))
    assert {each.fact.key: each.because for each in report.results} == dict.fromkeys(told, None)


BYTES = [{"size": 1, "sha256": each * 64} for each in "ab"]
GENERATION = registry.fact('checkpoint.files."generation_config.json"')
ATTENTION = registry.fact("kernels.attention")
TORCH, XFORMERS = registry.fact("packages.torch"), registry.fact("packages.xformers")


@pytest.mark.parametrize(
    ("bases", "row", "source", "expected"),
    [
        ((CONFIG, GENERATION), DECLARED, "generation_config.json: torch_dtype", GENERATION),
        ((CONFIG, GENERATION), DECLARED, "config.json: torch_dtype", CONFIG),
        ((TORCH, XFORMERS), ATTENTION, "log: xformers", XFORMERS),
        ((TORCH, XFORMERS), ATTENTION, "log: torch", TORCH),
        ((TORCH, XFORMERS), ATTENTION, "log", TORCH),
    ],
    ids=["one file", "the other file", "one package", "the other package", "no name"],
)
def test_verdict_and_diff_follow_the_fact_that_the_source_names(
    bases: tuple[Any, ...], row: Any, source: str, expected: Any
) -> None:
    """What a fact follows from, or may be caused by, where several of those moved."""
    kinds = [BYTES if base.group == "checkpoint" else ("1", "2") for base in bases]
    before = {row.path: "float16", **{base.path: each[0] for base, each in zip(bases, kinds, strict=True)}}
    after = {row.path: "float32", **{base.path: each[1] for base, each in zip(bases, kinds, strict=True)}}
    readings = tuple(Reading(registry.find(path), value, source, By.FILE) for path, value in after.items())
    results = verify(Lock(values=before), Observation(readings=readings)).results
    assert {each.fact.key: each.because for each in results}[row.key] == expected.key
    changes = diff(Lock(values=before), Lock(values=after, via={row.path: source})).changes
    assert {each.fact.key: each.because for each in changes}[row.key] == expected.key


def test_what_another_argument_gave_is_still_explained_by_what_it_follows_from() -> None:
    """A value that is typed and follows from nothing is explained by its own argument alone; others by what moved."""
    locked = {TORCH.path: "1", ATTENTION.path: "a"}

    def cause(by: By, source: str) -> str | None:
        readings = (Reading(TORCH, "2", "torch", By.FILE), Reading(ATTENTION, "b", source, by))
        results = verify(Lock(values=locked), Observation(readings=readings)).results
        return next(each.because for each in results if each.fact == ATTENTION)

    assert cause(By.LOG, "log") == TORCH.key
    assert cause(By.PROCESS, "argument --attention-backend") is None


def test_a_source_that_names_nothing_leaves_the_first_cause() -> None:
    moved = Moved(FILES)
    row = fact("sampling.temperature", follows_from=("checkpoint.files",))
    for source in ("", "-", "somewhere else"):
        assert moved.base(row, source) == ("checkpoint", "files", "config.json")
    assert Moved(FILES[:1]).base(row, "generation_config.json") == ("checkpoint", "files", "config.json")
    assert Moved([]).base(row, "config.json") is None
