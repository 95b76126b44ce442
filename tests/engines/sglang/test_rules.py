"""What SGLang makes of defaults and `auto`, release by release."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.engines import Context, Form, load
from lockllm.facts.observation import Reading, Unobserved
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
    ("version", "memory", "expected"),
    [
        ("0.3.4", "24 GiB", 8192),
        ("0.4.4", "22 GiB", 2048),
        ("0.4.4", "80 GiB", 8192),
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
        ("0.5.8", "10.0", {"flashinfer-python": "0.6"}, None),
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
    assert [".".join(each.path) for each in found] == ["serve", "sampling"]
    assert not any(isinstance(each, Reading) for each in found)


def test_an_empty_checkpoint_gives_no_dtype() -> None:
    assert {"serve.dtype", "serve.kv_cache_dtype", "sampling.temperature"} <= unseen(checkpoint={})
