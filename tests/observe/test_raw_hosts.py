"""Raw hosts, end to end: metadata in a venv, a command line and its environment, a checkpoint, a GPU; the value in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from lockllm.facts.observation import Observation
from lockllm.facts.registry import dump
from tests.incidents.cases_engines import sglang
from tests.incidents.cases_vllm import F32, vllm
from tests.incidents.raw import Place, Side

OPEN = "open"  # what must not be told: nothing here shows it
A100, B200, T4, L4 = (
    {
        "gpu.*.name": name,
        "gpu.*.ids": ids,
        "gpu.*.capability": capability,
        "gpu.*.cores": cores,
        "gpu.*.memory_mib": memory,
    }
    for name, ids, capability, cores, memory in (
        ("NVIDIA A100-SXM4-80GB", "20B210DE", "8 0", "6912", "81920"),
        ("NVIDIA B200", "290110DE", "10 0", "18944", "183359"),
        ("Tesla T4", "1EB810DE", "7 5", "2560", "15360"),
        ("NVIDIA L4", "27B810DE", "8 9", "7424", "23034"),
    )
)
FLASHINFER = {"flashinfer-python": "0.5.2"}
TOP_K = {"generation_config.json": '{"temperature": 0.6, "top_k": 50}'}
NO_TOP_K = {"generation_config.json": '{"temperature": 0.6}'}
FILE = {"home": {"serve.yaml": "enable-prefix-caching: false\nseed: 7\n"}}
SGLANG_FILE = {"home": {"serve.yaml": "random-seed: 7\ndisable-radix-cache: false\nchunked-prefill-size: 64\n"}}


ROWS: Mapping[str, tuple[Side, dict[str, Any]]] = {
    # vLLM
    "prefix caching before V1": (vllm("0.7.3"), {"serve.enable_prefix_caching": False}),
    "prefix caching since V1": (vllm("0.8.0"), {"serve.enable_prefix_caching": True}),
    "prefix caching off by flag": (vllm("0.10.2", "--no-enable-prefix-caching"), {"serve.enable_prefix_caching": False}),
    "the V0 engine by variable": (vllm("0.8.5", env={"VLLM_USE_V1": "0"}), {"serve.enable_prefix_caching": False, "env.VLLM_USE_V1": "0"}),
    "a variable that died": (vllm("0.16.0", env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"}), {"env.VLLM_ATTENTION_BACKEND": OPEN}),
    "a variable that lives": (vllm("0.11.0", env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"}), {"serve.attention_backend": "TRITON_ATTN"}),
    "generation_config before 0.8": (vllm("0.7.3", files=NO_TOP_K), {"serve.generation_config": "vllm", "sampling.temperature": 1}),
    "generation_config since 0.8": (vllm("0.8.0", files=NO_TOP_K), {"serve.generation_config": "auto", "sampling.temperature": 0.6}),
    "generation_config overridden": (
        vllm("0.10.2", "--override-generation-config {\"temperature\":0.1}", files=NO_TOP_K), {"sampling.temperature": 0.1},
    ),
    "generation_config of the engine": (vllm("0.10.2", "--generation-config vllm", files=NO_TOP_K), {"sampling.temperature": 1}),
    "the seed before 0.12": (vllm("0.11.2"), {"serve.seed": 0}),
    "the seed since 0.12": (vllm("0.12.0"), {"serve.seed": 0}),
    "float32 and auto": (vllm("0.10.2", **F32), {"serve.dtype": "bfloat16", "serve.kv_cache_dtype": "bfloat16"}),
    "float32 and auto before Ampere": (vllm("0.10.2", gpu=T4, **F32), {"serve.dtype": "float16"}),
    "slots of a large GPU": (vllm("0.10.2"), {"serve.max_num_seqs": 1024, "serve.max_num_batched_tokens": 8192}),
    "slots of an A100": (vllm("0.10.2", gpu=A100), {"serve.max_num_seqs": 256, "serve.max_num_batched_tokens": 2048}),
    "slots of a small GPU": (vllm("0.10.2", gpu=L4), {"serve.max_num_seqs": 256, "serve.max_num_batched_tokens": 2048}),
    "tokens of a huge GPU since 0.28": (vllm("0.28.0", gpu=B200), {"serve.max_num_batched_tokens": 16384}),
    "tokens of a huge GPU before": (vllm("0.27.0", gpu=B200), {"serve.max_num_batched_tokens": 8192}),
    "memory before 0.20": (vllm("0.19.0"), {"serve.gpu_memory_share": 0.9}),
    "memory since 0.20": (vllm("0.20.0"), {"serve.gpu_memory_share": 0.92}),
    "false in the file": (vllm("0.10.2", "--config {home}/serve.yaml", **FILE), {"serve.enable_prefix_caching": True, "serve.seed": 7}),
    "the file by an equals sign": (vllm("0.10.2", "--config={home}/serve.yaml", **FILE), {"serve.seed": 0}),
    "the line wins over the file": (vllm("0.10.2", "--seed 3 --config {home}/serve.yaml", **FILE), {"serve.seed": 3}),
    "batch invariance by variable": (vllm("0.19.0", env={"VLLM_BATCH_INVARIANT": "1"}), {"serve.batch_invariant": True}),
    # SGLang
    "sglang: top_k left out, transformers 4": (sglang("0.5.9", files=NO_TOP_K), {"sampling.top_k": 50, "sampling.temperature": 0.6}),
    "sglang: top_k left out, transformers 5": (
        sglang("0.5.10", packages={"transformers": "5.3.0"}, files=NO_TOP_K), {"sampling.top_k": 0, "sampling.temperature": 0.6},
    ),
    "sglang: top_k of 50, transformers 4": (sglang("0.5.9", files=TOP_K), {"sampling.top_k": 50}),
    "sglang: top_k of 50, transformers 5": (sglang("0.5.10", packages={"transformers": "5.3.0"}, files=TOP_K), {"sampling.top_k": 50}),
    "sglang: before generation_config counts": (sglang("0.5.3", files=TOP_K), {"sampling.top_k": 0, "sampling.temperature": 1}),
    "sglang: generation_config not asked": (sglang("0.5.9", "--sampling-defaults openai", files=TOP_K), {"sampling.top_k": 0}),
    "sglang: completions take none": (
        sglang("0.5.9", files=TOP_K), {"sampling.completions.top_k": 0, "sampling.completions.max_tokens": 16},
    ),
    "sglang: float32 and auto": (sglang("0.5.10", **F32), {"serve.dtype": "float16", "serve.kv_cache_dtype": "float16"}),
    "sglang: float32 Gemma": (
        sglang("0.5.10", **{**F32, "config": {**F32["config"], "architectures": ["Gemma2ForCausalLM"]}}), {"serve.dtype": "bfloat16"},
    ),
    "sglang: bfloat16 before Ampere": (sglang("0.5.10", gpu=T4), {"serve.dtype": "float16"}),
    "sglang: no seed": (sglang("0.5.10"), {"serve.seed": OPEN, "serve.max_num_seqs": OPEN}),
    "sglang: a seed": (sglang("0.5.10", "--random-seed 1 --max-running-requests 4"), {"serve.seed": 1, "serve.max_num_seqs": 4}),
    "sglang: prefix caching": (sglang("0.3.6"), {"serve.enable_prefix_caching": True}),
    "sglang: prefix caching off": (sglang("0.5.10", "--disable-radix"), {"serve.enable_prefix_caching": False}),
    "sglang: deterministic on Hopper": (
        sglang("0.5.4", "--enable-deterministic-inference"),
        {"serve.attention_backend": "fa3", "serve.enable_prefix_caching": True, "serve.batch_invariant": True},
    ),
    "sglang: deterministic on Blackwell": (
        sglang("0.5.10", "--enable-deterministic-inference", gpu=B200),
        {"serve.attention_backend": "flashinfer", "serve.enable_prefix_caching": False},
    ),
    "sglang: fa3 on Hopper": (sglang("0.5.10"), {"serve.attention_backend": "fa3"}),
    "sglang: before fa3 was the default": (sglang("0.4.4", packages=FLASHINFER), {"serve.attention_backend": "flashinfer"}),
    "sglang: Blackwell": (sglang("0.5.10", gpu=B200), {"serve.attention_backend": "trtllm_mha"}),
    "sglang: Ampere with FlashInfer": (sglang("0.5.10", packages=FLASHINFER, gpu=A100), {"serve.attention_backend": "flashinfer"}),
    "sglang: Ampere without": (sglang("0.5.10", gpu=A100), {"serve.attention_backend": "triton"}),
    "sglang: chunk of a T4": (sglang("0.5.10", gpu=T4), {"serve.chunked_prefill_size": 2048}),
    "sglang: chunk of an L4": (sglang("0.5.10", gpu=L4), {"serve.chunked_prefill_size": 2048}),
    "sglang: chunk of an L4, newest": (sglang("0.5.23", gpu=L4), {"serve.chunked_prefill_size": 4096}),
    "sglang: chunk of an H100": (sglang("0.5.10"), {"serve.chunked_prefill_size": 8192}),
    "sglang: chunk of a B200": (sglang("0.5.10", gpu=B200), {"serve.chunked_prefill_size": 16384}),
    "sglang: no chunks": (sglang("0.5.10", "--chunked-prefill-size -1"), {"serve.enable_chunked_prefill": False}),
    "sglang: the file": (
        sglang("0.5.10", "--config {home}/serve.yaml --chunked-prefill-size 128", **SGLANG_FILE),
        {"serve.seed": 7, "serve.chunked_prefill_size": 128, "serve.enable_prefix_caching": True},
    ),
    "sglang: the file by an equals sign": (sglang("0.5.10", "--config={home}/serve.yaml", **SGLANG_FILE), {"serve.seed": OPEN}),
    "sglang: a variable not read yet": (sglang("0.5.10", env={"SGLANG_DEFAULT_THINKING": "1"}), {"env.SGLANG_DEFAULT_THINKING": OPEN}),
    "sglang: a variable that is read": (sglang("0.5.12", env={"SGLANG_DEFAULT_THINKING": "1"}), {"env.SGLANG_DEFAULT_THINKING": "1"}),
    "sglang: sharing the chunk": (
        sglang("0.5.10", "--tp 8 --dp 8 --enable-dp-attention", gpu={"count": "8"}), {"serve.chunked_prefill_size": 1024},
    ),
}  # fmt: skip
"""What the host is, and the values in force there."""

FAILED: Mapping[str, str] = {
    "a variable that died": "check.variables_known",
    "false in the file": "check.settings_take_effect",
    "the line wins over the file": "check.settings_take_effect",
    "the file by an equals sign": "check.settings_take_effect",
    "sglang: the file": "check.settings_take_effect",
    "sglang: the file by an equals sign": "check.settings_take_effect",
    "sglang: a variable not read yet": "check.variables_known",
}
"""Hosts on which a finding fails beside."""


def value(seen: Observation, key: str) -> Any:
    """The value of the best witness, as documents hold it; `OPEN` where there is none."""
    return next((dump(each.fact, each.value) for each in seen.readings if each.fact.key == key), OPEN)


@pytest.mark.parametrize("name", ROWS)
def test_a_raw_host_gives_the_value_in_force(place: Place, name: str) -> None:
    side, expected = ROWS[name]
    seen = place.look(msgspec.structs.replace(side, prompts=True), side.argv.partition(" ")[0])
    assert {key: value(seen, key) for key in expected} == expected
    failed = {each.name for each in seen.checks if each.status.value == "fail"}
    assert ({FAILED[name]} if name in FAILED else set()) == failed & set(FAILED.values())


def test_two_words_on_one_finding_are_both_told(place: Place) -> None:
    flags = "--config {home}/serve.yaml --attention-backend fa3 --kv-cache-dtype fp8_e5m2"
    seen = place.look(sglang("0.5.10", flags, prompts=True, **SGLANG_FILE), "sglang")
    (told,) = [each for each in seen.checks if each.name == "check.settings_take_effect"]
    assert "false is dropped" in told.detail
    assert "fa3 does not take an fp8_e5m2 cache" in told.detail
