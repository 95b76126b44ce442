"""llama-cpp-python's server: its own settings, its own defaults, and the little that it shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm import engines
from lockllm.engines import Context, Given
from lockllm.facts.keys import parse
from lockllm.facts.observation import CheckStatus
from lockllm.facts.registry import fact, read
from tests.engines.llamacpp.material import DATA, captured, command_line, facts, unseen

PYTHON = engines.load("llama-cpp-python")
CAPTURES = sorted(DATA.glob("captures/llama-cpp-python-0.3.36/*"))


def given(*args: str, env: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None) -> Given:
    form = PYTHON.recognise(["python3", "-m", "llama_cpp.server", *args])
    assert form is not None
    return PYTHON.given(form, env or {}, files or {}, "0.3.36", False)


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: folder.name)
def test_a_capture_shows_its_version_and_nothing_else(folder: Path) -> None:
    answers = captured(folder, PYTHON.probes)
    assert PYTHON.detect(answers)
    assert not engines.load("llama.cpp").detect(answers)
    found = list(PYTHON.from_http(answers, Context()))
    assert facts(found) == {"engine.name": "llama-cpp-python", "engine.version": "0.3.36"}
    assert {"serve.max_model_len", "sampling", "chat_template.sha256"} <= unseen(found)


def test_a_captured_command_line_is_read() -> None:
    argv, env = command_line(DATA / "captures/llama-cpp-python-0.3.36/B-changed")
    form = PYTHON.recognise(argv)
    assert form is not None
    read_ = PYTHON.given(form, env, {}, "0.3.36", True)
    assert facts(read_.readings) == {
        "serve.max_model_len": 1024,
        "serve.chat_template": "chatml",
        "chat_template.source": "--chat_format chatml",
        "serve.seed": 5,
        "serve.flash_attn": "true",
        "serve.cache_type_k": "q8_0",
        "serve.cache_type_v": "q8_0",
        "serve.kv_cache_dtype": "q8_0",
        "serve.max_num_batched_tokens": 64,
        "serve.args.cache": True,
    }
    assert read_.port == 8502


def test_its_defaults_are_not_those_of_llama_server() -> None:
    found = facts(PYTHON.effective(given(), Context(version="0.3.36")))
    assert (found["serve.max_model_len"], found["serve.max_num_batched_tokens"], found["serve.flash_attn"]) == (
        2048,
        512,
        "off",
    )
    assert (found["sampling.repetition_penalty"], found["sampling.completions.max_tokens"]) == (1.1, 16)
    assert found["engine.bundled.llama_cpp"] == "0c1e57098"
    newer = list(PYTHON.effective(given(), Context(version="0.3.99")))
    assert facts(newer) == {}
    assert "serve.max_model_len" in unseen(newer)


def test_flags_outrank_variables_and_a_config_file_replaces_both() -> None:
    env = {"N_CTX": "512", "SEED": "3", "CONFIG_FILE": ""}
    found = facts(given("--n_ctx", "1024", env=env).readings)
    assert (found["serve.max_model_len"], found["serve.seed"]) == (1024, 3)
    body = json.dumps({"port": 9000, "models": [{"model": "m.gguf", "n_ctx": 4096}]})
    read_ = given("--n_ctx", "1", "--config_file", "c.json", env={"SEED": "3"}, files={"c.json": body})
    assert facts(read_.readings) == {"serve.max_model_len": 4096}
    assert (read_.model and read_.model.text, read_.port) == ("m.gguf", 9000)
    yaml = given(env={"CONFIG_FILE": "c.yaml"}, files={"c.yaml": "models:\n  - model: m.gguf\n    n_batch: 8\n"})
    assert facts(yaml.readings) == {"serve.max_num_batched_tokens": 8}
    broken = given("--config_file", "c.json", files={"c.json": "[]"})
    assert [check.status for check in broken.checks] == [CheckStatus.FAIL]


def test_keys_are_kept_apart() -> None:
    read_ = given("--api_key", "sesame", env={"API_KEY": "other"})
    assert "sesame" in read_.secrets
    assert "sesame" not in repr((read_.readings, read_.warnings, read_.checks))


def test_sampling_keys_of_a_gguf_do_not_take_effect_here() -> None:
    context = Context(version="0.3.36", checkpoint={("checkpoint", "generation_config", "temperature"): 0.6})
    assert [check.name for check in PYTHON.checks(given(), context)] == ["check.settings_take_effect"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"serve.max_model_len": 4096, "serve.ubatch_size": 64, "serve.flash_attn": "on"},
        {"serve.kv_cache_dtype": "q8_0/q4_0", "serve.split_mode": "row", "serve.seed": 5},
        {"serve.args.n_threads": 4},
    ],
)
def test_the_command_for_facts_puts_these_facts_in_force(wanted: dict[str, Any]) -> None:
    plain = {parse(key): read(fact(key), value) for key, value in {"checkpoint.path": "m.gguf", **wanted}.items()}
    made = PYTHON.command(plain, Context())
    found = facts(given(*made.argv[3:]).readings)
    assert {key: str(found[key]).lower() in (str(value), "true") for key, value in wanted.items()} == dict.fromkeys(
        wanted, True
    )
