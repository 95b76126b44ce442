"""A real llama.cpp server whose adapters are turned up or down while it runs is no match of its lock."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockllm.facts.observation import CheckStatus, Observation, values
from lockllm.observe import observe
from lockllm.observe.request import Request
from tests.conftest import TINY
from tests.engines.llamacpp import lora
from tests.servers import start
from tests.servers.start import Server


@pytest.fixture(scope="module")
def server(llama_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("adapters")
    lora.write(folder / "warm.gguf")
    with start.llama_server(llama_home, "-m", str(TINY / "tiny.gguf"), "--lora", "warm.gguf", cwd=folder) as running:
        yield running


def look(server: Server) -> Observation:
    return observe(Request(pid=server.pid, gpu="none", quick=True, cache="off"))


def scale(server: Server, number: float) -> None:
    body = json.dumps([{"id": 0, "scale": number}]).encode()
    request = urllib.request.Request(f"{server.url}/lora-adapters", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60):
        pass


def test_an_adapter_of_the_command_is_served_as_it_was_started(server: Server) -> None:
    seen = look(server)
    held = {".".join(path): value for path, value in values(seen.readings).items()}
    assert held["adapters.warm.scale"] == 1.0
    assert "adapters.warm.loaded" not in held
    assert not [each for each in seen.checks if each.name == "check.served_model" and each.status is CheckStatus.FAIL]


@pytest.mark.parametrize("number", [0.0, 0.5, 2.0, -1.0])
def test_a_scale_that_moved_at_run_time_is_what_is_served(server: Server, number: float) -> None:
    scale(server, number)
    try:
        held = values(look(server).readings)
        assert held["adapters", "warm", "scale"] == number
    finally:
        scale(server, 1.0)
