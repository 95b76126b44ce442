"""Start logs of real llama.cpp builds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lockllm import engines
from tests.engines.llamacpp.material import DATA, facts, unseen

LOGS = sorted(DATA.glob("logs/*.log"))
MUST = (
    "engine.",
    "serve.max_",
    "chat_template.",
    "sampling.",
    "checkpoint.architecture",
    "serve.kv_unified",
    "serve.flash_attn",
)
DRESSED: dict[str, Callable[[list[str]], list[str]]] = {
    "plain": lambda lines: lines,
    "twice": lambda lines: lines + lines,
    "docker": lambda lines: [f"llama-1  | {line}" for line in lines],
    "kubernetes": lambda lines: [f"2026-01-01T00:00:00.1Z stdout F {line}" for line in lines],
    "journal": lambda lines: [f"Nov 10 17:37:37 host llama-server[12]: {line}" for line in lines],
    "colors": lambda lines: [f"\x1b[1;36m{line}\x1b[0m" for line in lines],
}


@pytest.mark.parametrize("dress", DRESSED)
@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_log_says_what_the_server_was_started_with_and_nothing_else(log: Path, dress: str) -> None:
    expected = json.loads(log.with_suffix(".expected.json").read_text())
    lines = DRESSED[dress](log.read_text(errors="replace").split("\n"))
    found = facts(engines.load(expected["facts"]["engine.name"]).from_log(lines))
    for key, value in expected["facts"].items():
        if key in found or key.startswith(MUST):
            assert str(found.get(key)).lower() == str(value).lower(), key
    assert not {key for key in expected["unknown"] if found.get(key) is not None}


def test_what_the_verbosity_hides_is_unknown_with_the_switch_that_shows_it() -> None:
    lines = (DATA / "logs/llamacpp-b11434-3.log").read_text().split("\n")
    missing = unseen(engines.load("llama.cpp").from_log(lines))
    assert {"engine.version", "serve.kv_cache_dtype", "serve.flash_attn", "sampling", "chat_template.sha256"} <= missing


def test_only_the_last_start_counts() -> None:
    first = (DATA / "logs/llamacpp-b6000-1.log").read_text().split("\n")
    second = (DATA / "logs/llamacpp-b7079-1.log").read_text().split("\n")
    found = facts(engines.load("llama.cpp").from_log(first + second))
    assert (found["engine.version"], found["serve.kv_cache_dtype"]) == ("b7079", "float16")
    assert "host.gpu_product" not in found


def test_half_a_log_and_another_programs_log_are_read_without_an_error() -> None:
    lines = (DATA / "logs/llamacpp-b7079-1.log").read_text().split("\n")
    assert facts(engines.load("llama.cpp").from_log(lines[: len(lines) // 2]))["engine.version"] == "b7079"
    assert list(engines.load("llama.cpp").from_log(["INFO: Uvicorn running", "", "\x00\x01"])) == []
    assert list(engines.load("llama.cpp").from_log(["build: " + "9" * 4000 + " (x) with y"])) == []
