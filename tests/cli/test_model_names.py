"""Engines that choose a template by the model's name: the name is the spec's, not a folder above it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.conftest import TINY

LOCK = '[checkpoint]\npath = "{path}"\n[engine]\nname = "{engine}"\nversion = "{version}"\n'


@pytest.mark.parametrize(("engine", "version"), [("lmdeploy", "0.18.0"), ("sglang", "0.5.23")])
@pytest.mark.parametrize(
    ("folder", "path", "chosen"), [("internvl", "model", False), ("plain", "internvl-tuned", True)]
)
def test_the_name_that_the_spec_gives_decides(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, version: str, folder: str, path: str,
    chosen: bool,
) -> None:  # fmt: skip
    home = tmp_path / folder
    home.mkdir()
    shutil.copytree(TINY / "model", home / path)
    monkeypatch.chdir(home)
    (home / "llm.toml").write_text(LOCK.format(path=path, engine=engine, version=version))
    done = call("lock", "--offline", "--gpu", "none")
    assert done.code == 0, done.err
    text = (home / "llm.lock").read_text()
    assert ('source = "chat_template.jinja"' in text) is not chosen
    assert ("by its name alone" in text or 'source = "guessed-from-path"' in text) is chosen
    done = call("verify", "--stage", "preflight", "--gpu", "none", "--only", "chat_template")
    assert done.code == (2 if chosen and engine == "lmdeploy" else 0), done.out + done.err
