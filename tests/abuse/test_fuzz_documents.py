"""Specs, locks and observations that are spoiled: each is read, or refused in words."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockllm.documents import lock as locks
from lockllm.documents import observation as observations
from lockllm.documents import spec as specs
from lockllm.documents import toml
from lockllm.documents.lock import Lock
from lockllm.errors import LockError, LockllmError, ObservationError
from lockllm.facts.observation import Observation
from lockllm.judge.diff import diff
from lockllm.judge.verify import verify
from lockllm.output import render_diff, render_report
from tests.abuse.material import bounded, seeds, spoiled, texts, values
from tests.properties.strategies import agreeing
from tests.properties.strategies import locks as any_lock

FORMATS = ("text", "json", "junit", "sarif", "github", "markdown")
SPEC = """[checkpoint]
repo = "org/model"
revision = "main"
include = ["*.safetensors"]

[engine]
name = "vllm"
version = ">=0.10,<0.11"

[serve]
tensor_parallel_size = 2
dtype = "auto"

[serve.args]
swap_space = 4

[host]
gpu = "NVIDIA H100 80GB HBM3"
driver = ">=550.54.14"

[sampling]
temperature = 0

[policy]
"packages.*" = "exact"

[[waive]]
fact = "host.gpu_product"
found = "NVIDIA H100 PCIe"
reason = "x"
until = 2027-03-31

[variant.big.host]
gpu = "NVIDIA H200"
"""
LINES = [
    "[policy]",
    "[[waive]]",
    "[absent]",
    "[unpinned]",
    "[requires]",
    '"*" = "ignore"',
    "lock_version = 1",
    "lock_version = 99999",
    "[checkpoint.files]",
    '"../x" = { size = 1, sha256 = "0" }',
    "a = [",
    "a.b.c.d = 1",
    "\ufeff",
    "[serve",
    "x = 1979-05-27T07:32:00Z",
    "x = 1e999",
    "x = nan",
    "]",
    "'",
]


def torn(text: str, random: Random, odd: str) -> str:
    """A text with lines taken away, doubled, moved, or with something odd in them."""
    lines = text.splitlines()
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(lines))
        key, equals, _ = lines[at].partition("=")
        lines[at] = random.choice(
            [
                key + equals + " " + odd,
                key + equals + " " + toml.value(odd),
                lines[at][: len(lines[at]) // 2],
                random.choice(LINES),
                lines[random.randrange(len(lines))],
                odd,
            ]
        )
        lines.insert(random.randrange(len(lines) + 1), random.choice(LINES))
    return "\n".join(lines)


def told(error: LockllmError) -> None:
    """A refusal says what, and how to fix it."""
    assert error.what
    assert error.fix


@bounded(150)
@given(seed=seeds, odd=texts)
def test_any_spec_is_read_or_refused(seed: int, odd: str) -> None:
    try:
        specs.read(torn(SPEC, Random(seed), odd))
    except LockllmError as error:
        told(error)


@bounded(150)
@given(lock=any_lock(), seed=seeds, odd=texts)
def test_any_lock_is_read_or_refused_and_then_judged(lock: Lock, seed: int, odd: str) -> None:
    try:
        read = locks.read(torn(locks.write(lock), Random(seed), odd))
    except LockError as error:
        told(error)
        return
    for seen in (Observation(), agreeing(lock)):
        report = verify(read, seen)
        for format_ in FORMATS:
            render_report(report, format_)
    changes = diff(lock, read)
    for format_ in ("text", "json", "markdown"):
        render_diff(changes, format_)


@bounded(150)
@given(lock=any_lock(), seed=seeds, odd=values)
def test_any_observation_is_read_or_refused_and_then_judged(lock: Lock, seed: int, odd: Any) -> None:
    raw = spoiled(observations.dump(agreeing(lock)), Random(seed), odd)
    try:
        seen = observations.read(json.dumps(raw).encode())
    except ObservationError as error:
        told(error)
        return
    report = verify(lock, seen)
    for format_ in FORMATS:
        render_report(report, format_)
    observations.read(observations.write(seen).encode())


@bounded(200)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_words(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    for read in (lambda: observations.read(raw), lambda: locks.read(toml.decode(raw, "x", LockError), "x")):
        try:
            read()
        except LockllmError as error:
            told(error)


HOSTILE_LOCKS = {
    "up": '[checkpoint.files]\n"../x" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "inner up": '[checkpoint.files]\n"a/../../x" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "absolute": '[checkpoint.files]\n"/etc/passwd" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "drive": '[checkpoint.files]\n"C:\\\\x" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "share": '[checkpoint.files]\n"\\\\\\\\host\\\\x" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "null": '[checkpoint.files]\n"a\\u0000b" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "control": '[checkpoint.files]\n"a\\u001b[31mb" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "newline": '[checkpoint.files]\n"a\\nb" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "two checkpoints": '[[checkpoint]]\n[checkpoint.files]\n"a" = { size = 1, sha256 = "%s" }' % ("0" * 64),
    "negative": '[checkpoint.files]\n"a" = { size = -1, sha256 = "%s" }' % ("0" * 64),
    "no digest": '[checkpoint.files]\n"a" = { size = 1 }',
    "no size": '[checkpoint.files]\n"a" = 3',
    "policy of nothing": '[policy]\n"*" = "never"',
    "waiver without value": '[[waive]]\nfact = "*"\nreason = "x"',
}


@pytest.mark.parametrize("name", HOSTILE_LOCKS)
def test_a_lock_that_reaches_out_is_refused_with_its_line(name: str) -> None:
    with pytest.raises(LockError) as caught:
        locks.read("lock_version = 1\n\n" + HOSTILE_LOCKS[name] + "\n")
    assert "line" in caught.value.where
    assert caught.value.fix


def files(count: int, line: str = '"m%d" = { size = 1, sha256 = "%s" }') -> str:
    return "[checkpoint.files]\n" + "".join(line % (number, "0" * 64) + "\n" for number in range(count))


WORST = {
    "one key of 200,000 parts": lambda: ".".join(["a"] * 200_000) + " = 1\n",
    "3,000 keys of 900 parts": lambda: "".join("a." * 900 + f"b{number} = 1\n" for number in range(500)),
    "many keys of 60 parts": lambda: "".join("a." * 60 + f"b{number} = 1\n" for number in range(8_000)),
    "300,000 tables": lambda: "".join(f"[a.b{number}]\n" for number in range(300_000)),
    "many tables": lambda: "".join(f"[a.b{number}]\n" for number in range(80_000)),
    "a list without end": lambda: "x = [" + "1," * 500_000 + "]\n",
    "lists in lists": lambda: "x = " + "[" * 100_000 + "\n",
    "tables in tables": lambda: "x = " + "{a=" * 50_000 + "\n",
    "a number of a million digits": lambda: "x = 0x" + "f" * 1_000_000 + "\n",
    "blanks": lambda: "[serve]\n" + " " * 1_000_000 + "x\n",
    "blanks in brackets": lambda: "[" + " " * 1_000_000 + "\n",
    "half a million files": lambda: files(300_000),
    "files that are none": lambda: files(9_000, '"m%d" = { size = -1, sha256 = "%s" }'),
    "many facts": lambda: "[serve]\n" + "".join(f"a{number} = 1\n" for number in range(90_000)),
    "many policies": lambda: "[policy]\n" + "".join(f'"*a*{number}*" = "report"\n' for number in range(40_000)),
    "policies and facts": lambda: "[serve]\n" + "".join(f"aa{number} = 1\n" for number in range(9_000)) + "[policy]\n"
    + "".join(f'"*.*a*{number}*" = "report"\n' for number in range(99)),
    "a glob of stars": lambda: '[serve]\ndtype = "a"\n[policy]\n"serve.' + "*a" * 2_000 + 'b" = "report"\n',
    "many waivers": lambda: '[[waive]]\nfact = "*"\nfound = 1\nreason = "x"\n' * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("name", WORST)
def test_a_lock_of_the_worst_kind_costs_seconds_at_most(name: str) -> None:
    text = "lock_version = 1\n\n" + WORST[name]()
    begun = time.process_time()
    try:
        render_report(verify(locks.read(text), Observation()))
    except LockError as error:
        told(error)
    assert time.process_time() - begun < 20  # about five on a free core


def test_an_observation_of_values_without_end_is_refused_before_it_is_parsed() -> None:
    raw = b'{"observation_version": 1, "facts": {"serve.args.x": [{"value": [' + b"{}," * 1_000_000 + b"1]}]}}"
    with pytest.raises(ObservationError, match="more than 1,000,000 values"):
        observations.read(raw)


def test_a_million_entries_are_refused_by_their_bytes_before_they_are_parsed(tmp_path: Path) -> None:
    from lockllm.api.files import read_lock

    path = tmp_path / "llm.lock"
    with path.open("w") as file:
        file.write("lock_version = 1\n\n[checkpoint.files]\n")
        line = '"model-%07d.safetensors" = { size = 1, sha256 = "' + "0" * 64 + '" }\n'
        for start in range(0, 1_000_000, 10_000):
            file.write("".join(line % number for number in range(start, start + 10_000)))
    with pytest.raises(LockError, match="more than 67,108,864"):
        read_lock(str(path))
