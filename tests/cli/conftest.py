"""The command line, called in this process: a folder to work in, and what a call printed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockllm.cli import run
from tests.conftest import TINY


@dataclass(frozen=True)
class Done:
    """One call of the command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read as JSON."""
        return json.loads(self.out)


Call = Callable[..., Done]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command line in an empty folder. No call may end in a traceback or in a bug."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / ".cache"))
    for name in ("LOCKLLM_GATE", "GIT_DIR", "GIT_EXTERNAL_DIFF", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def called(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = run([str(each) for each in arguments])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        assert "a bug in lockllm" not in printed.err, printed.err
        return Done(code, printed.out, printed.err)

    return called


SPEC = """\
[checkpoint]
path = "model"

[engine]
name = "vllm"
version = "0.10.2"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spec of a tiny checkpoint beside it."""
    shutil.copytree(TINY / "model", tmp_path / "model")
    (tmp_path / "llm.toml").write_text(SPEC)
    return tmp_path


def observation(facts: dict[str, Any], by: str = "endpoint", **more: Any) -> str:
    """An observation in which each of these facts was seen once."""
    readings = {key: [{"value": value, "source": "seen", "by": by}] for key, value in facts.items()}
    return json.dumps({"observation_version": 1, "observed_at": "2026-05-01T12:00:00Z", "facts": readings, **more})
