"""Ranges of versions, and which line of `[policy]` holds for a fact."""

from __future__ import annotations

import pytest

from lockllm.facts import registry
from lockllm.facts.fact import Policy
from lockllm.judge.policy import Policies, compile_globs, inside


@pytest.mark.parametrize(
    ("specifier", "version", "expected"),
    [
        (">=550.54.14", "550.54.14", True), (">=550.54.14", "550.54.13", False), (">=550, <560", "555.1", True),
        (">=550,<560", "560.1", False), ("550.54", "550.54", True), ("550.54", "550.55", False), (" 550.54 ", "v550.54", True),
        ("==0.10.*", "0.10.9", True), ("!=0.10.2", "0.10.2", False), ("~=0.10.2", "0.10.9", True), ("~=0.10.2", "0.11.0", False),
        (">=0.10", "0.11.0rc1", True), (">=0.10", " v0.10 ", True), (">=b6000", "b6001", True), (">=b6000", "b5999", False),
        (">=b6000,<b7000", "b6999", True), (">=b6000,<b7000", "b7000", False), ("b6000", "b6000", True), ("b6000", "b6001", False),
        ("=2026a", "2026a", True), ("= main build", "main build", True), ("main build", "other build", False),
        (">=1", "not a version", False), ("not a version", "not a version", True), ("==1.0b1", "1.0b1", True), ("==1.0b1", "1.01", False),
        ("b6000b", "b6000b", True), ("b6000b", "b6000", False), ("<1.0b2", "1.0b1", True), ("<1.0b2", "1.0b3", False),
        (">=b5", "b6", True), (">=b5", "b4", False), ("X build", "X build", True), (">=550,", "551", True),
    ],
)  # fmt: skip
def test_a_range_is_that_of_pep_440_or_of_builds(specifier: str, version: str, expected: bool) -> None:
    assert inside(specifier, version) is expected


@pytest.mark.parametrize(
    ("table", "key", "expected"),
    [
        ({}, "host.driver", Policy.EXACT),
        ({"host.*": Policy.REPORT}, "host.driver", Policy.REPORT),
        ({"host": Policy.REPORT}, "host.driver", Policy.REPORT),
        ({"*": Policy.REPORT, "host.driver": Policy.IGNORE}, "host.driver", Policy.IGNORE),
        ({"host.*": Policy.IGNORE, "host.gpu_count": Policy.REPORT}, "host.gpu_count", Policy.REPORT),
        ({"host.*": Policy.IGNORE, "host.driver": Policy.EXACT}, "host.driver", Policy.EXACT),
        ({"packages.*": Policy.REPORT, "packages.torch": Policy.COMPATIBLE}, "packages.torch", Policy.COMPATIBLE),
        ({"packages.*": Policy.REPORT}, "host.driver", Policy.EXACT),
        ({"serve.*": Policy.REPORT, "serve.dtype": Policy.IGNORE}, "serve.dtype", Policy.IGNORE),
        ({"serve.*": Policy.COMPATIBLE}, "serve.dtype", Policy.COMPATIBLE),
    ],
)
def test_the_most_precise_line_holds(table: dict[str, Policy], key: str, expected: Policy) -> None:
    assert Policies(table).of(registry.fact(key)) is expected
    assert Policies(dict(reversed(table.items()))).of(registry.fact(key)) is expected


def test_a_line_that_hits_nothing_is_named() -> None:
    facts = (registry.fact("host.driver"), registry.fact("packages.torch"))
    policies = Policies(
        {"host.gpu": Policy.REPORT, "packages.*": Policy.REPORT, "kernels.*": Policy.REPORT, "h*": Policy.REPORT}
    )
    assert sorted(policies.idle(facts)) == ["host.gpu", "kernels.*"]
    assert Policies({"*": Policy.REPORT}).idle(()) == ["*"]


def test_globs_that_spell_no_key_are_refused() -> None:
    assert [glob.text for glob in compile_globs(("a.*", "*"))] == ["a.*", "*"]
    with pytest.raises(ValueError, match="dotted key"):
        compile_globs(("a..b",))
