"""Versions of which some witnesses tell the first parts alone."""

from __future__ import annotations

import pytest

from lockllm.facts import registry


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("12.8", "12.8.90", True),
        ("9.10.2", "9.10.2.21", True),
        ("12.8", "12.8", True),
        ("12.8.0", "12.8", True),
        ("12.4", "12.8.90", False),
        ("12", "12.8", False),
        ("12.8", "12.80", False),
        ("2.20.5", "2.20.6", False),
        ("13.0", "12.8", False),
        ("12.8", "12.8rc1", False),
    ],
)
def test_a_witness_may_tell_fewer_parts_of_a_cuda_version_but_not_other_ones(one: str, other: str, same: bool) -> None:
    row = registry.fact("cuda.runtime")
    assert registry.same(row, one, other) is same
    assert registry.same(row, other, one) is same
