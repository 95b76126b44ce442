"""The Python examples of the documentation run, in order."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import lockllm
from tests.conftest import ROOT, TINY

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
SPEC = '[checkpoint]\npath = "model"\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'


def test_the_examples_of_the_python_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    shutil.copytree(TINY / "model", tmp_path / "model")
    (tmp_path / "llm.toml").write_text(SPEC)
    first, *blocks = BLOCK.findall((ROOT / "docs" / "python.md").read_text())
    compile(first, "the first example", "exec")  # its server is the reader's
    names: dict[str, object] = {"lockllm": lockllm}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert (tmp_path / "llm.lock").exists()


def test_the_python_page_names_every_function() -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    functions = {name for name in lockllm.__all__ if name.islower() and not name.startswith("_")}
    assert {name for name in functions if f"`{name}(" not in text} == set()
    assert {name for name in lockllm.__all__ if name.endswith("Error") and f"`{name}`" not in text} == {"LockllmError"}
