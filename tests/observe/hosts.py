"""Raw hosts: real virtual environments with real metadata, and real processes with the command line of a server."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

STAND_IN = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""
"""A program that listens and answers nothing, until its standard input ends."""


def environment(folder: Path, packages: Mapping[str, str], **options: Any) -> Path:
    """A virtual environment with the metadata of these distributions."""
    venv.create(folder, symlinks=True, with_pip=False, **options)
    for name, version in packages.items():
        install(site(folder), name, version)
    return folder


def site(folder: Path) -> Path:
    """Where its packages lie."""
    return folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def install(where: Path, name: str, version: str, direct: Any = None, files: Mapping[str, str] | None = None) -> Path:
    """The metadata of one distribution, with RECORD for its files."""
    folder = where / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: 9.9 of the text\n"
    )
    if direct is not None:
        (folder / "direct_url.json").write_text(json.dumps(direct))
    rows = []
    for path, text in (files or {}).items():
        (where / path).parent.mkdir(parents=True, exist_ok=True)
        (where / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}\n")
    (folder / "RECORD").write_text("".join(rows))
    return folder


def program(folder: Path, name: str) -> Path:
    """A console script of an environment that is a stand-in for a server."""
    path = folder / "bin" / name
    path.write_text(f"#!{folder}/bin/python\n{STAND_IN}")
    path.chmod(0o755)
    return path


@contextmanager
def running(
    argv: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[tuple[int, int]]:
    """A stand-in server while the block runs: its pid and the port that it listens on."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(cwd or "/"), **(env or {})}
    process = subprocess.Popen(
        [os.fspath(word) for word in argv],
        env=environ,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.pid, int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


@contextmanager
def nobodys_server(listening: bool = True) -> Iterator[tuple[int, int]]:
    """What looks like LMDeploy and belongs to the user nobody: its pid, and the port that it listens on (0: on none)."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    python = next(filter(_runs_as_nobody, (os.path.realpath(sys.executable), "/usr/bin/python3")), None)
    if python is None:
        pytest.skip("the user nobody can run no Python here")
    source = STAND_IN if listening else "import sys; print(0, flush=True); sys.stdin.read()"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        (Path(folder) / "serve").write_text(source)
        process = subprocess.Popen(
            ["lmdeploy", "serve", "api_server", "model"], executable=python, cwd=folder, user=65534, group=65534, extra_groups=[],
            env={"HOME": folder}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(10)
            process.stdout.close()


def _runs_as_nobody(python: str) -> bool:
    try:
        words = [python, "-c", ""]
        return subprocess.run(words, user=65534, group=65534, extra_groups=[], capture_output=True).returncode == 0
    except OSError:
        return False
