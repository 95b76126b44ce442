"""An independent server of the Hub's interface: olah, which serves local git repositories. `make test-hub` installs it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.conftest import Desk, tiny_files

OLAH = Path(__file__).parent.parent.parent / ".venv-olah" / "bin" / "olah-cli"
PLAIN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
PERSON = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@localhost",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@localhost",
}


def git(repo: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=repo, env=PLAIN | PERSON, capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def committed(repo: Path) -> str:
    """The tiny checkpoint as a git repository with its weights by LFS; its commit."""
    repo.mkdir(parents=True)
    git(repo, "init", "-q", "-b", "main")
    for name, file in tiny_files().items():
        (repo / name).write_bytes(file.pointer if file.lfs else file.data or b"")
        if file.lfs:
            stored = repo / ".git" / "lfs" / "objects" / file.sha256[:2] / file.sha256[2:4]
            stored.mkdir(parents=True, exist_ok=True)
            (stored / file.sha256).write_bytes(file.data or b"")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "tiny")
    return git(repo, "rev-parse", "HEAD")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """An olah that serves the repositories below `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "olah.toml"
    config.write_text(
        f'[basic]\nhost = "127.0.0.1"\nport = {port}\nrepos-path = "{folder / "cache"}"\n'
        f'mirrors-path = ["{folder / "mirrors"}"]\n[accessibility]\noffline = true\n'
    )
    log = (folder / "olah.log").open("wb")
    command = [str(OLAH), "-c", str(config), "--log-path", str(folder / "logs")]
    server = subprocess.Popen(command, cwd=folder, env=PLAIN | {"HOME": str(folder)}, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"{url}/api/models/org/tiny/revision/main", timeout=5).close()
                break
            assert server.poll() is None, (folder / "olah.log").read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(10)
        log.close()


@pytest.mark.skipif(not OLAH.exists(), reason="olah is not installed: run `make test-hub`")
def test_another_hub_gives_the_same_lock(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = committed(tmp_path / "olah" / "mirrors" / "models" / "org" / "tiny")
    with serving(tmp_path / "olah") as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        desk.spec(revision=None)
        assert desk.lock() == 0, desk.err
    assert desk.held.get("checkpoint.commit") == commit
    lines = sorted(
        f"{file.sha256}  {name}\n".encode()
        for name, file in tiny_files().items()
        if name not in ("README.md", ".gitattributes")
    )
    assert desk.held.get("checkpoint.content_sha256") == hashlib.sha256(b"".join(lines)).hexdigest()
    assert os.environ["HF_ENDPOINT"] == url
