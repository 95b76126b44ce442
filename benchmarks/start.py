"""How long a command takes to start, against an interpreter that imports what any such tool needs."""

from __future__ import annotations

import compileall
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.side_by_side import Row, compare

BASE = [sys.executable, "-c", "import click, msgspec, tomllib, hashlib, json"]


def rows() -> Iterator[Row]:
    """The start of the commands that a gate and a reviewer run, with bytecode and, as in many images, without any."""
    lockllm = str(Path(sys.executable).parent / "lockllm")
    compileall.compile_dir(Path(__file__).parent.parent / "lockllm", quiet=1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, digit in (("a.lock", "0"), ("b.lock", "1")):
            (folder / name).write_text(_lock(digit))
        (folder / "host.json").write_text(json.dumps(_observation()))
        for what, arguments, goal in (
            ("--version", ["--version"], 1.15),
            ("diff of two 500-line locks", ["diff", "a.lock", "b.lock"], 1.6),
            ("verify --observation, 500 lines", ["verify", "a.lock", "--observation", "host.json"], 1.6),
        ):
            yield compare(what, [lockllm, *arguments], BASE, goal, cwd=folder)
            bare = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(folder / "none")}
            yield compare(f"{what}, no bytecode", [lockllm, *arguments], BASE, goal, cwd=folder, env=bare, rounds=7)


def _lock(digit: str) -> str:
    files = "".join(
        f'"model-{number:05}.safetensors" = {{ size = 4096, sha256 = "{digit * 64}" }}\n' for number in range(480)
    )
    return f'lock_version = 1\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n\n[checkpoint.files]\n{files}'


def _observation() -> dict[str, object]:
    facts: dict[str, object] = {
        "engine.name": [{"value": "vllm", "source": "GET /version"}],
        "engine.version": [{"value": "0.10.2", "source": "GET /version"}],
    }
    for number in range(480):
        name = f"model-{number:05}.safetensors"
        value = {"size": 4096, "sha256": "0" * 64}
        facts[f'checkpoint.files."{name}"'] = [{"value": value, "source": name, "by": "file"}]
    return {"observation_version": 1, "complete": ["checkpoint.files"], "facts": facts}
