"""`lock --oms` and `verify --oms`: a statement of the files, and one taken as what the files must be."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call, Done


def against(call: Call, *words: str) -> tuple[int, set[str]]:
    """The exit code of a verification, and the files that it names."""
    done = call(
        "verify",
        "--oms",
        "m.oms.json",
        "--checkpoint",
        "model",
        "--stage",
        "preflight",
        "--format",
        "json",
        "--gpu",
        "none",
        *words,
    )
    return done.code, {each["fact"] for each in done.json["results"] if each["status"] == "mismatch"}


@pytest.fixture
def stated(folder: Path, call: Call) -> Path:
    """A folder with a statement of its checkpoint, and no lock."""
    done = call("lock", "--oms", "m.oms.json")
    assert done.code == 0, done.err
    (folder / "llm.lock").rename(folder / "kept.lock")
    return folder


def test_the_statement_names_every_locked_file(stated: Path) -> None:
    made = json.loads((stated / "m.oms.json").read_text())
    assert made["subject"][0]["name"] == "model"
    named = {each["name"] for each in made["predicate"]["resources"]}
    assert named == {path.name for path in (stated / "model").iterdir()}


def test_a_checkpoint_is_verified_by_its_statement_alone(stated: Path, call: Call) -> None:
    assert against(call) == (0, set())
    (stated / "model" / "extra.safetensors").write_bytes(b"x")
    (stated / "model" / "README.md").write_text("x")
    (stated / "model" / "config.json").write_text("{}")
    (stated / "model" / "tokenizer.json").unlink()
    code, named = against(call)
    files = {
        f'checkpoint.files."{name}"' for name in ("extra.safetensors", "README.md", "config.json", "tokenizer.json")
    }
    assert (code, named) == (1, files)


def test_a_lock_that_does_not_agree_with_its_statement_is_refused(stated: Path, call: Call) -> None:
    shutil.copy(stated / "kept.lock", stated / "llm.lock")
    assert against(call, "--only", "checkpoint") == (0, set())
    text = (stated / "kept.lock").read_text()
    digest = text.partition('"config.json" = { size = ')[2].partition('sha256 = "')[2][:64]
    other = re.sub(r"content_sha256 = .*\n", "", text.replace(digest, "0" * 64)).replace("edition = 2\n", "")
    (stated / "llm.lock").write_text(other)
    done = call("verify", "--oms", "m.oms.json", "--stage", "preflight")
    assert done.code == 2
    assert "m.oms.json does not hold the locked digest of config.json" in done.err


@pytest.mark.parametrize(
    "words", [("verify", "--oms", "none"), ("verify", "--oms", "llm.toml"), ("verify", "--oms", ".")]
)
def test_a_statement_that_cannot_be_read_is_an_error(folder: Path, call: Call, words: tuple[str, ...]) -> None:
    done: Any = call(*words)
    assert isinstance(done, Done)
    assert (done.code, done.out) == (2, "")


def test_a_dry_run_writes_no_statement(folder: Path, call: Call) -> None:
    assert call("lock", "--dry-run", "--oms", "m.oms.json").code == 0
    assert not (folder / "m.oms.json").exists()
