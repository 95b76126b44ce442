"""Pipes where a file is meant, folders that are gone, and what a run that was killed left behind."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TINY

OURS = [sys.executable, "-m", "lockllm"]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OURS, *words], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(TINY / "model", tmp_path / "model")
    (tmp_path / "llm.toml").write_text('[checkpoint]\npath = "model"\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n')
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    "words, what",
    [
        (("render", "model", "--template", "pipe"), "the template is not a regular file"),
        (("render", "model", "--request", "pipe"), "the request is not a regular file"),
        (
            ("render", "--template", "model/chat_template.jinja", "--special-tokens", "pipe"),
            "the special tokens is not",
        ),
        (("inspect", "--log", "pipe", "--engine", "vllm"), "the log is not a regular file"),
        (("verify", "--log", "pipe"), "the log is not a regular file"),
        (("observe", "--log", "missing"), "the log cannot be read: no such file or directory"),
    ],
)
def test_a_pipe_where_a_file_is_meant_is_an_error_at_once(folder: Path, words: tuple[str, ...], what: str) -> None:
    assert run(folder, "lock", "--offline", "--gpu", "none").returncode == 0
    done = run(folder, *words)
    assert done.returncode == 2, done.stderr
    assert what in done.stderr


def test_a_pipe_that_nobody_reads_is_an_error_and_one_that_is_read_gets_all(folder: Path) -> None:
    words = ("observe", "--gpu", "none", "--checkpoint", "model", "-o", "pipe", "--stage", "preflight")
    done = run(folder, *words)
    assert (done.returncode, done.stderr.splitlines()[0]) == (4, "lockllm: nothing reads this pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen([*OURS, *words], cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as writer:
        os.set_blocking(reader, True)
        select.select([reader], [], [], 60)
        with open(reader, "rb") as stream:
            raw = stream.read()
        assert writer.wait(60) == 0
    assert json.loads(raw)["observation_version"] == 1


def test_a_folder_that_is_gone_is_told_in_plain_words(folder: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    words = ["sh", "-c", script, "sh", *OURS, "verify", str(folder / "llm.lock")]
    assert run(folder, "lock", "--offline", "--gpu", "none").returncode == 0
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONSAFEPATH": "1"}
    )
    assert (done.returncode, done.stderr) == (
        4, "lockllm: the current directory no longer exists\n  fix   change to one that exists: cd DIRECTORY\n",
    )  # fmt: skip


def test_what_a_killed_run_left_is_removed_by_a_later_one_when_it_is_old(folder: Path) -> None:
    old, young, other = (folder / name for name in (".llm.lock.abcdefgh", ".llm.lock.abcd0123", ".llm.lock.notes"))
    for file in (old, young, other):
        file.write_text("half")
    for file in (old, other):
        os.utime(file, (10**9, 10**9))
    assert run(folder, "lock", "--offline", "--gpu", "none").returncode == 0
    assert [file.exists() for file in (old, young, other)] == [False, True, True]
