"""The binary readers over their corpus, and over some thousand files that are spoiled with the format in mind: the same in every run."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from lockllm.checkpoint import look
from tests.abuse.material import told
from tests.fuzz.binary import HERE, TARGETS

CORPUS = [
    pytest.param(name, path, id=f"{name}-{path.name}")
    for name in TARGETS
    for path in sorted((HERE / "corpus" / name).iterdir())
]


@pytest.mark.parametrize(("name", "path"), CORPUS)
def test_what_once_was_found_is_read_or_refused(tmp_path: Path, name: str, path: Path) -> None:
    raw = path.read_bytes()
    TARGETS[name].run(raw)
    place = tmp_path / f"a.{name}"
    place.write_bytes(raw)
    told(look(str(place if name == "gguf" else tmp_path), cache="off"))


@pytest.mark.parametrize("name", TARGETS)
def test_two_thousand_spoiled_files_are_read_or_refused(name: str) -> None:
    target, random = TARGETS[name], Random(7)
    held = target.corpus
    slowest = 0.0
    for _ in range(2_000):
        raw = target.spoil(random.choice(held), random)
        begun = time.process_time()
        target.run(raw)
        slowest = max(slowest, time.process_time() - begun)
        if random.random() < 0.1:
            held.append(raw)
    assert slowest < 5
