"""The README's commands are run, in order, beside a real server; what they print is what it shows (`--update-golden` writes it)."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ENVIRON, ROOT, TINY
from tests.servers import start

README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
ARGS = ("-m", "tiny.gguf", "-np", "2", "-c", "1024")


def plain(text: str, port: int) -> str:
    """Output without what differs from machine to machine."""
    text = text.replace(f":{port}", ":8080").replace(f" on {socket.gethostname()} ", " on gpu-01 ")
    return re.sub(r"\(pid \d+\)", "(pid 71)", text)


def counted(text: str) -> str:
    """Text in which every count and id is one: how many facts a host shows depends on what it has."""
    # A file that was just written is not cached yet.
    text = re.sub(r" \(\d+ by digests cached since [^)\s]+\)", "", text)
    text = re.sub(r"\b1(-[a-z][0-9a-f?-]+){5}", "ID", text)
    return re.sub(
        r"(?<![\w.])\d+(?= (facts?|changes?|causes?|match|differ|pass|not|pinned)\b)|(?<=pass )\d+|(?<=match )\d+",
        "N",
        text,
    )


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> list[list[tuple[str, str]]]:
    """Every block as (command, output), run beside llama.cpp's real server."""
    home = start.llama_home(tmp_path_factory.mktemp("readme"))
    shutil.copy(TINY / "tiny.gguf", home / "tiny.gguf")
    environ = {
        **ENVIRON,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LOCKLLM_CACHE": str(home.parent / "cache"),
        "NO_COLOR": "1",
    }
    blocks = []
    with start.llama_server(home, *ARGS) as server:
        port = int(server.url.rsplit(":", 1)[1])
        for block in BLOCK.findall(README.read_text()):
            told = []
            for command in [line[2:] for line in block.splitlines() if line.startswith("$ ")]:
                done = subprocess.run(
                    ["bash", "-c", command.replace(":8080", f":{port}")], cwd=home, env=environ, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
                )  # fmt: skip
                told.append((command, plain(done.stdout, port).rstrip("\n")))
            blocks.append(told)
    return blocks


def test_what_the_readme_shows_is_what_its_commands_print(
    transcript: list[list[tuple[str, str]]], request: pytest.FixtureRequest
) -> None:
    blocks = iter(transcript)

    def told(_: re.Match[str]) -> str:
        parts = [f"$ {command}\n{output}\n" if output else f"$ {command}\n" for command, output in next(blocks)]
        return f"```console\n{''.join(parts)}```"

    text = README.read_text()
    found = BLOCK.sub(told, text)
    if request.config.getoption("--update-golden"):
        README.write_text(found)
    assert counted(found) == counted(README.read_text())


def test_no_command_of_the_readme_ends_in_a_bug(transcript: list[list[tuple[str, str]]]) -> None:
    outputs = [output for block in transcript for _, output in block]
    assert not [output for output in outputs if "a bug in lockllm" in output or "Traceback" in output]
    assert sum(len(block) for block in transcript) > 10
