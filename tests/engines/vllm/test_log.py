"""vLLM start logs: those that really ran, those written after the messages of a release, and what collectors make of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.vllm.material import DATA, VLLM, facts

LOGS = sorted((DATA / "logs").glob("*.log"))


def expected(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(log.with_suffix(".expected.json").read_text())
    return found


def same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool) and isinstance(found, (int, float)):
        return abs(wanted - found) <= 1e-6 * max(1.0, abs(wanted))
    if wanted is None:
        return found in (None, "absent")
    return bool(wanted == found) or (isinstance(found, (str, int, float)) and str(wanted).lower() == str(found).lower())


def check(log: Path, lines: list[str]) -> None:
    found = facts(VLLM.from_log(lines))
    case = expected(log)
    assert {key: found.get(key) for key, wanted in case["facts"].items() if not same(wanted, found.get(key))} == {}
    assert [key for key in case["unknown"] if found.get(key) is not None] == []
    told = str(list(VLLM.from_log(lines)))
    assert [secret for secret in case["secrets"] if secret in told] == []


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_a_log_shows_what_it_states_and_nothing_else(log: Path) -> None:
    check(log, log.read_text().splitlines())


WRAPPERS: list[Callable[[str], str]] = [
    lambda line: f"vllm-1  | {line}",
    lambda line: f"2026-01-02T03:04:05.678901234Z stdout F {line}",
    lambda line: f"Nov 10 17:37:37 host vllm[123]: {line}",
    lambda line: f"\x1b[1;36m{line}\x1b[0m",
    lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-01-02T03:04:05Z"}).replace(
        ": ", ":", 1
    ),
]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=["compose", "cri", "journald", "ansi", "docker"])
@pytest.mark.parametrize("log", LOGS[::4], ids=[log.stem for log in LOGS[::4]])
def test_a_collector_changes_nothing(log: Path, wrap: Callable[[str], str]) -> None:
    check(log, [wrap(line) for line in log.read_text().splitlines()])


@pytest.mark.parametrize("log", LOGS[::3], ids=[log.stem for log in LOGS[::3]])
def test_the_last_start_counts(log: Path) -> None:
    lines = log.read_text().splitlines()
    check(log, [*(LOGS[0].read_text().splitlines()), *lines] if LOGS[0] != log else [*lines, *lines])


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_half_a_log_states_less_and_nothing_wrong(log: Path) -> None:
    lines = log.read_text().splitlines()
    found = facts(VLLM.from_log(lines[: len(lines) // 2]))
    wanted = expected(log)["facts"]
    lines_after = {"serve.enable_prefix_caching", "serve.async_scheduling", "serve.max_num_batched_tokens"}
    wrong = {key for key in found if key in wanted and not same(wanted[key], found[key])}
    assert wrong <= lines_after


def test_a_log_of_json_records_says_the_same() -> None:
    log = DATA / "logs" / "vllm-0.32.0-1.log"
    told = re.compile(r"(?:\((?P<who>\S+) pid=\d+\) )?(?:INFO|WARNING) \S+ \S+ \[\S+\] (?P<text>.*)")
    records = []
    for line in log.read_text().splitlines():
        found = told.match(line)
        who, text = (found["who"] or "", found["text"]) if found else ("", line)
        records.append(json.dumps({"levelname": "INFO", "processName": who, "message": text}))
    check(log, records)


DUMP = (
    "INFO 01-02 03:04:05 [core.py:93] Initializing a V1 LLM engine (v0.20.2) with config: model='m', dtype=torch.bfloat16, "
    "max_seq_len=40960, kv_cache_dtype=auto, enable_prefix_caching=True, enable_chunked_prefill=True"
)
LINES: list[tuple[str, str, Any]] = [  # one message of every pattern, as some release prints it
    ("Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].", "serve.attention_backend", "FLASH_ATTN"),
    ("Using ROCM_ATTN backend out of potential backends: ['ROCM_ATTN'].", "serve.attention_backend", "ROCM_ATTN"),
    ("Using TRITON_ATTN backend (selected via --attention-backend).", "serve.attention_backend", "TRITON_ATTN"),
    ("Using AttentionBackendEnum.FLASHINFER backend.", "serve.attention_backend", "FLASHINFER"),
    ("Using Flash Attention backend on V1 engine.", "serve.attention_backend", "FLASH_ATTN"),
    ("Using FlashInfer backend with HND KV cache layout on V1 engine by default for Blackwell (SM 10.0) GPUs.",
     "serve.attention_backend", "FLASHINFER"),
    ("Using FlexAttention backend for head_size=192 on V1 engine.", "serve.attention_backend", "FLEX_ATTENTION"),
    ("Using XFormers backend.", "serve.attention_backend", "XFORMERS"),
    ("Using Aiter Unified Attention backend.", "serve.attention_backend", "ROCM_AITER_UNIFIED_ATTN"),
    ("Using DualChunkFlashAttention backend.", "serve.attention_backend", "DUAL_CHUNK_FLASH_ATTN"),
    ("Using Triton backend", "kernels.moe_backend", "Triton"),
    ("Using HND KV cache layout for FLASHINFER backend.", "serve.kv_cache_layout", "HND"),
    ("Using FLASHMLA MLA prefill backend.", "kernels.mla_prefill_backend", "FLASHMLA"),
    ("Using FlashAttention version 3", "kernels.flash_attn_version", 3),
    ("Using FlashInfer for top-p & top-k sampling.", "kernels.sampler", "flashinfer"),
    ("FlashInfer top-p/top-k sampling disabled via VLLM_USE_FLASHINFER_SAMPLER=0.", "kernels.sampler", "pytorch"),
    ("Using FlashInfer CUTLASS backend for FP8 MoE", "kernels.moe_backend", "FlashInfer CUTLASS"),
    ("Using TRITON Unquantized MoE backend out of potential backends: ['TRITON'].", "kernels.moe_backend", "TRITON"),
    ("Using 'MARLIN' Mxfp4 MoE backend.", "kernels.moe_backend", "MARLIN"),
    ("Using HUMMING W4A8 MoE backend.", "kernels.moe_backend", "HUMMING"),
    ("Using FlashInfer FP8 MoE TRTLLM backend for SM100", "kernels.moe_backend", "FlashInfer FP8 MoE TRTLLM"),
    ("Using FlashInfer CUTLASS kernels for ModelOptNvFp4FusedMoE.", "kernels.moe_backend", "FlashInfer CUTLASS"),
    ("Using Cutlass for ModelOptNvFp4FusedMoE.", "kernels.moe_backend", "Cutlass"),
    ("Using default MoE config. Performance might be sub-optimal! Config file not found at ['/x.json']", "kernels.moe_config", "default"),
    ("Using MarlinLinearKernel for GPTQMarlinLinearMethod", "kernels.quant_kernel", "MarlinLinearKernel"),
    ("Selected CutlassFP8ScaledMMLinearKernel for Fp8LinearMethod", "kernels.quant_kernel", "CutlassFP8ScaledMMLinearKernel"),
    ("Using flashinfer-cutlass for FP4", "kernels.quant_kernel", "flashinfer-cutlass"),
    ("vLLM is using nccl==2.27.5", "cuda.nccl", "2.27.5"),
    ("Custom allreduce is disabled because your platform lacks GPU P2P capability", "kernels.custom_all_reduce", False),
    ("Setting max_num_batched_tokens to 8192 for OPENAI_API_SERVER usage context.", "serve.max_num_batched_tokens", 8192),
    ("Auto-fit max_model_len: reduced from 40960 to 16384 to fit in available GPU memory (3.2 GiB available for KV cache)",
     "serve.max_model_len", 16384),
    ("Auto-fit max_model_len: full model context length 40960 fits in available GPU memory", "serve.max_model_len", 40960),
    ("Using max model len 8192", "serve.max_model_len", 40960),  # of a draft: the dump is the engine's own word
    ("Disabling prefix caching: model has non-causal attention layers.", "serve.enable_prefix_caching", False),
    ("Disabling chunked prefill for model without KVCache", "serve.enable_chunked_prefill", False),
    ("Asynchronous scheduling is enabled.", "serve.async_scheduling", True),
    ("Using V2 Model Runner", "kernels.model_runner", "v2"),
    ("Resolved architecture: Qwen3ForCausalLM", "checkpoint.architecture", "Qwen3ForCausalLM"),
    ("GPU KV cache size: 1,823,372 tokens", "serve.kv_cache_tokens", 1823372),
    ("Detected the chat template content format to be 'string'. You can set", "chat_template.content_format", "string"),
]  # fmt: skip


@pytest.mark.parametrize("text, key, wanted", LINES, ids=[row[0][:50] for row in LINES])
def test_a_message_states_its_fact(text: str, key: str, wanted: Any) -> None:
    found = facts(VLLM.from_log([DUMP, f"(EngineCore_DP0 pid=7) INFO 01-02 03:04:06 [x.py:1] {text}"]))
    assert same(wanted, found[key])


@pytest.mark.parametrize("lines", [[], [""], ["x" * 1_000_000], ["non-default args: {" * 3], ["args: Namespace(" + "(" * 100_000 + ")"],
                                   ["Initializing a V1 LLM engine (v9) with config: a=[[[, b='x"], ["\x1b[", "\ud800"]])  # fmt: skip
def test_no_log_is_too_odd_to_be_read(lines: list[str]) -> None:
    list(VLLM.from_log(lines))
