"""Laws of judgement."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lockllm.documents.lock import Lock
from lockllm.facts import registry
from lockllm.facts.fact import Policy
from lockllm.facts.observation import CheckStatus, Observation
from lockllm.judge.diff import diff
from lockllm.judge.report import Status
from lockllm.judge.verify import verify
from tests.properties.strategies import agreeing, locks, observations


@given(locks(absent=False, policies=False))
def test_nothing_seen_is_never_a_match(lock: Lock) -> None:
    report = verify(lock, Observation())
    assert {result.status for result in report.results} <= {Status.UNKNOWN}
    assert report.exit_code == 3


@given(locks())
def test_what_a_lock_says_verifies_clean(lock: Lock) -> None:
    report = verify(lock, agreeing(lock))
    assert {result.status for result in report.results} <= {Status.MATCH}
    assert report.exit_code == (0 if report.results else 3)


@given(locks(), observations(), st.randoms(use_true_random=False))
def test_each_locked_fact_is_judged_once_in_order_whatever_the_order_of_readings(
    lock: Lock, seen: Observation, random
) -> None:  # type: ignore[no-untyped-def]
    report = verify(lock, seen)
    paths = [result.fact.path for result in report.results]
    expected = {path for path in (*lock.values, *lock.absent) if registry.find(path).verified}
    assert len(set(paths)) == len(paths)
    assert expected <= set(paths)
    assert paths == sorted(paths, key=registry.position)
    ranked = [list(found) for found in seen.by_path().values()]
    unique = [found for found in ranked if len({reading.by for reading in found}) == len(found)]
    shuffled = [reading for found in unique for reading in found]
    still = verify(lock, msgspec.structs.replace(seen, readings=tuple(shuffled)))
    random.shuffle(shuffled)
    other = verify(lock, msgspec.structs.replace(seen, readings=tuple(shuffled)))
    assert [(each.fact, each.status, each.found) for each in other.results] == [
        (each.fact, each.status, each.found) for each in still.results
    ]


@given(locks(policies=False), observations())
def test_an_exact_difference_is_never_good(lock: Lock, seen: Observation) -> None:
    report = verify(lock, seen)
    differs = any(result.status is Status.MISMATCH for result in report.results)
    unknown = any(result.status is Status.UNKNOWN for result in report.results)
    failed = any(check.status is CheckStatus.FAIL for check in report.checks)
    assert report.exit_code == (1 if differs or failed else 3 if unknown or not report.results else 0)


@given(locks(), observations())
def test_the_gate_changes_the_exit_code_alone(lock: Lock, seen: Observation) -> None:
    enforced, off = verify(lock, seen), verify(lock, seen, gate="off")
    assert off.exit_code == 0
    assert (off.status, off.results) == (enforced.status, enforced.results)


@given(locks())
def test_a_lock_does_not_differ_from_itself(lock: Lock) -> None:
    assert diff(lock, lock).changes == ()


@given(locks(), locks())
def test_a_diff_turned_round_is_the_diff_the_other_way(one: Lock, other: Lock) -> None:
    there, back = diff(one, other), diff(other, one)
    turned = {"added": "removed", "removed": "added", "changed": "changed", "moved": "moved"}
    forward = {
        (each.fact, turned[each.change], repr(each.after), repr(each.before))
        for each in there.changes
        if each.change != "moved"
    }
    assert forward == {
        (each.fact, each.change, repr(each.before), repr(each.after)) for each in back.changes if each.change != "moved"
    }
    assert there.verdict == back.verdict


@given(locks(policies=False), observations())
def test_ignoring_everything_checks_nothing_of_the_guarded_groups_away(lock: Lock, seen: Observation) -> None:
    report = verify(msgspec.structs.replace(lock, policy={"*": Policy.IGNORE}), seen)
    assert all(
        result.policy is Policy.EXACT
        for result in report.results
        if result.fact.group in ("checkpoint", "chat_template")
    )
    if not any(result.status in (Status.MATCH, Status.MISMATCH) for result in report.results):
        assert report.exit_code != 0
