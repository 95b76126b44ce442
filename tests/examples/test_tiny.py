"""The tiny checkpoint is what its script writes, and small."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.conftest import TINY


def digests(folder: Path) -> dict[str, str]:
    files = [*sorted((folder / "model").iterdir()), folder / "tiny.gguf"]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def made(folder: Path, *options: str) -> dict[str, str]:
    subprocess.run([sys.executable, TINY / "make.py", "--out", folder, *options], check=True, timeout=60)
    return digests(folder)


def test_the_script_writes_the_very_bytes_that_are_checked_in(tmp_path: Path) -> None:
    assert made(tmp_path) == digests(TINY)


def test_another_seed_makes_other_weights_and_nothing_else(tmp_path: Path) -> None:
    other, ours = made(tmp_path, "--seed", "1"), digests(TINY)
    assert {name for name in ours if other[name] != ours[name]} == {"model.safetensors", "tiny.gguf"}


def test_the_checkpoint_stays_small() -> None:
    assert sum(file.stat().st_size for file in (TINY / "model").iterdir()) < 400_000
    assert (TINY / "tiny.gguf").stat().st_size < 400_000
