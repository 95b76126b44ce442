"""What each command may import: start-up is counted in modules, which is exact where a stopwatch is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockllm import engines
from tests.conftest import TINY
from tests.test_imports import HEAVY

LOCK = """\
lock_version = 1

[engine]
name = "vllm"
version = "0.10.2"

[serve]
dtype = "bfloat16"
"""
OBSERVATION = {
    "observation_version": 1,
    "facts": {
        "engine.name": [{"value": "vllm", "source": "GET /version"}],
        "engine.version": [{"value": "0.10.2", "source": "GET /version"}],
        "serve.dtype": [{"value": "bfloat16", "source": "GET /server_info"}],
    },
}
RUN = """
import json, sys
from lockllm.cli import run
code = run(sys.argv[2:])
sys.stdout.flush()
with open(sys.argv[1], "w") as told:
    json.dump([code, sorted(sys.modules)], told)
"""
ENGINES = {each.module.split(".")[-2] for each in engines.built_in().values()}

CASES: list[tuple[list[str], set[str]]] = [
    (["--version"], set()),
    (["--help"], set()),
    (["verify", "--help"], set()),
    (["verify", "--observation", "host.json"], set()),
    (["verify", "--observation", "host.json", "--format", "json"], set()),
    (["diff", "llm.lock", "llm.lock"], set()),
    (["fingerprint", "llm.lock"], set()),
    (["schema", "lock"], set()),
    (["completion", "bash"], set()),
    (["lock", "--check"], {"packaging"}),
    (["inspect", "model"], set()),
    (["render", "model"], set()),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("startup")
    (made / "llm.lock").write_text(LOCK)
    (made / "llm.toml").write_text('[checkpoint]\npath = "model"\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n')
    (made / "host.json").write_text(json.dumps(OBSERVATION))
    (made / "model").symlink_to(TINY / "model")
    return made


def imported(folder: Path, arguments: list[str], told: Path) -> set[str]:
    """The modules that a run of ours has imported."""
    environ = {**os.environ, "LOCKLLM_CACHE": str(told.parent / "cache"), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, told, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    code, modules = json.loads(told.read_text())
    assert code in (0, 1), done.stderr
    return set(modules)


@pytest.mark.parametrize(("arguments", "allowed"), CASES, ids=[" ".join(case[0]) for case in CASES])
def test_a_command_imports_only_what_it_needs(
    folder: Path, tmp_path: Path, arguments: list[str], allowed: set[str]
) -> None:
    modules = imported(folder, arguments, tmp_path / "told.json")
    assert modules & HEAVY - allowed == set()


@pytest.mark.parametrize(
    "arguments", [["--version"], ["verify", "--observation", "host.json"], ["diff", *["llm.lock"] * 2]]
)
def test_judging_imports_no_engine_and_no_edge(folder: Path, tmp_path: Path, arguments: list[str]) -> None:
    modules = imported(folder, arguments, tmp_path / "told.json")
    ours = {name.split(".", 1)[1] for name in modules if name.startswith("lockllm.")}
    assert ours & {f"engines.{name}" for name in ENGINES} == set()
    assert ours & {"engines", "observe", "resolve", "launch", "checkpoint", "prompt"} == set()
    assert ours & {"documents.spec", "api.host", "api.world", "api.locking"} == set()


def test_explaining_a_fact_imports_engines_and_nothing_heavy(folder: Path, tmp_path: Path) -> None:
    modules = imported(folder, ["explain", "serve.dtype"], tmp_path / "told.json")
    assert modules & HEAVY == set()
