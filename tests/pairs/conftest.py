"""The empty host that a pair is built in, one after the other."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.incidents.raw import Place
from tests.observe import machines


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake NVML library."""
    return machines.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def place(tmp_path: Path, nvml: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty host whose GPUs are what its file says."""
    ctypes.CDLL(str(nvml))
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "host" / "machine"))
    (tmp_path / "host").mkdir()
    return Place(tmp_path / "host")
