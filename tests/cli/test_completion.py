"""Completion scripts, and the schema command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockllm.cli import COMMANDS, run
from lockllm.output import schema


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_LOCKLLM_COMPLETE" in capsys.readouterr().out


def test_the_shell_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert run(["completion"]) == 0
    assert "function _lockllm_completion" in capsys.readouterr().out


def test_a_shell_that_is_not_known_is_an_error_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err == (
        "lockllm: there is no completion script for the shell 'tcsh'\n  in    the command line\n"
        "  fix   name one: lockllm completion bash|zsh|fish\n"
    )
    monkeypatch.setenv("SHELL", "")
    assert run(["completion"]) == 2
    assert "the variable SHELL is not set" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "lockllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lockllm "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(lockllm completion bash)"
        COMP_WORDS=(lockllm ver) COMP_CWORD=1
        _lockllm_completion lockllm
        echo "${COMPREPLY[@]}"
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout.strip() == "verify", done.stderr


@pytest.mark.parametrize("name", schema.NAMES)
def test_a_schema_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", name]) == 0
    assert json.loads(capsys.readouterr().out) == schema.of(name)


def test_a_schema_that_is_none_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "nothing"]) == 2
    assert "'nothing'" in capsys.readouterr().err
    assert "schema" in COMMANDS
