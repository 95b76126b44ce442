"""What every test may ask for: the tiny checkpoint, real servers, goldens."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from lockllm.facts import variables
from tests.servers import start

if TYPE_CHECKING:
    from tests.incidents.raw import Place

# Whoever starts the tests in the background may have SIGINT ignored, and every server under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Seeded, so that a run says the same twice; `--hypothesis-profile=hunt` looks for what these seeds miss.
settings.register_profile("seeded", derandomize=True, deadline=None)
settings.register_profile("hunt", deadline=None, max_examples=2000)
settings.load_profile("seeded")

ROOT = Path(__file__).parent.parent
ENVIRON = {
    name: value
    for name, value in os.environ.items()
    if (row := variables.find(name, "vllm")) is None or not row.recorded
}
"""This process's variables, without those that a lock compares: a developer's shell is no part of a test's host."""
TINY = ROOT / "examples" / "tiny"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is found over the goldens")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with a file that is checked in, or writes it there under `--update-golden`."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is not there; run pytest --update-golden and review it"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint's folder, to edit at will."""
    return Path(shutil.copytree(TINY / "model", tmp_path / "model"))


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    """A copy of the tiny GGUF, to edit at will."""
    return Path(shutil.copy(TINY / "tiny.gguf", tmp_path / "tiny.gguf"))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake NVML library, compiled once."""
    from tests.observe import machines

    return machines.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def place(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty host whose GPUs are what its file says."""
    from tests.incidents.raw import Place

    ctypes.CDLL(str(library))
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "host" / "machine"))
    (tmp_path / "host").mkdir()
    return Place(tmp_path / "host")


@pytest.fixture(scope="session")
def llama_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of llama.cpp's server for `start.llama_server`; a test that edits it makes its own."""
    return start.llama_home(tmp_path_factory.mktemp("llama.cpp"))


@pytest.fixture(scope="session")
def transformers_venv() -> Path:
    """The environment of transformers serve."""
    if not (start.TRANSFORMERS / "stamp").exists():
        pytest.skip("transformers serve is not installed: run `make .venv-transformers/stamp`")
    return start.TRANSFORMERS


@pytest.fixture(scope="session")
def vllm_venv() -> Path:
    """The environment of vLLM on the CPU."""
    if not (start.VLLM / "stamp").exists():
        pytest.skip("vLLM is not installed: run `make test-vllm`")
    return start.VLLM
