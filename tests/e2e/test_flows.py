"""Ways that a lock is made and used: a moved branch, a plain copy, before the start, a laptop and a host."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ENVIRON, TINY
from tests.e2e.loop import LOCKLLM, Verdict, good, lockllm, verify
from tests.servers import start

pytestmark = pytest.mark.transformers

LOCKED, MOVED = "a" * 40, "b" * 40
SPEC = """\
[checkpoint]
repo = "tiny/llama"
revision = "main"

[engine]
name = "transformers"
version = "5.24.0"
"""


def snapshot(hub: Path, commit: str, files: dict[str, bytes]) -> None:
    """A commit as huggingface_hub lays it out; `main` points to it."""
    repo = hub / "models--tiny--llama"
    for folder in (repo / "snapshots" / commit, repo / "refs", repo / "blobs"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        blob = hashlib.sha256(content).hexdigest()
        (repo / "blobs" / blob).write_bytes(content)
        (repo / "snapshots" / commit / name).symlink_to(Path("..", "..", "blobs", blob))
    (repo / "refs" / "main").write_text(commit)


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (TINY / "model").iterdir()}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, transformers_venv: Path) -> Path:
    """A laptop that locks the branch from its cache, then the host that it is served on."""
    made = tmp_path_factory.mktemp("flows")
    snapshot(made / "hub", LOCKED, files())
    (made / "llm.toml").write_text(SPEC)
    return made


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return {"HF_HUB_CACHE": str(home / "hub"), "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def lock(home: Path, env: dict[str, str], transformers_venv: Path) -> str:
    """The lock of the laptop flow; each step asserts what the design promises of it."""
    told = lockllm(home, "lock", "--offline", env=env)
    assert told.code == 0
    text = (home / "llm.lock").read_text()
    assert 'commit = "' + LOCKED in text
    assert '"packages" = ' in text.partition("[unpinned]")[2].partition("\n[")[0]
    assert "not pinned" in told.err + told.out
    with start.transformers_serve("tiny/llama", env=env, venv=transformers_venv) as server:
        good(home, "observe", "--server", server.url, "-o", "host.json", env=env)
        good(home, "lock", "--offline", "--observation", "host.json", env=env)
        assert clean(verify(home, "--server", server.url, env=env))
    assert clean(verify(home, "--observation", "host.json"))
    return (home / "llm.lock").read_text()


def clean(verdict: Verdict) -> bool:
    return (verdict.code, verdict.causes, verdict.unknown, verdict.failed) == (0, set(), {}, set())


def test_a_laptop_locks_a_host_observes_and_the_host_verifies(lock: str) -> None:
    assert "transformers = " in lock


def test_locking_again_writes_the_same_bytes(home: Path, env: dict[str, str], lock: str) -> None:
    good(home, "lock", "--offline", "--observation", "host.json", env=env)
    assert (home / "llm.lock").read_text() == lock
    good(home, "lock", "--check", env=env)


def test_the_host_verifies_before_the_server_runs(
    home: Path, env: dict[str, str], lock: str, transformers_venv: Path
) -> None:
    python = str(transformers_venv / "bin" / "python")
    assert clean(verify(home, "--stage", "preflight", "--python", python, env=env))


def test_a_plain_copy_without_any_metadata_of_the_hub_verifies(
    home: Path, lock: str, tmp_path: Path, transformers_venv: Path
) -> None:
    shutil.copy(home / "llm.lock", tmp_path / "llm.lock")
    shutil.copytree(TINY / "model", tmp_path / "anywhere")
    python = str(transformers_venv / "bin" / "python")
    assert clean(verify(tmp_path, "--stage", "preflight", "--python", python, "--checkpoint", "anywhere"))
    with start.transformers_serve(tmp_path / "anywhere", venv=transformers_venv) as server:
        assert clean(verify(tmp_path, "--server", server.url))


def test_a_server_of_a_branch_that_has_moved_differs_although_the_locked_snapshot_lies_beside_it(
    home: Path, lock: str, tmp_path: Path, transformers_venv: Path
) -> None:
    shutil.copy(home / "llm.lock", tmp_path / "llm.lock")
    snapshot(tmp_path / "hub", LOCKED, files())
    pulled = files()["chat_template.jinja"].replace(b"tiny assistant", b"great assistant")
    snapshot(tmp_path / "hub", MOVED, {**files(), "chat_template.jinja": pulled})
    env = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    with start.transformers_serve("tiny/llama", env=env, venv=transformers_venv) as server:
        found = verify(tmp_path, "--server", server.url, env=env)
    assert (found.code, found.causes) == (1, {'checkpoint.files."chat_template.jinja"'})
    assert found.found("checkpoint.commit") == MOVED
    with start.transformers_serve(f"tiny/llama@{LOCKED}", env=env, venv=transformers_venv) as server:
        assert clean(verify(tmp_path, "--server", server.url, env=env))


def test_exec_becomes_the_server_that_was_locked(
    home: Path, env: dict[str, str], lock: str, transformers_venv: Path
) -> None:
    port = start.free_port()
    serve = [str(transformers_venv / "bin" / "transformers"), "serve", "tiny/llama", "--port", str(port)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **env}
    command = [LOCKLLM, "exec", "--lock", "llm.lock", "--", *serve, "--host", "127.0.0.1"]
    with start.running([*map(str, command)], port, environ, 120, cwd=home) as server:
        words = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode().split("\0")
        assert words[1:5] == [serve[0], "serve", "tiny/llama", "--port"]
        assert clean(verify(home, "--pid", str(server.pid), env=env))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) in (0, -signal.SIGTERM)
    assert any("Finished server process" in line for line in server.log)


def test_exec_refuses_another_server_before_a_byte_is_loaded(
    home: Path, env: dict[str, str], lock: str, transformers_venv: Path
) -> None:
    serve = [str(transformers_venv / "bin" / "transformers"), "serve", "tiny/llama", "--dtype", "float32"]
    refused = lockllm(home, "exec", "--lock", "llm.lock", "--", *serve, env=env)
    assert refused.code == 1
    assert refused.err.startswith("lockllm: refused to start:") or refused.out.startswith("lockllm: refused to start:")
    assert "serve.dtype" in refused.out + refused.err


def test_exec_passes_signals_and_exit_codes_through(home: Path, env: dict[str, str], lock: str) -> None:
    told = [sys.executable, "-c", "import sys; sys.exit(7)"]
    command = [LOCKLLM, "exec", "--lock", "llm.lock", "--warn-only", "--", *told]
    done = subprocess.run(command, cwd=home, env={**ENVIRON, **env}, capture_output=True, timeout=60, check=False)
    assert done.returncode == 7
