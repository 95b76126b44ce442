"""Whatever is done to a checkpoint in the Hub's cache, `verify` ends with 1 and names the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lockllm.cli import run
from tests.checkpoint.edits import SHARDS, Edit, edits, sharded
from tests.checkpoint.layouts import cache
from tests.cli.conftest import SPEC, Call
from tests.conftest import TINY

PLAIN = sorted(path.name for path in (TINY / "model").iterdir() if path.name != "model.safetensors")
NAMES = [*PLAIN, *SHARDS, "model.safetensors.index.json"]
EDITS = edits(NAMES)
ONLY = [word for group in ("checkpoint", "chat_template", "check") for word in ("--only", group)]
VERIFY = ("verify", "llm.lock", "--gpu", "none", "--stage", "preflight", "--format", "json", *ONLY)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the checkpoint, and its lock; each test takes a copy."""
    made = tmp_path_factory.mktemp("locked")
    snapshot = cache(made / "hub", sharded(TINY / "model", made / "plain"))
    shutil.rmtree(made / "plain")
    (made / "llm.toml").write_text(SPEC.replace('"model"', f'"{snapshot}"'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKLLM_CACHE", str(made / ".cache"))
        assert run(["lock", str(made / "llm.toml"), "--gpu", "none"]) == 0
    return made


@pytest.fixture
def snapshot(locked: Path, tmp_path: Path) -> Path:
    """A copy of the locked snapshot beside the lock."""
    shutil.copytree(locked / "hub", tmp_path / "hub", symlinks=True)
    shutil.copy(locked / "llm.lock", tmp_path / "llm.lock")
    (found,) = (tmp_path / "hub" / "models--org--tiny" / "snapshots").iterdir()
    return found


def test_an_untouched_snapshot_verifies(snapshot: Path, call: Call) -> None:
    assert sorted(path.name for path in snapshot.iterdir()) == sorted(NAMES)
    assert call(*VERIFY, "--checkpoint", snapshot).code == 0


@pytest.mark.parametrize("edit", EDITS, ids=[f"{each.kind}: {each.files[0]}" for each in EDITS])
def test_an_edit_is_named_with_its_file(snapshot: Path, call: Call, edit: Edit) -> None:
    edit.do(snapshot)
    done = call(*VERIFY, "--checkpoint", snapshot)
    report = done.json
    named = {each["fact"] for each in report["results"] if each["status"] in ("mismatch", "unknown")}
    told = " ".join(each["detail"] for each in report["checks"] if each["status"] == "fail")
    assert done.code == 1
    for file in edit.files:
        assert f'checkpoint.files."{file}"' in named or f"checkpoint.files.{file}" in named or file in told, (
            named,
            told,
        )
