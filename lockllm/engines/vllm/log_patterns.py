"""The messages of a vLLM start log and the facts that they state; comments say which releases print them."""

from __future__ import annotations

import re
from typing import Any

BANNER = re.compile(r"(?:^vLLM API server version |█.*\bversion )(?P<v>\d\S*)")

_OLD = (
    "Flash Attention|Flash[Ii]nfer(?: MLA)?|XFormers|Triton(?: Attention| MLA)?|FlexAttention|Torch SDPA|FlashMLA|"
    "Cutlass MLA|FlashAttention MLA|Sparse MLA|ROCmFlashAttention|Pallas(?: V1)?|Tree Attention|CPU MLA|FlexAttenion|"
    "AITER(?: TRITON)? MLA|Aiter (?:Flash|Unified) Attention|Rocm Attention|DualChunkFlashAttention|"
    "DifferentialFlashAttention|BlocksparseFlashAttention|IPEX attention"
)
ATTENTION = (
    re.compile(r"Using (?P<b>[A-Z0-9_]+) (?:attention )?backend out of potential backends: "),  # 0.12.0-, ROCm 0.19.0-
    re.compile(r"Using (?P<b>[A-Z0-9_]+) backend \(selected via --attention-backend\)\.$"),  # ROCm, 0.19.0-
    re.compile(r"Using (?:AttentionBackendEnum\.)?(?P<b>[A-Z0-9_]{5,}) backend\.$"),  # 0.11.1-
    re.compile(
        rf"Using (?!Triton backend$)(?P<b>{_OLD}) backend(?: with \w+ KV cache layout)?(?: on V1 engine)?"
        r"(?: by default for Blackwell \(SM 10\.0\) GPUs)?(?: for [^.]*)?\.?$"
    ),  # 0.6.0-0.11.0, later on other platforms; `Using Triton backend` alone speaks of MXFP4 experts
    re.compile(r"Using (?:NHD|HND) KV cache layout for (?P<b>\w+) backend\.$"),  # 0.11.1-0.28.0
    re.compile(r"VLLM_BATCH_INVARIANT is enabled and no attention backend was specified; defaulting to (?P<b>\w+)\.$"),
)
ATTENTION_NAMES = {
    "flash attention": "FLASH_ATTN",
    "flashinfer": "FLASHINFER",
    "flashinfer mla": "FLASHINFER_MLA",
    "triton": "TRITON_ATTN",
    "triton attention": "TRITON_ATTN",
    "triton mla": "TRITON_MLA",
    "flexattention": "FLEX_ATTENTION",
    "xformers": "XFORMERS",
    "torch sdpa": "TORCH_SDPA",
    "flashmla": "FLASHMLA",
    "cutlass mla": "CUTLASS_MLA",
    "flashattention mla": "FLASH_ATTN_MLA",
    "rocmflashattention": "ROCM_FLASH",
    "tree attention": "TREE_ATTN",
    "aiter mla": "ROCM_AITER_MLA",
    "aiter triton mla": "ROCM_AITER_TRITON_MLA",
    "aiter flash attention": "ROCM_AITER_FA",
    "aiter unified attention": "ROCM_AITER_UNIFIED_ATTN",
    "rocm attention": "ROCM_ATTN",
    "flexattenion": "FLEX_ATTENTION",
    "dualchunkflashattention": "DUAL_CHUNK_FLASH_ATTN",
    "differentialflashattention": "DIFFERENTIAL_FLASH_ATTN",
    "blocksparseflashattention": "BLOCK_SPARSE_FLASH_ATTN",
    "ipex attention": "IPEX",
    "pallas": "PALLAS",
    "pallas v1": "PALLAS",
}

_MOE = r"(?:FP8|Fp8|NvFp4|Mxfp4|MxFp8|WNA16|Int8|W4A8(?: Int8)?|Unquantized)"
_LINEAR = (
    r"(?:(?:GPTQMarlin|AWQMarlin|AutoGPTQ|AutoAWQMarlin|GPTQBitBLAS)LinearMethod|CompressedTensors\w+|QuarkW8A8Int8|"
    r"(?:NVFP4|MXFP4|MXFP6|MXFP8) GEMM|mixed-precision linear)"
)


def _keyed(*rows: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((key, re.compile(pattern)) for key, pattern in rows)


FIRST = _keyed(
    ("checkpoint.architecture", r"Resolved architecture: (?P<v>\w+)$"),
    ("kernels.all_reduce", r"Using (?P<v>\[.*?\]) all-reduce backends \(in dispatch order\) for group 'tp"),
)
"""Lines whose first occurrence speaks of the target model."""
LAST = _keyed(
    ("serve.max_model_len", r"Using max model len (?P<v>\d+)$"),
    ("serve.max_num_batched_tokens", r"Chunked prefill is enabled with max_num_batched_tokens=(?P<v>\d+)\.$"),
    ("kernels.mla_prefill_backend", r"Using (?P<v>\w+) MLA prefill backend\.$"),
    ("kernels.flash_attn_version", r"Using FlashAttention version (?P<v>\d)$"),
    ("serve.kv_cache_layout", r"Using (?P<v>NHD|HND) KV cache layout for \w+ backend\.$"),
    ("serve.kv_cache_layout", r"Using (?P<v>[A-Z]{5}) KV cache layout\.$"),
    (
        "kernels.moe_backend",
        rf"Using (?P<v>[\w .]+?) (?:backend for {_MOE} MoE|kernels for Fp8MoEMethod\.)",
    ),
    (
        "kernels.moe_backend",
        rf"Using '?(?P<v>[\w ]+?)'? {_MOE} MoE backend",
    ),
    ("kernels.moe_backend", r"Using (?P<v>Marlin|Triton|FlashInfer MXFP4 \w+(?: \w+)?) backend(?: for SM\d+.*)?$"),
    ("kernels.moe_backend", r"Using (?P<v>FlashInfer FP8 MoE \w+) backend for SM"),  # 0.11.1-0.13.0
    ("kernels.moe_backend", r"Using (?P<v>FlashInfer[\w -]*) kernels(?: for (?:CompressedTensors|ModelOpt)\w+)?\.$"),
    (
        "kernels.moe_backend",
        r"Using (?P<v>Cutlass|Marlin) for (?:CompressedTensorsW4A4Nvfp4MoEMethod|ModelOptNvFp4FusedMoE)",
    ),
    ("kernels.moe_backend", r"Using (?P<v>CompressedTensors\w+MoEMethod)\b"),
    ("kernels.moe_config", r"Using configuration from (?P<v>\S+) for MoE layer\.$"),
    ("kernels.quant_kernel", rf"Using (?P<v>\w+) for {_LINEAR}$"),
    ("kernels.quant_kernel", r"Using (?P<v>flashinfer-\w+) for FP4$"),  # 0.11.0
    ("kernels.quant_kernel", r"Selected (?P<v>\w+) for \w+$"),
    ("serve.max_num_batched_tokens", r"Setting max_num_batched_tokens to (?P<v>\d+) for \w+ usage context\.$"),
    ("serve.quantization", r".*is convertible to (?P<v>\w+) during runtime\. Using"),
    ("serve.kv_cache_dtype", r"Using (?P<v>fp8\w*) data type to store kv cache\."),
    ("cuda.nccl", r"vLLM is using nccl==(?P<v>[\d.]+)$"),
    ("serve.world_size", r"rank \d+ in world size (?P<v>\d+) is assigned as DP rank"),
    ("serve.kv_cache_blocks", r"# (?:GPU|CPU|cpu|\w+) blocks: (?P<v>\d+)(?:, # CPU blocks: \d+)?$"),
    ("serve.kv_cache_tokens", r"(?:[\w +]+ )?KV cache size: (?P<v>[\d,]+) tokens"),
    ("chat_template.content_format", r"Detected the chat template content format to be '(?P<v>\w+)'\."),
)
SAID: tuple[tuple[str, re.Pattern[str], Any], ...] = tuple(
    (key, re.compile(pattern), said)
    for key, pattern, said in (
        ("serve.enable_chunked_prefill", r"Chunked prefill is enabled with max_num_batched_tokens=\d+\.$", True),
        ("serve.enable_prefix_caching", r"Automatic prefix caching is enabled\.$", True),
        ("kernels.sampler", r"Using FlashInfer for top-p & top-k sampling\.$", "flashinfer"),
        (
            "kernels.sampler",
            r".*Falling back to the PyTorch-native implementation of top-p",
            "pytorch",
        ),
        ("kernels.sampler", r"FlashInfer top-p/top-k sampling (?:disabled via|unavailable|not supported)", "pytorch"),
        ("kernels.kv_scale", r"Using KV cache scaling factor 1\.0 for fp8_e4m3\.", 1.0),
        ("kernels.moe_config", r"Using default MoE config\.", "default"),
        ("kernels.custom_all_reduce", r"Custom allreduce is disabled (?:because|due)", False),
        ("serve.enforce_eager", r"(?:Cudagraph is disabled under eager mode|Enforce eager set, )", True),
        ("serve.cuda_graphs", r"Graph capturing finished in \d+ secs", True),
        ("serve.async_scheduling", r"Asynchronous scheduling is enabled\.$", True),
        ("serve.async_scheduling", r"Asynchronous scheduling is disabled\.$", False),
        ("kernels.model_runner", r"Using V2 Model Runner$", "v2"),
        ("kernels.model_runner", r"Model [Rr]unner [Vv]2 .*; using the [Vv]1 model runner instead\.$", "v1"),
        ("chat_template.source", r"Using supplied chat template:", "flag"),
        ("serve.batch_invariant", r"VLLM_BATCH_INVARIANT is enabled and no attention backend was specified", True),
        ("serve.batch_invariant", r"Disabling prefix caching for .* with batch invariance", True),
        ("serve.enable_prefix_caching", r"Disabling prefix caching for .* with batch invariance", False),
    )
)
"""Facts that a line states by being there."""
AFTER = _keyed(
    ("serve.max_model_len", r"Auto-fit max_model_len: reduced from \d+ to (?P<v>\d+) to fit"),
    ("serve.max_model_len", r"Auto-fit max_model_len: full model context length (?P<v>\d+) fits"),
    ("serve.max_model_len", r"Auto-fit max_model_len: attention-free model, using derived max_model_len=(?P<v>\d+)"),
)
"""What the engine settles once the model is loaded: it outranks the dump (0.14.0 and later)."""
OFF = _keyed(
    ("serve.enable_prefix_caching", r"Disabling prefix caching: model has non-causal attention layers\."),
    ("serve.enable_chunked_prefill", r"Disabling chunked prefill: model has non-causal attention layers\."),
    ("serve.enable_chunked_prefill", r"Disabling chunked prefill for model without KVCache"),
)
"""What it switches off by then, whatever the dump says."""
