"""An option that is given twice loses a value, and that is told; one that adds up is not."""

from __future__ import annotations

import pytest

from lockllm.observe.server.command_line import plan

VLLM = ["vllm", "serve", "m"]
SGLANG = ["python", "-m", "sglang.launch_server", "--model-path", "m"]
LOST: list[tuple[list[str], str]] = [
    ([*VLLM, "--max-model-len", "100", "--max-model-len", "200"], "--max-model-len"),
    ([*VLLM, "--max-model-len=100", "--max_model_len", "200"], "--max-model-len"),
    ([*VLLM, "-tp", "1", "--tensor-parallel-size", "2"], "--tensor-parallel-size"),
    ([*VLLM, "--enable-prefix-caching", "--no-enable-prefix-caching"], "--no-enable-prefix-caching"),
    ([*VLLM, "--hf-overrides", '{"a":1}', "--hf-overrides", '{"b":1}'], "--hf-overrides"),
    ([*SGLANG, "--tp", "1", "--tp-size", "2"], "--tp-size"),
    ([*SGLANG, "--context-length", "1", "--context-length", "2"], "--context-length"),
    (["lmdeploy", "serve", "api_server", "m", "--tp", "1", "--tp", "2"], "--tp"),
    (["text-generation-launcher", "--model-id", "m", "--num-shard", "1", "--num-shard", "2"], "--num-shard"),
    (["trtllm-serve", "m", "--tp_size", "1", "--tp_size", "2"], "--tp_size"),
    (["transformers", "serve", "m", "--dtype", "float16", "--dtype", "bfloat16"], "--dtype"),
    (["python", "-m", "llama_cpp.server", "--model", "m", "--n_ctx", "1", "--n_ctx", "2"], "--n_ctx"),
]
KEPT: list[list[str]] = [
    [*VLLM, "--max-model-len", "100", "--max-model-len", "100"],
    [*VLLM, "--middleware", "a", "--middleware", "b"],
    [*VLLM, "--max-model-len", "100", "-tp", "2"],
    ["llama-server", "-m", "m.gguf", "--lora", "a", "--lora", "b"],
    [*SGLANG, "--tp", "2", "--tp-size", "2"],
]


@pytest.mark.parametrize("argv, flag", LOST)
def test_a_value_that_is_lost_is_told(argv: list[str], flag: str) -> None:
    assert f"{flag} is given more than once: only the last value counts" in plan(argv, {}, "/").warnings


@pytest.mark.parametrize("argv", KEPT)
def test_nothing_is_lost(argv: list[str]) -> None:
    assert not [each for each in plan(argv, {}, "/").warnings if "more than once" in each]


@pytest.mark.parametrize("text, wrong", [
    ("8000", False), (" 8000 ", False), ("tcp://10.0.0.1:8000", True), ("udp://10.0.0.1:80", True), ("http", True), ("", True),
])  # fmt: skip
def test_a_variable_that_kubernetes_sets_keeps_vllm_from_starting(text: str, wrong: bool) -> None:
    found = [each for each in plan(VLLM, {"VLLM_PORT": text}, "/", "0.32.0").checks if "VLLM_PORT" in each.detail]
    assert len(found) == wrong


@pytest.mark.parametrize("argv", [
    [*VLLM, "--help"], [*VLLM, "-h"], [*VLLM, "--help=ModelConfig"], [*SGLANG, "--help"],
    ["lmdeploy", "serve", "api_server", "m", "-h"], ["transformers", "serve", "m", "--help"],
])  # fmt: skip
def test_a_command_that_prints_its_help_serves_nothing(argv: list[str]) -> None:
    planned = plan(argv, {}, "/")
    found = [each for each in planned.checks if each.name == "check.flags_accepted"]
    assert "it prints the help, and nothing is served" in found[0].detail
    assert not [each for each in planned.readings if each.fact.path[:2] == ("serve", "args")]
