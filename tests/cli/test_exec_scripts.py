"""`lockllm exec` and scripts that only look as if Python ran them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_exec import PLAIN, SERVER, execute, host, told

__all__ = ["host"]

WORDS = ("serve", "model", "--seed", "7")
SERVE = "import json, sys; print(json.dumps({'argv': sys.argv}))\n"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("text", [
    "#!/bin/sh\necho started; exit\n'''exec' {python} \"$0\" \"$@\"\n' '''\n",
    "#!/bin/sh\n# '''exec' {python}\necho started\n",
    "#!/bin/sh -x\necho started\n'''exec' {python} \"$0\" \"$@\"\n",
    "#!/bin/sh\n'''exec' {python} -c 'print(1)' \"$0\"\n' '''\n",
    "#!/bin/sh\n'''exec' \"{python}$(echo started >&2)\" \"$0\" \"$@\"\n' '''\n",
    "#!/opt/odd/env python3\n", "#!{python} -ic\n", "#!{python} -x\n", "#!{host}/python3\n",
])  # fmt: skip
def test_a_script_that_only_names_an_interpreter_is_not_read(host: Path, text: str) -> None:
    script(host / "python3", "#!/bin/sh\necho started\n")
    fake = script(host / "odd" / "vllm", text.format(python=f"{host}/venv/bin/python", host=host) + SERVER)
    done = execute(host, *PLAIN, "--", str(fake), *WORDS)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr


@pytest.mark.parametrize("text", [
    "#!{python}\n", "#!{python} -I\n", "#! {python} -su\n", "#!/usr/bin/env python3\n",
    "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n", "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
])  # fmt: skip
def test_a_script_as_installers_write_it_is_read(host: Path, text: str) -> None:
    fine = script(host / "fine" / "vllm", text.format(python=f"{host}/venv/bin/python") + SERVER)
    done = execute(host, "--", str(fine), *WORDS)
    if "exec" in text:  # it is read, and is not the program that was locked: more than its first line differs
        assert (done.returncode, "engine.program" in done.stderr) == (1, True), done.stderr
    else:
        assert (done.returncode, told(done)["argv"][1:]) == (0, list(WORDS)), done.stderr


@pytest.mark.parametrize("path", ["vllm/entrypoints/openai/api_server.py", "vllm/entrypoints/cli/main.py"])
def test_a_file_with_the_name_of_an_engines_module_is_not_read(host: Path, path: str) -> None:
    script(host / "away" / path, SERVE)
    words = WORDS if path.endswith("main.py") else ("--model", "model", "--seed", "7")
    done = execute(host, *PLAIN, "--", "venv/bin/python", f"away/{path}", *words)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
