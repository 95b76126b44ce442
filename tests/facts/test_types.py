"""The kinds of value: what each reads, writes and takes for the same."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockllm.facts import registry
from lockllm.facts.observation import ABSENT, Raw
from lockllm.facts.types import (
    ANY,
    BOOL,
    COMMIT,
    COUNT,
    COUNTS,
    DTYPE,
    FILE,
    GPU,
    INT,
    KV_DTYPE,
    MEMORY,
    NUMBER,
    PACKAGE,
    SHA256,
    SWITCH,
    TEXT,
    TEXT_SET,
    TEXTS,
    VERSION,
    same_any,
    whole,
)  # fmt: skip

TYPES = (ANY, BOOL, COMMIT, COUNT, COUNTS, DTYPE, FILE, GPU, INT, KV_DTYPE, MEMORY, NUMBER, PACKAGE, SHA256, SWITCH, TEXT, TEXT_SET,
         TEXTS, VERSION)  # fmt: skip
HUGE = int("9" * 400)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(HUGE)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("kind", "raw", "parsed"),
    [
        (DTYPE, "torch.bfloat16", "bfloat16"), (DTYPE, "bf16", "bfloat16"), (DTYPE, "half", "float16"), (DTYPE, "F32", "float32"),
        (KV_DTYPE, "fp8_e4m3", "fp8_e4m3"), (KV_DTYPE, "f16", "float16"), (INT, 3.0, 3), (COUNT, 0, 0), (NUMBER, 1.0, 1),
        (NUMBER, 0.5, 0.5), (SHA256, "sha256:" + "A" * 64, "a" * 64), (COMMIT, "B" * 40, "b" * 40), (MEMORY, 85899345920, "80 GiB"),
        (MEMORY, "80 GiB", "80 GiB"), (GPU, ["A", "A"], "A"), (GPU, ["A", "B"], ("A", "B")), (TEXTS, ["a"], ("a",)),
        (FILE, {"size": 1, "sha256": "sha256:" + "A" * 64}, {"size": 1, "sha256": "a" * 64}), (SWITCH, "on", "on"), (BOOL, True, True),
    ],
)  # fmt: skip
def test_a_value_is_read_in_its_one_form(kind: Any, raw: Any, parsed: Any) -> None:
    assert kind.parse(raw) == parsed
    assert kind.parse(kind.dump(kind.parse(raw))) == parsed


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (INT, True), (INT, 0.5), (INT, "1"), (INT, HUGE), (COUNT, -1),
        (NUMBER, math.nan), (NUMBER, math.inf), (NUMBER, HUGE), (NUMBER, True),
        (BOOL, 1), (BOOL, "true"), (TEXT, 1), (SHA256, "a" * 63), (COMMIT, "main"), (MEMORY, "much"), (MEMORY, 0), (MEMORY, HUGE),
        (TEXTS, "a"), (TEXTS, [1]), (COUNTS, [0.5]), (FILE, {}), (FILE, {"size": -1}), (FILE, {"sha256": 1}), (FILE, {"path": "x"}),
        (SWITCH, "maybe"), (GPU, []), (GPU, [1]), (ANY, math.nan), (ANY, None),
    ],
)  # fmt: skip
def test_what_a_kind_cannot_hold_is_refused(kind: Any, raw: Any) -> None:
    with pytest.raises(ValueError):
        kind.parse(raw)


@pytest.mark.parametrize(
    ("kind", "one", "other", "same"),
    [
        (VERSION, "0.10", "0.10.0", True), (VERSION, "v0.10.2", "0.10.2", True), (VERSION, "0.10.2", "0.10.20", False),
        (VERSION, "0.10.2+cu128", "0.10.2", False), (VERSION, "1.0rc1", "1.0.rc1", True), (VERSION, "b6000", "b6000", True),
        (PACKAGE, "2.8.0+cu128", "2.8.0+cu129", False), (PACKAGE, "2.8.0+CU128", "2.8.0+cu128", True),
        (NUMBER, 0.2, 0.20000000298023224, True), (NUMBER, 0.2, 0.2001, False), (NUMBER, 1, 1.0, True),
        (MEMORY, "80 GiB", "81920 MiB", True), (MEMORY, "80 GiB", "80 GB", False), (SWITCH, "on", True, True), (SWITCH, "off", "0", True),
        (GPU, "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", False), (TEXT_SET, ("a", "b"), ("b", "a"), True),
        (TEXTS, ("a", "b"), ("b", "a"), False), (COUNTS, (1, 2), (2, 1), True), (ANY, True, 1, False), (ANY, (1, 2.0), (1.0, 2), True),
        (KV_DTYPE, "fp8_e4m3", "float8_e4m3fn", True), (ANY, HUGE, HUGE + 1, False),
    ],
)  # fmt: skip
def test_what_is_the_same_and_what_is_not(kind: Any, one: Any, other: Any, same: bool) -> None:
    assert kind.same(one, other) is same
    assert kind.same(other, one) is same


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@given(raw=json_values, other=json_values)
def test_any_value_is_read_or_refused_and_compared_without_trouble(kind: Any, raw: Any, other: Any) -> None:
    row = next(each for each in (*registry.ROWS, *(one.row for one in registry.FAMILIES)) if each.type is kind)
    values = [registry.read(row, each) for each in (raw, other)]
    assert all(
        each is ABSENT or isinstance(each, Raw) or kind.parse(kind.dump(each)) == each or each != each
        for each in values
    )
    assert registry.same(row, values[0], values[1]) is registry.same(row, values[1], values[0])


def deep(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


ODD_DATA = {
    "infinity": math.inf,
    "no number": [math.nan],
    "a set": {1, 2},
    "bytes": b"x",
    "deep": deep(900),
    "deep tables": {"a": deep(500)},
    "many digits": 10**9000,
    "none inside": [None],
    "a date": dt.date(2026, 1, 1),
    "many digits as a size": "9" * 400 + " GiB",
    "many digits as a version": "9" * 5000,
}


@pytest.mark.parametrize("name", ODD_DATA)
@pytest.mark.parametrize("type_", TYPES, ids=lambda each: each.name)
def test_whatever_a_source_gives_is_held_by_every_document(type_: Any, name: str) -> None:
    for row in [row for row in registry.ROWS if row.type is type_][:1] or [registry.fact("serve.args.x")]:
        value = registry.read(row, ODD_DATA[name])
        assert json.loads(json.dumps(registry.dump(row, value), indent=1, allow_nan=False, default=str)) is not None
        assert registry.same(row, value, value)


def test_true_is_not_1_at_any_depth() -> None:
    assert not same_any({"a": [True]}, {"a": [1]})
    assert not same_any([{"a": True}], [{"a": 1}])
    assert same_any([{"a": 1.0}], ({"a": 1},))


@pytest.mark.parametrize("text", ["²", "½", "", "-", "1_0", " 1", "1\n", "9" * 19, "9" * 5000, "٣"])
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    assert whole(text) is None


def test_a_whole_number_is_read_from_text() -> None:
    assert (whole("-12"), whole("007"), whole("9" * 18)) == (-12, 7, 10**18 - 1)
