"""The registry, tested as the data that it is."""

from __future__ import annotations

from collections import Counter

import pytest

from lockllm.facts import check, keys, registry
from lockllm.facts.fact import Fact, Policy

EVERY = (*registry.ROWS, *(family.row for family in registry.FAMILIES))


def test_no_fact_has_two_rows() -> None:
    assert [path for path, count in Counter(row.path for row in registry.ROWS).items() if count > 1] == []
    assert [name for name, count in Counter(row.name for row in check.CHECKS).items() if count > 1] == []


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.key)
def test_a_row_says_what_it_is_what_it_moves_and_how_it_is_fixed(row: Fact[object]) -> None:
    assert row.about.endswith(".")
    assert row.about[0].isupper() or not row.about[0].isalpha() or row.about.split()[0].islower()
    assert row.effect
    assert not row.effect.endswith(".")
    assert (
        row.effect[0].islower()
        or not row.effect[0].isalpha()
        or row.effect.split()[0].isupper()
        or row.effect[:3] == "GPU"
    )
    assert row.fix or not row.lockable
    assert row.group in registry.GROUP
    assert all(part == part.lower() for part in row.path)


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.key)
def test_a_row_names_only_facts_that_are_there(row: Fact[object]) -> None:
    named = [*row.follows_from, *row.stale_with, *([row.firm] if row.firm else [])]
    known = {each.path for each in EVERY}
    assert [key for key in named if keys.parse(key) not in known and not registry.fact(key).known] == []
    for text in row.causes:
        glob = keys.Glob(text)
        assert any(glob.matches(path) or path == keys.parse(text)[: len(path)] for path in known), text


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.key)
def test_a_policy_of_a_row_is_defined_for_its_type(row: Fact[object]) -> None:
    assert row.policy is not Policy.COMPATIBLE or row.type.compatible is not None
    assert row.policy is not Policy.IGNORE


@pytest.mark.parametrize("row", check.CHECKS, ids=lambda row: row.name)
def test_a_check_says_what_it_asks_and_what_a_failure_does(row: check.CheckRow) -> None:
    assert row.name.startswith("check.")
    assert keys.parse(row.name)[0] == "check"
    assert row.about.endswith(".")
    assert row.effect
    assert not row.effect.endswith(".")
    assert row.policy in (Policy.EXACT, Policy.REPORT)


def test_every_row_finds_itself_and_has_a_place_of_its_own() -> None:
    assert [row.key for row in registry.ROWS if registry.fact(row.key) is not row] == []
    places = [registry.position(row.path) for row in registry.ROWS]
    assert len(set(places)) == len(places)


def test_members_of_families_are_found_and_stand_by_name() -> None:
    path = ("checkpoint", "files", "config.json")
    row = registry.find(path)
    assert (row.path, row.known, row.key) == (path, True, 'checkpoint.files."config.json"')
    names = ["a", "B", "c"]
    in_order = sorted((("packages", name) for name in names), key=registry.position)
    assert [each[1] for each in in_order] == ["B", "a", "c"]


def test_a_fact_of_another_release_is_made_up_and_stands_last_in_its_group() -> None:
    row = registry.fact("serve.zukunft")
    assert (row.known, row.lockable) == (False, True)
    assert registry.position(row.path) > registry.position(("serve", "dtype"))
    assert registry.position(row.path) < registry.position(("sampling", "temperature"))
    assert registry.position(("zukunft", "x")) < registry.position(("checkpoint", "files", "a"))


@pytest.mark.parametrize(
    ("key", "path"),
    [("serve.args.a", ("serve", "args", "a")), ("serve.args.a.b", ("serve", "args", "a", "b")),
     ("adapters.x.files.\"a.json\"", ("adapters", "x", "files", "a.json"))],
)  # fmt: skip
def test_a_family_may_be_deep(key: str, path: keys.Path) -> None:
    assert registry.fact(key).path == path
    assert registry.fact(key).known


def test_the_place_of_a_family_is_no_member_of_it() -> None:
    for family in registry.FAMILIES:
        assert registry.family(family.path) in (None, *(each for each in registry.FAMILIES if each.path != family.path))


def test_no_fact_follows_from_one_that_follows() -> None:
    """`judge.verify` looks one step back: what was not seen proves nothing."""
    following = {row.path for row in EVERY if row.follows_from}
    chains = [
        (row.key, key)
        for row in EVERY
        for key in row.follows_from
        if any(path != row.path and path[: len(base)] == base for base in (keys.parse(key),) for path in following)
    ]
    assert chains == []
