"""The short ids: which part moves with which fact, and what an unknown does."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from lockllm.documents.lock import Lock
from lockllm.facts import registry
from lockllm.facts.observation import ABSENT, By, Observation, Raw, Reading, Unobserved
from lockllm.judge import fingerprint
from lockllm.judge.verify import verify

VALUES: dict[str, Any] = {
    "checkpoint.content_sha256": "3" * 64,
    "chat_template.sha256": "1" * 64,
    "engine.version": "0.10.2",
    "host.gpu": "NVIDIA H100 80GB HBM3",
    "serve.dtype": "bfloat16",
    "serve.tensor_parallel_size": 2,
    "sampling.temperature": 0.6,
}


def lock(**changed: Any) -> Lock:
    """A lock of one fact of each part, and more; None takes one away."""
    held = {**VALUES, **{key.replace("__", "."): value for key, value in changed.items()}}
    facts = {registry.fact(key): value for key, value in held.items() if value is not None}
    return Lock(values={fact.path: registry.read(fact, value) for fact, value in facts.items()})


def seen(held: Lock, **changed: Any) -> Observation:
    """What a host shows that agrees but for these."""
    said: dict[Any, Any] = dict(held.values)
    for key, value in changed.items():
        fact = registry.fact(key.replace("__", "."))
        said[fact.path] = value if value in (ABSENT, None) else registry.read(fact, value)
    return Observation(
        readings=tuple(
            Reading(registry.find(path), value, "", By.ENDPOINT) for path, value in said.items() if value is not None
        )
    )


def parts(text: str) -> dict[str, str]:
    version, _, words = text.partition("-")
    assert version == "1"
    return dict(re.findall(r"(?:\A|-)([a-z])(\?|-|[0-9a-f]{8})(?=-|\Z)", words))


def test_the_id_is_the_digest_of_its_lines() -> None:
    line = '[["sampling","temperature"],0.6000000238418579]'
    assert parts(fingerprint.of_lock(lock()))["s"] == hashlib.sha256(line.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [("chat_template__sha256", "2" * 64, "t"), ("engine__version", "0.11.0", "e"), ("host__gpu", "NVIDIA A10", "n"),
     ("sampling__temperature", 0.7, "s"), ("sampling__temperature", 1, "s"), ("serve__tensor_parallel_size", 4, "n")],
)  # fmt: skip
def test_a_fact_moves_its_own_part_alone(key: str, value: Any, part: str) -> None:
    one, other = parts(fingerprint.of_lock(lock())), parts(fingerprint.of_lock(lock(**{key: value})))
    assert {name for name in one if one[name] != other[name]} == {part}


def test_a_part_that_holds_nothing_is_a_dash() -> None:
    assert fingerprint.of_lock(Lock()) == "1-w--t--e--n--s-"
    assert fingerprint.of_observation(Observation()) == "1-w--t--e--n--s-"
    assert parts(fingerprint.of_lock(lock(sampling__temperature=None)))["s"] == "-"


@pytest.mark.parametrize(
    ("one", "other"), [("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"), ("Tesla T4", "NVIDIA T4")]
)
def test_names_of_one_gpu_give_one_id(one: str, other: str) -> None:
    ids = {fingerprint.of_lock(lock(host__gpu=name)) for name in (one, other)}
    assert len(ids) == 1


def test_numbers_are_compared_as_servers_hold_them() -> None:
    assert fingerprint.of_lock(lock(sampling__temperature=0.2)) == fingerprint.of_lock(
        lock(sampling__temperature=0.20000000298023224)
    )


@pytest.mark.parametrize("value", [True, [1, 2], {"a": [1]}, {"a": 1.5}, {"a": "b", "c": 2}, [["NVIDIA A10"]]])
def test_every_kind_of_value_has_a_place(value: Any) -> None:
    row = registry.fact("sampling.temperature")
    ids = [fingerprint.of_lock(Lock(values={row.path: Raw(each)})) for each in (value, value, "other")]
    assert ids[0] == ids[1] != ids[2]
    line = fingerprint._ENCODER.encode([row.path, value])
    assert parts(ids[0])["s"] == hashlib.sha256(line.encode()).hexdigest()[:8]


def test_several_gpus_have_an_id_by_their_canonical_names() -> None:
    row = registry.fact("host.gpu")
    ids = {
        fingerprint.of_lock(Lock(values={row.path: Raw(names)}))
        for names in (["Tesla T4", "NVIDIA A10"], ["NVIDIA T4", "NVIDIA A10"])
    }
    assert len(ids) == 1
    assert fingerprint.of_lock(Lock(values={row.path: Raw([7])})) not in ids


def test_text_that_is_no_utf_8_has_an_id() -> None:
    held = Lock(values={("sampling", "stop"): Raw("\ud800")})
    assert re.fullmatch("[0-9a-f]{8}", parts(fingerprint.of_lock(held))["s"])


def test_a_host_that_agrees_has_the_locks_id() -> None:
    held = lock()
    assert fingerprint.of_observation(seen(held), held) == fingerprint.of_lock(held)
    assert fingerprint.of_observation(seen(held)) == fingerprint.of_lock(held)
    assert verify(held, seen(held)).fingerprint.observed == fingerprint.of_lock(held)
    assert verify(held, seen(held)).fingerprint.locked == fingerprint.of_lock(held)


def test_what_the_lock_does_not_hold_moves_nothing() -> None:
    held = lock(sampling__top_p=None)
    more = seen(held, sampling__top_p=0.5)
    assert fingerprint.of_observation(more, held) == fingerprint.of_lock(held)
    assert fingerprint.of_observation(more) != fingerprint.of_lock(held)


@pytest.mark.parametrize("with_lock", [True, False])
def test_a_part_with_an_unknown_is_a_question(with_lock: bool) -> None:
    held = lock()
    less = seen(held, chat_template__sha256=None)
    gap = Unobserved(("chat_template",), "not seen")
    less = Observation(readings=less.readings, unobserved=(gap,))
    found = parts(fingerprint.of_observation(less, held if with_lock else None))
    locked = parts(fingerprint.of_lock(held))
    assert found.pop("t") == "?"
    assert found == {name: word for name, word in locked.items() if name != "t"}
    assert parts(verify(held, less).fingerprint.observed)["t"] == "?"


def test_what_was_seen_to_be_absent_is_no_unknown() -> None:
    held = lock(sampling__top_p=0.5)
    gone = seen(held, sampling__top_p=ABSENT)
    assert parts(verify(held, gone).fingerprint.observed)["s"] == parts(fingerprint.of_lock(lock()))["s"]
    assert parts(fingerprint.of_observation(gone))["s"] == parts(fingerprint.of_lock(lock()))["s"]


def test_a_verdict_names_the_part_that_moved() -> None:
    held = lock()
    observed = parts(verify(held, seen(held, sampling__temperature=0.9)).fingerprint.observed)
    assert observed == {
        **parts(fingerprint.of_lock(held)),
        "s": parts(fingerprint.of_lock(lock(sampling__temperature=0.9)))["s"],
    }
