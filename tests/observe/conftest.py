"""What the tests of this room share: the fake NVML, compiled once, and a host under it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.observe import machines
from tests.observe.machines import Host


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without what a driver of the 470 branch does not export."""
    return machines.build(tmp_path_factory.mktemp("nvml-470"), machines.NEWER_THAN_470)


@pytest.fixture
def host(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose NVML is the fake."""
    ctypes.CDLL(str(library))
    made = Host(tmp_path)
    monkeypatch.setenv("FAKE_NVML", str(made.file))
    return made
