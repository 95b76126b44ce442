"""A stand-in Hub for each test, a machine that knows nothing else, and `lockllm` run on a spec."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http

from lockllm.cli import run
from lockllm.documents.lock import Lock, read
from tests.hub.standin import File, Hub, Repo, running

TINY = Path(__file__).parent.parent.parent / "examples" / "tiny" / "model"
LFS = frozenset({"model.safetensors"})


def tiny_files() -> dict[str, File]:
    """The tiny checkpoint as a repository holds it, with what no inference reads."""
    files = {path.name: File(path.read_bytes(), lfs=path.name in LFS) for path in sorted(TINY.iterdir())}
    return {**files, "README.md": File(b"# tiny\n"), ".gitattributes": File(b"*.safetensors filter=lfs\n")}


def small(files: dict[str, File]) -> int:
    """How many of the files reach inference and have no digest on the Hub."""
    return sum(not file.lfs and name not in ("README.md", ".gitattributes") for name, file in files.items())


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running() as made:
        yield made


@pytest.fixture
def tiny_repo(hub: Hub) -> Repo:
    repo = hub.repos["org/tiny"] = Repo()
    repo.push(tiny_files())
    return repo


@dataclass
class Desk:
    """Where a person sits: a folder with a spec, and the words that came back."""

    folder: Path
    capfd: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""

    def spec(self, repo: str = "org/tiny", revision: str | None = "main", more: str = "", checkpoint: str = "") -> None:
        asked = f'revision = "{revision}"\n' if revision is not None else ""
        source = checkpoint or f'repo = "{repo}"\n{asked}'
        text = f'[checkpoint]\n{source}[engine]\nname = "vllm"\nversion = "0.10.2"\n{more}'
        (self.folder / "llm.toml").write_text(text)

    def lock(self, *words: str) -> int:
        code = run(["lock", *words])
        self.out, self.err = self.capfd.readouterr()
        return code

    @property
    def text(self) -> str:
        return (self.folder / "llm.lock").read_text()

    @property
    def held(self) -> Lock:
        return read(self.text, "llm.lock")


def anew() -> None:
    """The Hub's client reads the proxies of the environment when it opens a session: the next test gets its own."""
    getattr(_http, "close_session", getattr(_http, "reset_sessions", None))()


@pytest.fixture
def desk(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Desk:
    for name in [
        name for name in os.environ if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) or "proxy" in name.lower()
    ]:
        monkeypatch.delenv(name)
    for name, value in {
        "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN_PATH": str(tmp_path / "no-token"),
        "LOCKLLM_CACHE": str(tmp_path / "cache"), "HF_HUB_DISABLE_TELEMETRY": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)  # the storage of Xet is not stood in for
    anew()
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Desk(folder, capfd)
