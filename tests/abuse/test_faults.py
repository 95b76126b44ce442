"""A file system that fails under us, as network file systems do: the C library's calls end with a real error on one file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.abuse.conftest import Ours

SOURCE = Path(__file__).parent / "faulty.c"
PREFLIGHT = ("verify", "--stage", "preflight", "--format", "json")
ERRORS = {"stale": errno.ESTALE, "broken": errno.EIO}
WEIGHTS = "model/model.safetensors"


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that fails."""
    made = tmp_path_factory.mktemp("shim") / "faulty.so"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"], check=True)
    return made


def failing(shim: Path, call: str, path: str, number: int, after: int = 0) -> Mapping[str, str]:
    """The environment in which that call on that path fails."""
    return {
        "LD_PRELOAD": str(shim),
        "FAULT_CALL": call,
        "FAULT_PATH": path,
        "FAULT_ERRNO": str(number),
        "FAULT_AFTER": str(after),
    }


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("call", "file"),
    [
        ("open", WEIGHTS),
        ("read", WEIGHTS),
        ("stat", WEIGHTS),
        ("open", "model/config.json"),
        ("read", "model/tokenizer.json"),
    ],
)
def test_a_file_that_fails_is_unknown_with_its_reason_and_not_locked(
    locked: Path, ours: Ours, shim: Path, call: str, file: str, error: str
) -> None:
    number = ERRORS[error]
    env = failing(shim, call, file, number)
    done = ours(*PREFLIGHT, env=env)
    assert done.code in (1, 3), done.out + done.err
    key = f'checkpoint.files."{file.removeprefix("model/")}"'
    (result,) = [each for each in json.loads(done.out)["results"] if each["fact"] == key]
    assert (result["status"], result["reason"]) == ("unknown", os.strerror(number).lower())
    once = (locked / "llm.lock").read_bytes()
    made = ours("lock", env=env)
    assert made.code == 2
    assert os.strerror(number).lower() in made.err
    assert (locked / "llm.lock").read_bytes() == once


def test_a_file_that_fails_in_its_middle_has_no_digest(locked: Path, ours: Ours, shim: Path) -> None:
    done = ours(*PREFLIGHT, env=failing(shim, "read", WEIGHTS, errno.ESTALE, after=100_000))
    assert done.code == 3
    assert "stale file handle" in done.out.lower()


def test_a_folder_that_fails_is_no_match(locked: Path, ours: Ours, shim: Path) -> None:
    done = ours(*PREFLIGHT, env=failing(shim, "list", "model", errno.ESTALE))
    assert done.code == 3
    assert "stale file handle" in done.out.lower()
    assert ours("lock", env=failing(shim, "list", "model", errno.ESTALE)).code == 2


@pytest.mark.parametrize("call", ["open", "read"])
@pytest.mark.parametrize(("file", "command"), [("llm.lock", ["verify"]), ("llm.toml", ["lock"])])
def test_a_document_that_fails_is_4(
    locked: Path, ours: Ours, shim: Path, call: str, file: str, command: list[str]
) -> None:
    done = ours(*command, env=failing(shim, call, file, errno.ESTALE))
    assert done.code == 4
    assert done.err.startswith("lockllm: the file cannot be read: stale file handle\n")


@pytest.mark.parametrize("call", ["open", "read", "stat", "list"])
def test_a_cache_that_fails_costs_nothing_but_time(locked: Path, ours: Ours, shim: Path, call: str) -> None:
    cache = locked.parent / "cache"
    cache.mkdir(mode=0o700)
    (cache / f"{hashlib.sha256(os.fsencode(locked / 'model')).hexdigest()[:32]}.json").write_text("{}")
    (file,) = cache.iterdir()
    path = str(file if call in ("open", "read") else cache)
    assert ours(*PREFLIGHT, env=failing(shim, call, path, errno.ESTALE)).code == 0
