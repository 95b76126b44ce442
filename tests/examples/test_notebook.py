"""The notebook runs from its first cell to its last."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def test_the_notebook_runs(tmp_path: Path) -> None:
    environ = {**os.environ, "LOCKLLM_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", ROOT / "examples" / "notebook.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert "expected" in done.stdout
    assert not list(tmp_path.glob("lockllm-*"))
