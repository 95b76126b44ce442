"""The command that a report suggests is run, by the Hub's own client against a loopback Hub, and fixes what it says."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lockllm.documents import lock as locks
from lockllm.facts import registry
from lockllm.facts.observation import By
from lockllm.judge import fixes
from tests.hub.standin import File, Repo, running

FILES = {"config.json": b"{}", "a b/w.safetensors": b"weights", "t.jinja": b"{{ messages }}"}


def download(command: list[str], home: Path, url: str) -> None:
    script = Path(sys.executable).with_name(command[0])
    if not script.exists():
        pytest.skip("the Hub's command line is not installed")
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HF_HOME": str(home),
        "HF_ENDPOINT": url,
        "HF_HUB_DISABLE_XET": "1",
    }
    done = subprocess.run([script, *command[1:]], env=env, cwd=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("cached", [True, False])
def test_the_suggested_download_fixes_a_damaged_file(tmp_path: Path, name: str, cached: bool) -> None:
    with running() as hub:
        repo = hub.repos["org/tiny"] = Repo()
        commit = repo.push({path: File(data, lfs="weights" in str(data)) for path, data in FILES.items()})
        where = [] if cached else ["--local-dir", "FOLDER"]
        download(["hf", "download", "org/tiny", "--revision", commit, *where], tmp_path, hub.url)
        root = tmp_path / "hub/models--org--tiny/snapshots" / commit if cached else tmp_path / "FOLDER"
        damaged = (root / name).resolve()
        damaged.write_bytes(b"X" * len(FILES[name]))
        held = locks.read(f'lock_version = 1\n\n[checkpoint]\nrepo = "org/tiny"\ncommit = "{commit}"\n', "llm.lock")
        fact = registry.find(("checkpoint", "files", name))
        shown = registry.seen("checkpoint.commit", commit, "cache", By.FILE)
        text = fixes.of(fact, held, {shown.fact.path: (shown,)} if cached else {})
        download(shlex.split(text[text.index("hf download") :]), tmp_path, hub.url)
        assert (root / name).read_bytes() == FILES[name]
