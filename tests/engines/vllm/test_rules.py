"""vLLM's defaults and `auto` rules, by release, checkpoint, GPU and packages."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.engines import Context
from lockllm.facts import registry
from tests.engines.vllm.material import VLLM, effective, failing, given

QWEN = {
    "checkpoint.architecture": "Qwen2ForCausalLM",
    "checkpoint.dtype": "bfloat16",
    "checkpoint.max_position_embeddings": 32768,
    "quantization.method": "none",
    "host.platform": "cuda",
    "host.gpu_product": "NVIDIA H100 80GB HBM3",
    "host.compute_capability": "9.0",
    "host.gpu_memory": "80 GiB",
}
A100 = {"host.gpu_product": "NVIDIA A100-SXM4-80GB", "host.compute_capability": "8.0"}
T4 = {"host.gpu_product": "Tesla T4", "host.compute_capability": "7.5", "host.gpu_memory": "15 GiB"}
B200 = {"host.gpu_product": "NVIDIA B200", "host.compute_capability": "10.0", "host.gpu_memory": "179 GiB"}
GB10 = {"host.gpu_product": "NVIDIA GB10", "host.compute_capability": "12.1", "host.gpu_memory": "119 GiB"}
L4 = {"host.gpu_product": "NVIDIA L4", "host.compute_capability": "8.9", "host.gpu_memory": "22 GiB"}
CPU = {"host.platform": "cpu", "host.gpu_product": None, "host.compute_capability": None, "host.gpu_memory": None}
FLOAT32 = {"checkpoint.dtype": "float32"}
GPTQ = {
    "quantization.method": "gptq",
    "quantization.bits": 4,
    "quantization.symmetric": True,
    "quantization.group_size": 128,
}
AWQ = {
    "quantization.method": "awq",
    "quantization.bits": 4,
    "quantization.symmetric": False,
    "quantization.group_size": 128,
}
YARN = {
    "checkpoint.rope_type": "yarn", "checkpoint.rope_factor": 4.0, "checkpoint.original_max_position_embeddings": 32768,
}  # fmt: skip
TOP_K = {"checkpoint.generation_config.top_k": 50, "checkpoint.generation_config.temperature": 0.6}

TABLE: list[tuple[str, list[str], dict[str, Any], str, Any]] = [
    ("0.7.3", [], {}, "serve.enable_prefix_caching", False),
    ("0.8.0", [], {}, "serve.enable_prefix_caching", True),
    ("0.8.5", [], T4, "serve.enable_prefix_caching", False),
    ("0.10.2", [], T4, "serve.enable_prefix_caching", True),
    ("0.32.0", [], {}, "serve.enable_prefix_caching", True),
    ("0.24.0", [], {"checkpoint.architecture": "Qwen3NextForCausalLM"}, "serve.enable_prefix_caching", False),
    ("0.26.0", [], {"checkpoint.architecture": "Qwen3NextForCausalLM"}, "serve.enable_prefix_caching", True),
    ("0.32.0", [], {"checkpoint.architecture": "WhisperForConditionalGeneration"}, "serve.enable_prefix_caching", False),
    ("0.32.0", ["--no-enable-prefix-caching"], {}, "serve.enable_prefix_caching", False),
    ("0.7.3", [], {}, "serve.enable_chunked_prefill", False),
    ("0.8.0", [], {}, "serve.enable_chunked_prefill", True),
    ("0.7.3", [], {"checkpoint.max_position_embeddings": 131072}, "serve.enable_chunked_prefill", None),
    ("0.7.3", [], {}, "serve.generation_config", "vllm"),
    ("0.8.0", [], {}, "serve.generation_config", "auto"),
    ("0.7.3", [], {}, "serve.seed", 0),
    ("0.8.5", [], {}, "serve.seed", "absent"),
    ("0.10.2", [], {}, "serve.seed", 0),
    ("0.32.0", ["--seed", "7"], {}, "serve.seed", 7),
    ("0.19.1", [], {}, "serve.gpu_memory_share", 0.9),
    ("0.20.0", [], {}, "serve.gpu_memory_share", 0.92),
    ("0.32.0", [], {}, "serve.dtype", "bfloat16"),
    ("0.32.0", ["--dtype", "auto"], FLOAT32, "serve.dtype", "bfloat16"),
    ("0.9.1", [], FLOAT32, "serve.dtype", "bfloat16"),
    ("0.9.0", [], FLOAT32, "serve.dtype", "float16"),
    ("0.32.0", [], {**FLOAT32, **T4}, "serve.dtype", "float16"),
    ("0.32.0", [], T4, "serve.dtype", "float16"),
    ("0.32.0", ["--runner", "pooling"], FLOAT32, "serve.dtype", "float16"),
    ("0.32.0", [], {"checkpoint.dtype": "float16", "checkpoint.architecture": "Gemma2ForCausalLM"}, "serve.dtype", "bfloat16"),
    ("0.7.3", [], {**FLOAT32, "checkpoint.architecture": "Gemma2ForCausalLM"}, "serve.dtype", "bfloat16"),
    ("0.32.0", [], {"checkpoint.dtype": None, "checkpoint.tensor_dtypes": ["BF16"]}, "serve.dtype", "bfloat16"),
    ("0.8.5", [], {"checkpoint.dtype": None}, "serve.dtype", "float16"),
    ("0.32.0", [], {**FLOAT32, "host.platform": None, **CPU}, "serve.dtype", "bfloat16"),
    ("0.32.0", ["--dtype", "half"], {}, "serve.kv_cache_dtype", "float16"),
    ("0.32.0", [], {"quantization.method": "modelopt", "quantization.kv_cache": "fp8"}, "serve.kv_cache_dtype", "fp8_e4m3"),
    ("0.32.0", ["--kv-cache-dtype", "fp8"], {}, "serve.kv_cache_dtype", "fp8"),
    ("0.32.0", [], {}, "serve.quantization", "none"),
    ("0.21.0", [], GPTQ, "serve.quantization", "gptq_marlin"),
    ("0.22.0", [], GPTQ, "serve.quantization", "auto_gptq"),
    ("0.10.2", [], {**GPTQ, **T4}, "serve.quantization", "gptq"),
    ("0.13.0", [], {**AWQ, **T4}, "serve.quantization", "awq"),
    ("0.14.0", [], {**GPTQ, **T4}, "serve.quantization", "gptq_marlin"),
    ("0.14.0", [], {**AWQ, **T4}, "serve.quantization", "awq_marlin"),
    ("0.13.0", [], {**GPTQ, **CPU}, "serve.quantization", "gptq"),
    ("0.14.0", [], {**GPTQ, **CPU}, "serve.quantization", "gptq_marlin"),
    ("0.16.0", [], {**AWQ, **CPU}, "serve.quantization", None),
    ("0.10.2", [], {**GPTQ, "quantization.symmetric": False}, "serve.quantization", "gptq"),
    ("0.23.0", [], AWQ, "serve.quantization", "awq_marlin"),
    ("0.24.0", [], AWQ, "serve.quantization", "auto_awq"),
    ("0.32.0", [], {"quantization.method": "mxfp4"}, "serve.quantization", None),
    ("0.32.0", [], {}, "serve.max_model_len", 32768),
    ("0.32.0", ["--max-model-len", "-1"], {}, "serve.max_model_len", None),
    ("0.29.0", [], YARN, "serve.max_model_len", 131072),
    ("0.30.0", [], YARN, "serve.max_model_len", 32768),
    ("0.32.0", [], {"checkpoint.rope_type": "linear", "checkpoint.rope_factor": 2.0}, "serve.max_model_len", 65536),
    ("0.32.0", [], {"checkpoint.rope_type": "llama3", "checkpoint.rope_factor": 8.0}, "serve.max_model_len", 32768),
    ("0.7.3", [], {}, "serve.max_num_seqs", 256),
    ("0.8.3", [], L4, "serve.max_num_seqs", 1024),
    ("0.8.4", [], L4, "serve.max_num_seqs", 256),
    ("0.8.4", [], {}, "serve.max_num_seqs", 1024),
    ("0.8.5", [], A100, "serve.max_num_seqs", 1024),
    ("0.9.0", [], A100, "serve.max_num_seqs", 256),
    ("0.32.0", [], {}, "serve.max_num_seqs", 1024),
    ("0.32.0", [], L4, "serve.max_num_seqs", 256),
    ("0.32.0", [], GB10, "serve.max_num_seqs", 1024),
    ("0.33.0", [], GB10, "serve.max_num_seqs", 256),
    ("0.32.0", ["--performance-mode", "throughput"], {}, "serve.max_num_seqs", 2048),
    ("0.32.0", ["--max-num-batched-tokens", "512"], {}, "serve.max_num_seqs", 512),
    ("0.32.0", ["-tp", "2"], CPU, "serve.max_num_seqs", 256),
    ("0.32.0", [], {"host.gpu_memory": None}, "serve.max_num_seqs", 1024),
    ("0.32.0", [], {"host.gpu_memory": None, "host.gpu_product": None, "host.platform": None}, "serve.max_num_seqs", None),
    ("0.32.0", [], {}, "serve.max_num_batched_tokens", 8192),
    ("0.27.0", [], B200, "serve.max_num_batched_tokens", 8192),
    ("0.28.0", [], B200, "serve.max_num_batched_tokens", 16384),
    ("0.32.0", [], L4, "serve.max_num_batched_tokens", 2048),
    ("0.32.0", ["--no-enable-chunked-prefill"], {}, "serve.max_num_batched_tokens", 32768),
    ("0.32.0", ["--max-num-seqs", "2", "--max-model-len", "1024"], {}, "serve.max_num_batched_tokens", 2048),
    ("0.32.0", ["-dp", "8", "-ep"], {}, "serve.max_num_batched_tokens", None),
    ("0.32.0", [], CPU, "serve.max_num_batched_tokens", 2048),
    ("0.32.0", [], {}, "serve.attention_backend", None),
    ("0.32.0", ["--attention-backend", "FLASHINFER"], {}, "serve.attention_backend", "FLASHINFER"),
    ("0.32.0", [], {}, "serve.batch_invariant", False),
    ("0.32.0", [], {}, "serve.tool_call_parser", "absent"),
    ("0.32.0", [], {}, "tokenizer.mode", "hf"),
    ("0.32.0", [], {"checkpoint.files.\"tekken.json\"": {"sha256": "0" * 64}}, "tokenizer.mode", None),
    ("0.7.3", [], TOP_K, "sampling.temperature", 1),
    ("0.7.3", ["--generation-config", "auto"], TOP_K, "sampling.temperature", 0.6),
    ("0.8.0", [], TOP_K, "sampling.temperature", 0.6),
    ("0.32.0", ["--generation-config", "vllm"], TOP_K, "sampling.temperature", 1),
    ("0.32.0", ["--override-generation-config", '{"temperature": 0}'], TOP_K, "sampling.temperature", 0),
    ("0.18.1", [], TOP_K, "sampling.top_k", 0),
    ("0.32.0", [], TOP_K, "sampling.top_k", 50),
    ("0.20.2", [], TOP_K, "sampling.top_k", None),
    ("0.32.0", ["--generation-config", "elsewhere"], TOP_K, "sampling", None),
    ("0.32.0", [], {"checkpoint.generation_config.eos_token_id": [1, 2]}, "sampling.stop_token_ids", [1, 2]),
    ("0.32.0", [], {"checkpoint.generation_config.max_new_tokens": 9}, "sampling.max_tokens", 9),
    ("0.32.0", [], {}, "sampling.max_tokens", "absent"),
    ("0.32.0", [], {}, "sampling.completions.max_tokens", 16),
]  # fmt: skip


@pytest.mark.parametrize("version, args, change, key, wanted", TABLE)
def test_the_value_in_force_follows_the_release(
    version: str, args: list[str], change: dict[str, Any], key: str, wanted: Any
) -> None:
    context = {name: value for name, value in {**QWEN, **change}.items() if value is not None}
    found = effective("org/name", *args, version=version, context=context)
    assert key in found
    assert found[key] == wanted


@pytest.mark.parametrize("major, wanted", [("4.57.1", 0), ("5.19.0", 50)])
def test_an_explicit_top_k_of_50_depends_on_transformers(major: str, wanted: int) -> None:
    found = effective("m", version="0.20.2", context={**QWEN, **TOP_K}, packages={"transformers": major})
    assert found["sampling.top_k"] == wanted
    rust = effective(
        "m", version="0.23.0", context={**QWEN, **TOP_K}, packages={"transformers": "4.57.1"},
        env={"VLLM_USE_RUST_FRONTEND": "1"},
    )  # fmt: skip
    assert rust["sampling.top_k"] == 50


def test_v0_is_known_by_its_variable() -> None:
    found = effective("m", version="0.10.2", context=QWEN, env={"VLLM_USE_V1": "0"})
    assert (found["serve.enable_prefix_caching"], found["serve.max_num_seqs"], found["serve.seed"]) == (
        False,
        256,
        "absent",
    )
    asked = effective("m", "--scheduling-policy", "priority", version="0.8.5", context=QWEN)
    assert asked["serve.enable_prefix_caching"] is None


@pytest.mark.parametrize("version", ["0.34.0", "1.0.0", "0.5.5", None])
def test_no_rule_is_guessed_outside_the_releases_that_were_read(version: str | None) -> None:
    found = effective("m", version=version, context=QWEN)
    told = {key: value for key, value in found.items() if value is not None}
    assert told == {}
    assert effective("m", "--dtype", "bfloat16", version=version, context=QWEN)["serve.dtype"] == "bfloat16"


def test_nothing_is_made_up_where_no_file_was_seen() -> None:
    found = effective("m", version="0.32.0", context={})
    assert [found[key] for key in ("serve.dtype", "serve.quantization", "serve.max_model_len", "sampling")] == [
        None
    ] * 4


def test_a_newer_release_that_is_only_a_post_or_build_of_a_read_one_is_read() -> None:
    for version in ("0.33.0.post1", "0.33.0+cu129", "0.10.1.1"):
        assert effective("m", version=version, context=QWEN)["serve.dtype"] == "bfloat16"


def test_a_switch_that_the_engine_overrules_is_not_in_force() -> None:
    from tests.engines.vllm.material import facts, form

    live = VLLM.given(form("m", "--no-enable-chunked-prefill"), {}, {}, "0.11.0", True)
    assert facts(live.readings) == {}
    assert effective("m", version="0.11.0", context=QWEN)["serve.enable_chunked_prefill"] is True


def test_a_variable_that_cannot_be_seen_is_not_taken_for_unset() -> None:
    from tests.engines.vllm.material import facts

    told = facts(VLLM.effective(given("m"), Context(version="0.32.0", env_whole=False)))
    assert told["serve.batch_invariant"] is None
    old = facts(VLLM.effective(given("m", version="0.10.2"), Context(version="0.10.2", env_whole=False)))
    assert (old["serve.enable_prefix_caching"], old["serve.batch_invariant"]) == (None, False)


INVARIANT: list[tuple[str, list[str], dict[str, Any], str]] = [
    ("0.11.0", [], {}, "fail"),
    ("0.32.0", [], {}, "pass"),
    ("0.32.0", [], A100, "pass"),
    ("0.22.1", [], A100, "fail"),
    ("0.32.0", [], T4, "fail"),
    ("0.32.0", [], CPU, "fail"),
    ("0.32.0", ["--attention-backend", "FLASHINFER"], {}, "fail"),
    ("0.32.0", ["--attention-backend", "TRITON_ATTN"], {}, "pass"),
    ("0.16.0", [], {}, "fail"),
    ("0.16.0", ["--attention-backend", "FLASH_ATTN"], {}, "pass"),
    ("0.34.0", [], {}, "unknown"),
]


@pytest.mark.parametrize("version, args, change, status", INVARIANT)
def test_batch_invariance_holds_only_where_release_gpu_and_backend_carry_it(
    version: str, args: list[str], change: dict[str, Any], status: str
) -> None:
    from lockllm.facts.keys import parse

    env = {"VLLM_BATCH_INVARIANT": "1"}
    host = {
        parse(key): value for key, value in {**QWEN, **change}.items() if key.startswith("host.") and value is not None
    }
    said = given("m", *args, version=version, env=env)
    found = {
        check.name: check.status.value for check in VLLM.checks(said, Context(version=version, host=host, env=env))
    }
    assert found["check.deterministic_holds"] == status


def test_settings_without_effect_are_told() -> None:
    said = given("m", "--no-enable-chunked-prefill", version="0.11.0")
    assert "chunks prefills" in failing(said.checks)["check.settings_take_effect"]
    env = {"VLLM_TEST_FORCE_LOAD_FORMAT": "dummy", "VLLM_SERVICE_HOST": "10.0.0.1", "VLLM_NO_SUCH": "1"}
    found = failing(VLLM.checks(given("m", env=env), Context(version="0.32.0", env=env)))
    assert "VLLM_TEST_FORCE_LOAD_FORMAT" in found["check.settings_take_effect"]
    assert "VLLM_NO_SUCH" in found["check.variables_known"]
    assert "SERVICE_HOST" not in found["check.variables_known"]
    word = failing(VLLM.checks(given("m"), Context(version="0.32.0", env={"VLLM_BATCH_INVARIANT": "true"})))
    assert "'true'" in word["check.settings_take_effect"]
    free = failing(VLLM.checks(given("m", "--max-model-len", "auto"), Context(version="0.32.0")))
    assert "free" in free["check.settings_take_effect"]


def test_what_explain_says_of_defaults_is_what_the_rules_do() -> None:
    """A100s lost the large batches at 0.9.0; a seed of none stayed with the V0 engine up to 0.11.0."""
    told = {key: VLLM.where(registry.fact(key)).get("default", "") for key in ("serve.max_num_seqs", "serve.seed")}
    assert "no A100 since 0.9.0" in told["serve.max_num_seqs"]
    assert "V0 engine up to 0.11.0" in told["serve.seed"]


@pytest.mark.parametrize("name", ["mooncake_ib_device", "base_gpu_id", "gpu_id_step"])
def test_an_option_of_another_engine_is_seen_nowhere_here(name: str) -> None:
    assert VLLM.where(registry.fact(f"serve.args.{name}")) == {}
