"""The command line as a process of its own, in a folder, under limits that a host may set."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ENVIRON, TINY

SPEC = '[checkpoint]\npath = "model"\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'
OURS = (sys.executable, "-m", "lockllm")


@dataclass(frozen=True)
class Done:
    """One run."""

    code: int
    out: str
    err: str


Ours = Callable[..., Done]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with the tiny checkpoint and its spec."""
    folder = tmp_path / "work"
    shutil.copytree(TINY / "model", folder / "model")
    (folder / "llm.toml").write_text(SPEC)
    return folder


def environ(folder: Path, more: Mapping[str, str | None]) -> dict[str, str]:
    """Ours, with a cache of its own; None takes a variable away."""
    base: dict[str, str | None] = {**ENVIRON, "LOCKLLM_CACHE": str(folder.parent / "cache"), "HF_HUB_OFFLINE": "1"}
    base.pop("LOCKLLM_GATE", None)
    return {name: value for name, value in {**base, **more}.items() if value is not None}


@pytest.fixture
def ours(work: Path) -> Ours:
    """Runs the command line in the folder. No run may end in a traceback, in a bug, or late."""

    def run(
        *arguments: str | Path,
        env: Mapping[str, str | None] | None = None,
        before: Callable[[], None] | None = None,
        inside: Sequence[str] = (),
        timeout: float = 60,
        cwd: Path | None = None,
    ) -> Done:
        words = [*inside, *OURS, *map(str, arguments)]
        done = subprocess.run(
            words, cwd=cwd or work, env=environ(work, env or {}), preexec_fn=before, capture_output=True, timeout=timeout,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in err, err
        assert "a bug in lockllm" not in err, err
        return Done(done.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def lock_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lock of that folder, made once."""
    folder = tmp_path_factory.mktemp("once") / "work"
    shutil.copytree(TINY / "model", folder / "model")
    (folder / "llm.toml").write_text(SPEC)
    words = [*OURS, "lock", "-o", "-"]
    done = subprocess.run(
        words, cwd=folder, env=environ(folder, {}), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def locked(work: Path, lock_text: str) -> Path:
    """The folder, locked."""
    (work / "llm.lock").write_text(lock_text)
    return work


def mounted(script: str) -> list[str]:
    """The words that run a command in a file system view of its own, after a script that arranges it."""
    return ["unshare", "-rm", "sh", "-ec", f'{script}\nexec "$@"', "sh"]


def may_mount() -> bool:
    """Whether this machine lets us arrange such a view."""
    try:
        words = [*mounted("mount -t tmpfs none /mnt"), "true"]
        return subprocess.run(words, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


needs_mount = pytest.mark.skipif(not may_mount(), reason="this machine lets no test mount anything")
