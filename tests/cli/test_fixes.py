"""Fixes walked as a user would: what a report says to do is done, and then `verify` is content."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import SPEC, Call

VERIFY = ("verify", "--stage", "preflight")


def fix_of(text: str, name: str) -> str:
    """The fix that a report gives below a fact or finding."""
    found = re.search(
        rf"{re.escape(name)}.*?\n\s+fix\s+(.*?)(?=\n\s*\n|\n\s+(?i:consequences|effect|seen at)|\Z)", text, re.DOTALL
    )
    assert found is not None, text
    return " ".join(found.group(1).split())


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    """A wheel as pip installs it, in a folder that stands for an index."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    held = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}  # fmt: skip
    rows = []
    for path, text in held.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text.encode())}")
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as made:
        for path, text in held.items():
            made.writestr(path, text)
        made.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """A serving environment with an engine of two releases to be had, of which the older one is installed."""
    for version in ("0.10.2", "0.10.3"):
        wheel(
            tmp_path / "index",
            "vllm",
            version,
            {"vllm/__init__.py": f"__version__ = '{version}'\n", "vllm/core.py": "a = 1\n"},
        )
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    pip(tmp_path, ["pip", "install", "vllm==0.10.2"])
    return tmp_path / "venv"


def pip(folder: Path, command: list[str]) -> None:
    """A pip command of a report, in the serving environment; the index is a folder."""
    env = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "index"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(
        [folder / "venv/bin/python", "-m", *command], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_edited_package_is_installed_again_in_its_own_release(folder: Path, serving: Path, call: Call) -> None:
    """Without the version pip would install the newest, which is another server."""
    look = ("--python", serving / "bin" / "python")
    assert call("lock", *look).code == 0
    assert call(*VERIFY, *look).code == 0
    core = next(serving.glob("lib/python*/site-packages/vllm/core.py"))
    core.write_text("a = 2\n")
    report = call(*VERIFY, *look, "--deep", "--full")
    assert report.code == 1
    fix = fix_of(report.out, "check.packages_unedited")
    assert fix == "reinstall it: pip install --force-reinstall --no-deps vllm==0.10.2"
    pip(folder, shlex.split(fix.partition(": ")[2]))
    assert core.read_text() == "a = 1\n"
    assert call(*VERIFY, *look, "--deep").code == 0


Edit = Callable[[Path], None]
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
EDITS: dict[str, tuple[Edit, str, str]] = {
    "a file that changed": (
        lambda model: (model / "generation_config.json").write_text("{}") and None,
        'checkpoint.files."generation_config.json"', "put the locked generation_config.json back into the model's folder",
    ),
    "a template that changed": (
        lambda model: (model / "chat_template.jinja").write_text(TEMPLATE) and None,
        'checkpoint.files."chat_template.jinja"', "put the locked chat_template.jinja back into the model's folder",
    ),
    "a file that came": (
        lambda model: (model / "added_tokens.json").write_text("{}") and None,
        'checkpoint.files."added_tokens.json"', "remove what was added, or run `lockllm lock` if it is meant",
    ),
    "a file that went": (
        lambda model: (model / "tokenizer_config.json").unlink(),
        'checkpoint.files."tokenizer_config.json"', "put the locked tokenizer_config.json back into the model's folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_a_folder_is_put_back_as_it_was_or_locked_as_it_is(folder: Path, call: Call, edit: str) -> None:
    change, fact, fix = EDITS[edit]
    kept = shutil.copytree(folder / "model", folder / "kept")
    assert call("lock").code == 0
    change(folder / "model")
    report = call(*VERIFY, "--full")
    assert report.code == 1
    assert fix_of(report.out, fact) == fix
    moved = shutil.move(folder / "model", folder / "moved")
    shutil.copytree(kept, folder / "model")
    assert call(*VERIFY).code == 0
    shutil.rmtree(folder / "model")
    shutil.move(moved, folder / "model")
    assert call(*VERIFY).code == 1
    assert call("lock", "--upgrade").code == 0
    assert call(*VERIFY).code == 0


def test_a_lock_behind_its_spec_is_written_again(folder: Path, call: Call) -> None:
    assert call("lock").code == 0
    (folder / "llm.toml").write_text(SPEC + "\n[serve]\nmax_num_seqs = 7\n")
    stale = call("lock", "--check")
    assert stale.code == 1
    assert "lockllm lock" in stale.err + stale.out
    assert call("lock").code == 0
    assert call("lock", "--check").code == 0
    assert call(*VERIFY).code == 0


def test_a_merged_lock_is_whole_again_with_the_count_that_its_error_names(folder: Path, call: Call) -> None:
    assert call("lock").code == 0
    path = folder / "llm.lock"
    text = path.read_text()
    path.write_text(re.sub(r"(?m)^facts = \d+$", "facts = 9999", text))
    refused = call(*VERIFY)
    assert refused.code == 2
    line = re.search(r"after merging by hand, write (facts = \d+)", refused.err)
    assert line is not None
    path.write_text(path.read_text().replace("facts = 9999", line.group(1)))
    assert path.read_text() == text
    assert call(*VERIFY).code == 0


def test_what_a_mistyped_number_should_be_is_written_as_the_error_says(folder: Path, call: Call) -> None:
    (folder / "llm.toml").write_text(SPEC + '\n[serve]\nmax_num_seqs = "two"\n')
    refused = call("lock")
    assert refused.code == 2
    line = re.search(r"write it without quotes: (.*)", refused.err)
    assert line is not None
    (folder / "llm.toml").write_text(SPEC + f"\n[serve]\n{line.group(1)}\n")
    assert call("lock").code == 0
    assert call(*VERIFY).code == 0
