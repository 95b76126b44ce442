"""Whatever is done to a checkpoint in the Hub's cache, `verify` ends with 1 and names the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.checkpoint.edits import Edit, edits, sharded
from tests.checkpoint.layouts import cache
from tests.cli.conftest import SPEC, Call
from tests.conftest import TINY

NAMES = sorted({*(path.name for path in (TINY / "model").iterdir())} - {"model.safetensors"}) + [
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
]
EDITS = edits(NAMES)
ONLY = [word for group in ("checkpoint", "chat_template", "check") for word in ("--only", group)]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the checkpoint; each test takes a copy."""
    made = tmp_path_factory.mktemp("hub")
    cache(made, sharded(TINY / "model", made / "plain"))
    shutil.rmtree(made / "plain")
    return made


@pytest.fixture
def snapshot(hub: Path, tmp_path: Path, call: Call) -> Path:
    """A locked snapshot."""
    copy = tmp_path / "hub"
    shutil.copytree(hub, copy, symlinks=True)
    (found,) = (copy / "models--org--tiny" / "snapshots").iterdir()
    (tmp_path / "llm.toml").write_text(SPEC.replace('"model"', f'"{found}"'))
    assert call("lock", "--gpu", "none").code == 0
    return found


def test_an_untouched_snapshot_verifies(snapshot: Path, call: Call) -> None:
    assert sorted(path.name for path in snapshot.iterdir()) == sorted(NAMES)
    assert call("verify", "--gpu", "none", "--stage", "preflight", *ONLY).code == 0


@pytest.mark.parametrize("edit", EDITS, ids=[f"{each.kind}: {each.files[0]}" for each in EDITS])
def test_an_edit_is_named_with_its_file(snapshot: Path, call: Call, edit: Edit) -> None:
    edit.do(snapshot)
    done = call("verify", "--gpu", "none", "--stage", "preflight", "--format", "json", *ONLY)
    report = done.json
    named = {each["fact"] for each in report["results"] if each["status"] in ("mismatch", "unknown")}
    told = " ".join(each["detail"] for each in report["checks"] if each["status"] == "fail")
    files = edit.files
    assert done.code == 1
    for file in files:
        assert f'checkpoint.files."{file}"' in named or f"checkpoint.files.{file}" in named or file in told, (
            named,
            told,
        )
