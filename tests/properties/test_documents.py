"""Laws of documents: what is written is read back, and writing is a fixed point."""

from __future__ import annotations

from hypothesis import given

from lockllm.documents import lock as locks_room
from lockllm.documents import observation as observations_room
from lockllm.documents.lock import Lock
from lockllm.facts.observation import Observation
from tests.properties.strategies import locks, observations


@given(locks())
def test_a_lock_reads_back_as_it_was_written(lock: Lock) -> None:
    read = locks_room.read(locks_room.write(lock))
    assert (read.values, read.absent, read.policy, read.waive, read.requires, read.unpinned) == (
        lock.values, lock.absent, lock.policy, lock.waive, lock.requires, lock.unpinned,
    )  # fmt: skip


@given(locks())
def test_writing_a_lock_is_a_fixed_point(lock: Lock) -> None:
    once = locks_room.write(lock)
    assert locks_room.write(locks_room.read(once)) == once


@given(locks())
def test_comments_hold_no_fact(lock: Lock) -> None:
    via = dict.fromkeys(lock.values, 'x\n[policy]\n"*" = "ignore"')
    text = locks_room.write(Lock(values=lock.values, absent=lock.absent, via=via))
    bare = "\n".join(line.split("  # via ")[0] for line in text.splitlines() if not line.startswith("#"))
    read, stripped = locks_room.read(text), locks_room.read(bare)
    assert (
        (read.values, read.absent, read.policy)
        == (stripped.values, stripped.absent, stripped.policy)
        == (lock.values, lock.absent, {})
    )


@given(observations())
def test_an_observation_reads_back_as_it_was_written(seen: Observation) -> None:
    read = observations_room.read(observations_room.write(seen).encode())
    assert {path: [r.value for r in found] for path, found in read.by_path().items()} == {
        path: [r.value for r in found] for path, found in seen.by_path().items()
    }
