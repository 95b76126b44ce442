"""Installing lockllm beside an engine moves nothing there. Only these tests ask the package index, as installs do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT


def would_install(venv: Path, report: Path) -> dict[str, str]:
    """What `pip install` of this tree would bring into an environment."""
    command = [venv / "bin" / "python", "-m", "pip", "install", "--dry-run", "--quiet", "--report", report, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())["install"]
    return {item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in found}


def installed(venv: Path) -> set[str]:
    command = [venv / "bin" / "python", "-m", "pip", "list", "--format", "json"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {item["name"].lower().replace("_", "-") for item in json.loads(listed.stdout)}


@pytest.mark.transformers
def test_beside_transformers_nothing_moves(transformers_venv: Path, tmp_path: Path) -> None:
    brought = would_install(transformers_venv, tmp_path / "report.json")
    assert "lockllm-cli" in brought
    assert set(brought) & installed(transformers_venv) == set()


@pytest.mark.vllm
def test_beside_vllm_nothing_moves(vllm_venv: Path, tmp_path: Path) -> None:
    brought = would_install(vllm_venv, tmp_path / "report.json")
    assert "lockllm-cli" in brought
    assert set(brought) & installed(vllm_venv) == set()
