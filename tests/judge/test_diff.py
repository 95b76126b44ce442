"""What a reviewer sees of two locks: nothing that decides a verdict may change unseen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lockllm.documents.lock import Lock
from lockllm.documents.terms import Waiver
from lockllm.facts.fact import Kind, Policy
from lockllm.judge.diff import diff, stale

DTYPE, PARSER = ("serve", "dtype"), ("serve", "reasoning_parser")
HELD = Lock(values={DTYPE: "bfloat16"}, edition=2)
WAIVER = Waiver(fact="host.gpu_product", found="NVIDIA H100 PCIe", reason="two spare nodes")

WEAKER = {
    "exclude": ({"exclude": ("x*",)}, "checkpoint.exclude", None, ["x*"]),
    "include": ({"include": ("*.safetensors",)}, "checkpoint.include", None, ["*.safetensors"]),
    "policy": ({"policy": {"serve.dtype": Policy.REPORT}}, 'policy."serve.dtype"', None, "report"),
    "policy-exact": ({"policy": {"serve.dtype": Policy.EXACT}}, 'policy."serve.dtype"', None, "exact"),
    "requires": ({"requires": {("host", "driver"): ">=550"}}, 'requires."host.driver"', None, ">=550"),
    "waiver": (
        {"waive": (WAIVER,)}, 'waive."host.gpu_product"."NVIDIA H100 PCIe"', None, "until for good: two spare nodes",
    ),
    "absent": ({"absent": frozenset({PARSER})}, "absent.serve.reasoning_parser", None, "listed"),
    "asked": ({"asked": {PARSER: "qwen3"}}, "asked.serve.reasoning_parser", None, "qwen3"),
    "spec": ({"spec": "other.toml"}, "spec", None, "other.toml"),
    "edition": ({"edition": 1}, "edition", 2, 1),
}  # fmt: skip


@pytest.mark.parametrize(("change", "key", "before", "after"), WEAKER.values(), ids=WEAKER)
def test_what_decides_a_verdict_is_shown(change: dict[str, Any], key: str, before: Any, after: Any) -> None:
    other = msgspec.structs.replace(HELD, **change)
    (shown,) = diff(HELD, other).changes
    assert (shown.fact.key, shown.before, shown.after, shown.kind) == (key, before, after, Kind.RULES)
    assert diff(HELD, other).verdict == "rules"
    (back,) = diff(other, HELD).changes
    assert (back.fact.key, back.before, back.after) == (key, after, before)
    assert stale(HELD, other) == [key]


@pytest.mark.parametrize(
    "waiver",
    [msgspec.structs.replace(WAIVER, until="2027-01-31"), msgspec.structs.replace(WAIVER, reason="another reason")],
)
def test_a_waiver_that_lives_longer_or_has_another_reason_is_shown(waiver: Waiver) -> None:
    one, other = (msgspec.structs.replace(HELD, waive=(each,)) for each in (WAIVER, waiver))
    assert [change.change for change in diff(one, other).changes] == ["changed"]


def test_a_fact_that_left_for_absent_is_shown_once() -> None:
    gone = msgspec.structs.replace(HELD, values={}, absent=frozenset({DTYPE}))
    (shown,) = diff(HELD, gone).changes
    assert (shown.fact.path, shown.change, shown.kind) == (DTYPE, "removed", Kind.STEP)


def test_a_new_lock_is_not_told_by_its_spec_and_edition() -> None:
    assert [change.fact.path for change in diff(Lock(), HELD).changes] == [DTYPE]


def test_equal_locks_differ_in_nothing() -> None:
    for change, *_ in WEAKER.values():
        held = msgspec.structs.replace(HELD, **change)
        assert diff(held, held).changes == ()
