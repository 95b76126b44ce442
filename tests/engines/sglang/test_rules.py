"""What SGLang makes of defaults and `auto`, release by release."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.engines import Context, Form, load
from lockllm.facts.observation import ABSENT, CheckStatus, Reading, Unobserved
from tests.engines import replay

SGLANG = load("sglang")
LLAMA = {
    ("checkpoint", "dtype"): "bfloat16",
    ("checkpoint", "architecture"): "LlamaForCausalLM",
    ("checkpoint", "max_position_embeddings"): 8192,
    ("quantization", "method"): "none",
}
H100 = {("host", "platform"): "cuda", ("host", "compute_capability"): "9.0", ("host", "gpu_memory"): "80 GiB"}


def effective(
    *args: str, version: str = "0.5.23", checkpoint: Any = None, host: Any = None, packages: Any = None
) -> Any:
    form = Form(engine="sglang", args=args, program=("python3", "-m", "sglang.launch_server"))
    given = SGLANG.given(form, {}, {}, version, False)
    context = Context(
        version=version,
        checkpoint=LLAMA if checkpoint is None else checkpoint,
        host=host or {},
        packages=packages or {},
    )
    return list(SGLANG.effective(given, context)), list(SGLANG.checks(given, context))


def told(*args: str, **kw: Any) -> dict[str, Any]:
    return replay.facts(effective(*args, **kw)[0])


def unseen(*args: str, **kw: Any) -> set[str]:
    return {".".join(each.path) for each in effective(*args, **kw)[0] if isinstance(each, Unobserved)}


@pytest.mark.parametrize(
    ("dtype", "architecture", "expected"),
    [
        ("bfloat16", "LlamaForCausalLM", "bfloat16"),
        ("float16", "LlamaForCausalLM", "float16"),
        ("float32", "LlamaForCausalLM", "float16"),
        ("float32", "Gemma2ForCausalLM", "bfloat16"),
    ],
)
def test_auto_dtype_follows_the_checkpoint(dtype: str, architecture: str, expected: str) -> None:
    checkpoint = {**LLAMA, ("checkpoint", "dtype"): dtype, ("checkpoint", "architecture"): architecture}
    assert told(checkpoint=checkpoint)["serve.dtype"] == expected
    assert told(checkpoint=checkpoint)["serve.kv_cache_dtype"] == expected
    assert "serve.dtype" not in told("--dtype", "float32", checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("version", "architecture", "expected"),
    [
        ("0.4.4", "Gemma2ForCausalLM", "bfloat16"),
        ("0.4.4", "GemmaForCausalLM", "float16"),  # the second Gemma alone, up to 0.4.4
        ("0.4.5", "GemmaForCausalLM", None),
        ("0.4.6", "GemmaForCausalLM", "bfloat16"),
        ("0.5.23", "Gemma3ForConditionalGeneration", "bfloat16"),
    ],
)
def test_float32_of_a_gemma_follows_the_release(version: str, architecture: str, expected: str | None) -> None:
    checkpoint = {**LLAMA, ("checkpoint", "dtype"): "float32", ("checkpoint", "architecture"): architecture}
    assert told(version=version, checkpoint=checkpoint).get("serve.dtype") == expected


def test_a_checkpoint_that_declares_no_dtype_is_taken_for_float32() -> None:
    assert told(checkpoint={**LLAMA, ("checkpoint", "dtype"): ABSENT})["serve.dtype"] == "float16"


def test_a_gpu_without_bfloat16_computes_in_float16_whatever_is_asked() -> None:
    host = {**H100, ("host", "compute_capability"): "7.5"}
    assert told(host=host)["serve.dtype"] == "float16"
    checks = effective("--dtype", "bfloat16", host=host)[1]
    assert [check.detail for check in checks] == ["this GPU has no bfloat16: SGLang computes in float16, not bfloat16"]
    assert effective("--dtype", "half", host=host)[1] == []


@pytest.mark.parametrize(
    ("version", "memory", "expected"),
    [
        ("0.3.4", "24 GiB", 8192),
        ("0.4.4", "22 GiB", 2048),
        ("0.4.4", "80 GiB", 8192),
        ("0.4.8", "32 GiB", 2048),
        ("0.5.2", "48 GiB", 8192),
        ("0.5.23", "20 GiB", 2048),  # such a card shows 20475 MiB
        ("0.4.10", "48 GiB", 8192),
        ("0.5.3", "48 GiB", 4096),
        ("0.5.18", "24 GiB", 2048),
        ("0.5.23", "24 GiB", 4096),
        ("0.5.23", "16 GiB", 2048),
        ("0.5.23", "80 GiB", 8192),
        ("0.5.23", "180 GiB", 16384),
        ("0.5.19", "80 GiB", 8192),
        ("0.5.19", "24 GiB", None),
    ],
)
def test_the_chunk_follows_release_and_memory(version: str, memory: str, expected: int | None) -> None:
    host = {**H100, ("host", "gpu_memory"): memory}
    assert told(version=version, host=host).get("serve.chunked_prefill_size") == expected


@pytest.mark.parametrize(
    ("version", "capability", "packages", "expected"),
    [
        ("0.5.23", "9.0", {}, "fa3"),
        ("0.4.6", "9.0", {}, "fa3"),
        ("0.4.4", "9.0", {"flashinfer-python": "0.2"}, "flashinfer"),
        ("0.5.23", "10.0", {}, "trtllm_mha"),
        ("0.5.6", "10.0", {"flashinfer-python": "0.5"}, "flashinfer"),
        ("0.5.7", "10.0", {"flashinfer-python": "0.6"}, "trtllm_mha"),
        ("0.5.23", "12.0", {"flashinfer-python": "0.7"}, "flashinfer"),
        ("0.5.23", "8.0", {"flashinfer-python": "0.7"}, "flashinfer"),
        ("0.5.23", "8.0", {"torch": "2.14"}, "triton"),
        ("0.5.23", "8.0", {}, None),
    ],
)
def test_the_attention_backend_follows_gpu_and_release(
    version: str, capability: str, packages: Any, expected: Any
) -> None:
    host = {**H100, ("host", "compute_capability"): capability}
    assert told(version=version, host=host, packages=packages).get("serve.attention_backend") == expected


@pytest.mark.parametrize(
    ("version", "architecture", "expected"),
    [
        ("0.4.6", "MistralForCausalLM", "fa3"),
        ("0.4.7", "MistralForCausalLM", None),  # the list changed about here
        ("0.4.8", "MistralForCausalLM", "flashinfer"),
        ("0.5.7", "MistralForCausalLM", "flashinfer"),
        ("0.5.8", "MistralForCausalLM", "fa3"),
        ("0.4.6", "Qwen3ForCausalLM", "flashinfer"),
        ("0.4.8", "Qwen3ForCausalLM", "fa3"),
        ("0.4.6", "Qwen2ForCausalLM", "fa3"),
        ("0.5.3", "Phi3ForCausalLM", "flashinfer"),
        ("0.5.23", "Phi3ForCausalLM", "fa3"),
    ],
)
def test_hopper_gets_fa3_for_the_architectures_of_its_release(
    version: str, architecture: str, expected: str | None
) -> None:
    checkpoint = {**LLAMA, ("checkpoint", "architecture"): architecture}
    found = told(version=version, checkpoint=checkpoint, host=H100, packages={"flashinfer-python": "0.2"})
    assert found.get("serve.attention_backend") == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "1"), "fa3"),
        (("--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "1", "--page-size", "64"), "flashinfer"),
        (("--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "8"), "flashinfer"),
        (("--speculative-algorithm", "EAGLE"), None),
        (("--kv-cache-dtype", "fp8_e5m2"), "triton"),
        (("--prefill-attention-backend", "fa4", "--decode-attention-backend", "fa4"), "fa4"),
    ],
)
def test_drafts_caches_and_phases_move_the_attention_backend(args: tuple[str, ...], expected: str | None) -> None:
    found = told(*args, host=H100, packages={"flashinfer-python": "0.7"})
    assert found.get("serve.attention_backend") == expected


def test_a_backend_that_does_not_take_the_cache_is_told() -> None:
    checks = effective("--attention-backend", "fa3", "--kv-cache-dtype", "fp8_e5m2", host=H100)[1]
    assert [check.detail for check in checks] == [
        "fa3 does not take an fp8_e5m2 cache: SGLang computes attention with triton"
    ]
    assert effective("--attention-backend", "fa3", "--kv-cache-dtype", "fp8_e4m3", host=H100)[1] == []


@pytest.mark.parametrize(
    ("version", "size"), [("0.3.6", 8192), ("0.4.6", 8192), ("0.4.8", 4096), ("0.5.2", 4096), ("0.5.3", None)]
)
def test_without_a_gpu_the_chunk_is_fixed_until_it_follows_the_host(version: str, size: int | None) -> None:
    found = told(version=version, host={("host", "platform"): "cpu"})
    assert found.get("serve.chunked_prefill_size") == size
    assert found["serve.enable_chunked_prefill"] is True


@pytest.mark.parametrize(
    ("version", "size"), [("0.4.4", 4096), ("0.4.6", 1024), ("0.5.23", 1024)], ids=["halved", "shared", "newest"]
)
def test_dp_attention_shares_the_chunk(version: str, size: int) -> None:
    found = told("--enable-dp-attention", "--dp", "8", "--tp", "8", version=version, host=H100)
    assert found["serve.chunked_prefill_size"] == size


def test_a_slice_of_a_gpu_leaves_the_chunk_open() -> None:
    host = {**H100, ("host", "mig"): "1g.20gb"}
    assert "serve.chunked_prefill_size" in unseen(host=host)


@pytest.mark.parametrize(
    ("args", "version", "cached", "chunk"),
    [
        (("--speculative-algorithm", "EAGLE"), "0.4.3", False, -1),
        (("--speculative-algorithm", "EAGLE"), "0.4.4", True, 8192),
        (("--disaggregation-mode", "decode"), "0.5.3", False, 8192),
        (("--disaggregation-mode", "decode", "--disaggregation-decode-enable-radix-cache"), "0.5.23", True, 8192),
        (("--disaggregation-mode", "prefill"), "0.5.23", True, 8192),
        (("--enable-mis",), "0.5.12", False, -1),
        ((), "0.5.23", True, 8192),
    ],
)
def test_some_modes_switch_prefix_caching_and_chunks_off(
    args: tuple[str, ...], version: str, cached: bool, chunk: int
) -> None:
    found = told(*args, version=version, host=H100)
    assert found["serve.enable_prefix_caching"] is cached
    assert (found["serve.chunked_prefill_size"], found["serve.enable_chunked_prefill"]) == (chunk, chunk > 0)


@pytest.mark.parametrize(
    ("version", "capability", "architecture", "expected"),
    [
        ("0.5.3", "9.0", "LlamaForCausalLM", None),
        ("0.5.4", "9.0", "LlamaForCausalLM", "fa3"),
        ("0.5.23", "8.0", "LlamaForCausalLM", "fa3"),
        ("0.5.23", "10.0", "LlamaForCausalLM", "flashinfer"),
        ("0.5.23", "12.0", "LlamaForCausalLM", "flashinfer"),
        ("0.5.4", "10.0", "DeepseekV3ForCausalLM", "flashinfer"),
        ("0.5.5", "10.0", "DeepseekV3ForCausalLM", "triton"),
        ("0.5.23", "9.0", "DeepseekV3ForCausalLM", "fa3"),
    ],
)
def test_deterministic_mode_picks_a_backend_by_gpu_and_model(
    version: str, capability: str, architecture: str, expected: str | None
) -> None:
    checkpoint = {**LLAMA, ("checkpoint", "architecture"): architecture}
    host = {**H100, ("host", "compute_capability"): capability}
    found, checks = effective("--enable-deterministic-inference", version=version, checkpoint=checkpoint, host=host)
    assert replay.facts(found).get("serve.attention_backend") == expected
    refused = [check.detail for check in checks if check.status is CheckStatus.FAIL]
    assert refused == (
        ["sglang 0.5.3 starts deterministic mode only where a backend is named"] if version == "0.5.3" else []
    )


def test_training_on_policy_asks_for_deterministic_mode() -> None:
    found = told("--rl-on-policy-target", "fsdp", host=H100)
    assert (found["serve.batch_invariant"], found["serve.attention_backend"]) == (True, "fa3")
    assert told(host=H100)["serve.batch_invariant"] is False


def test_architectures_with_rules_of_their_own_are_left_open() -> None:
    checkpoint = {**LLAMA, ("checkpoint", "architecture"): "DeepseekV3ForCausalLM"}
    assert "serve.attention_backend" in unseen(checkpoint=checkpoint, host=H100)


@pytest.mark.parametrize(
    ("version", "backend", "kept"),
    [("0.5.3", "triton", False), ("0.5.4", "triton", True), ("0.5.3", "fa3", True), ("0.5.23", "flashinfer", False)],
)
def test_deterministic_mode_keeps_the_radix_cache_with_some_backends(version: str, backend: str, kept: bool) -> None:
    args = ("--enable-deterministic-inference", "--attention-backend", backend)
    assert told(*args, version=version)["serve.enable_prefix_caching"] is kept


def test_deterministic_mode_refuses_other_backends() -> None:
    args = ("--enable-deterministic-inference", "--attention-backend", "torch_native")
    checks = effective(*args)[1]
    assert "does not start with the torch_native" in checks[0].detail


GENERATION = {**LLAMA, ("checkpoint", "generation_config", "temperature"): 0.6}


@pytest.mark.parametrize(
    ("version", "packages", "temperature", "top_k"),
    [
        ("0.5.3", {}, 1, 0),  # generation_config.json sets no sampling default yet
        ("0.5.4", {"transformers": "4.57.1"}, 0.6, 50),
        ("0.5.9", {}, 0.6, 50),  # that release pins transformers 4
        ("0.5.10", {}, 0.6, 0),
        ("0.5.23", {"transformers": "5.19.0"}, 0.6, 0),
        ("0.5.23", {"transformers": "4.57.1"}, 0.6, 50),
    ],
)
def test_sampling_defaults_follow_release_and_transformers(
    version: str, packages: Any, temperature: float, top_k: int
) -> None:
    found = told(version=version, checkpoint=GENERATION, packages=packages)
    assert (found["sampling.temperature"], found["sampling.top_k"]) == (temperature, top_k)


def test_a_top_k_that_is_given_stands_under_any_transformers() -> None:
    checkpoint = {**GENERATION, ("checkpoint", "generation_config", "top_k"): 50}
    for transformers in ("4.57.1", "5.19.0"):
        assert told(checkpoint=checkpoint, packages={"transformers": transformers})["sampling.top_k"] == 50


def test_openai_ignores_generation_config() -> None:
    found = told("--sampling-defaults", "openai", checkpoint=GENERATION)
    assert (found["sampling.temperature"], found["sampling.top_p"]) == (1, 1)


def test_completions_ignore_generation_config_always() -> None:
    found = told(checkpoint=GENERATION, packages={"transformers": "5.19.0"})
    assert found["sampling.completions.temperature"] == 1
    assert found["sampling.completions.max_tokens"] == 16


def test_a_seed_that_is_not_given_is_drawn_and_so_unknown() -> None:
    assert {"serve.seed", "serve.max_num_seqs"} <= unseen()
    assert "serve.seed" not in unseen("--random-seed", "1")


@pytest.mark.parametrize("version", ["0.6.0", "0.2.0"])
def test_a_release_whose_rules_were_not_read_is_left_open(version: str) -> None:
    found, _ = effective(version=version)
    assert {"serve", "sampling", "serve.dtype", "serve.data_parallel_size"} <= {".".join(each.path) for each in found}
    assert not any(isinstance(each, Reading) for each in found)


def test_an_empty_checkpoint_gives_no_dtype() -> None:
    assert {"serve.dtype", "serve.kv_cache_dtype", "sampling.temperature"} <= unseen(checkpoint={})


@pytest.mark.parametrize("flag", ["--attention-backend", "--decode-attention-backend"])
@pytest.mark.parametrize(("version", "told"), [("0.5.22", False), ("0.5.23", True)])
def test_a_backend_that_is_another_name_now_is_told(flag: str, version: str, told: bool) -> None:
    checks = effective(flag, "tokenspeed_mla", version=version, host=H100)[1]
    assert [check.detail for check in checks if "tokenspeed" in check.detail] == (
        ["SGLang 0.5.23 computes with cutedsl_mla and an fp8_e4m3 cache where tokenspeed_mla is asked"] if told else []
    )
