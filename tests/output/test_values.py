"""How two values that differ are shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockllm.output.values import show, show_pair

A, B = "a" * 64, "b" * 64
PAIRS: list[tuple[Any, Any, str, str]] = [
    ("bfloat16", "float16", "bfloat16", "float16"),
    (1, 2, "1", "2"),
    (True, False, "true", "false"),
    (None, "2.7.4", "absent", "2.7.4"),
    ("absent", None, '"absent"', "absent"),
    ("1", 1, '"1"', "1"),
    ("true", True, '"true"', "true"),
    ("12.8", "12.9", "12.8", "12.9"),
    (" a", "a", '" a"', "a"),
    ("", "a", '""', "a"),
    (A, B, "a" * 12, "b" * 12),
    ("a" * 64, "a" * 63 + "b", "..." + "a" * 57, "..." + "a" * 56 + "b"),
    (f"sha256:{A}", f"sha256:{B}", "sha256:" + "a" * 12, "sha256:" + "b" * 12),
    ({"size": 1, "sha256": A}, {"size": 1, "sha256": B}, "a" * 12, "b" * 12),
    ({"size": 1, "sha256": A}, {"size": 2, "sha256": B}, "a" * 12 + " (1 byte)", "b" * 12 + " (2 bytes)"),
    ({"size": 1, "sha256": A}, {"size": 2, "sha256": A}, "a" * 12 + " (1 byte)", "a" * 12 + " (2 bytes)"),
    ([1, 2], [1, 3], "[1, 2]", "[1, 3]"),
    (list(range(100)), [*range(99), 7777], "100 items, only here: 99", "100 items, only here: 7777"),
    ({"a": 1, "b": "x" * 80}, {"a": 2, "b": "x" * 80}, "{a = 1, and 1 alike}", "{a = 2, and 1 alike}"),
    ("a\nb", "a b", '"a\\nb"', "a b"),
    ("\u0430", "a", '"\\u0430"', "a"),
    ("x\u202ey", "xy", '"x\\u202ey"', "xy"),
]


@pytest.mark.parametrize("before,after,one,other", PAIRS)
def test_a_pair_is_shown_so_that_its_difference_is_seen(before: Any, after: Any, one: str, other: str) -> None:
    assert show_pair(before, after) == (one, other)


def test_long_texts_are_cut_around_their_first_difference() -> None:
    one, other = show_pair("a" * 200 + "linear" + "b" * 200, "a" * 200 + "yarn" + "b" * 200)
    assert one.startswith("..." + "a" * 12 + "linear")
    assert other.startswith("..." + "a" * 12 + "yarn")
    assert len(one) == len(other) == 60


@given(st.text(max_size=300), st.text(max_size=300), st.integers(min_value=20, max_value=80))
def test_two_texts_that_differ_never_look_alike(before: str, after: str, limit: int) -> None:
    one, other = show_pair(before, after, limit=limit)
    assert (one == other) == (before == after)
    assert max(len(one), len(other)) <= max(limit, 64)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_a_value_is_one_line_of_printable_ascii(value: Any) -> None:
    for full in (False, True):
        shown = show(value, full=full)
        assert shown.isascii()
        assert shown.isprintable()
