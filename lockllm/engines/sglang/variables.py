"""SGLang's own variables that change results (`srt/environ.py`), with the first release that reads each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lockllm.engines._collect import Collect
from lockllm.engines._releases import beyond
from lockllm.engines._variables import is_common
from lockllm.facts.env import is_secret
from lockllm.facts.observation import CheckStatus

READ_SINCE = {
    "0.3.4": "SGLANG_USE_MODELSCOPE SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION",
    "0.4.2": "SGLANG_MOE_PADDING SGLANG_INT4_WEIGHT SGLANG_SUPPORT_CUTLASS_BLOCK_FP8 SGLANG_EXTERNAL_MODEL_PACKAGE",
    "0.4.8": "SGLANG_USE_AITER SGLANG_CUTLASS_MOE USE_TRITON_W8A8_FP8_KERNEL SGLANG_CHUNKED_PREFIX_CACHE_THRESHOLD",
    "0.5.2": "SGLANG_MAMBA_CONV_DTYPE SGLANG_MAMBA_SSM_DTYPE",
    "0.5.3": (
        "SGLANG_ENABLE_DETERMINISTIC_INFERENCE SGLANG_FLASHINFER_PREFILL_SPLIT_TILE_SIZE "
        "SGLANG_FLASHINFER_DECODE_SPLIT_TILE_SIZE SGLANG_TRITON_PREFILL_TRUNCATION_ALIGN_SIZE "
        "SGLANG_TRITON_DECODE_SPLIT_TILE_SIZE SGLANG_ENABLE_JIT_DEEPGEMM SGLANG_USE_DEEPGEMM_BMM "
        "SGLANG_DG_USE_NVRTC SGLANG_MOE_CONFIG_DIR SGLANG_RETURN_ORIGINAL_LOGPROB SGLANG_SYNC_TOKEN_IDS_ACROSS_TP "
        "SGLANG_DEEPEP_BF16_DISPATCH SGLANG_ENABLE_FLASHINFER_FP8_GEMM SGLANG_PLUGINS"
    ),
    "0.4.6": "SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS",
    "0.5.4": (
        "SGLANG_PATCH_TOKENIZER SGLANG_IMAGE_MAX_PIXELS SGLANG_RESIZE_RESAMPLE VIDEO_MAX_PIXELS SGLANG_FORCE_FP8_MARLIN"
    ),
    "0.5.5": "SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_DEEPGEMM SGLANG_FORWARD_UNKNOWN_TOOLS SGLANG_TOOL_STRICT_LEVEL",
    "0.5.6": "SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT",
    "0.5.7": "SGLANG_USE_1STAGE_ALLREDUCE",
    "0.5.12": (
        "SGLANG_DEFAULT_THINKING SGLANG_MAX_THINK_TOKENS SGLANG_DSV4_REASONING_EFFORT "
        "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2 SGLANG_FORCE_FUSED_OP_BACKEND SGLANG_USE_SGL_FA3_KERNEL "
        "SGLANG_HACK_FLASHMLA_BACKEND SGLANG_ENABLE_DP_GATHER_FP8 SGLANG_DISABLED_MODEL_ARCHS "
        "SGLANG_MAX_NEW_TOKENS_LIMIT SGLANG_SPEC_TP_SYNC SGLANG_ROPE_CACHE_FP32"
    ),
    "0.5.14": (
        "SGLANG_DSA_TOPK_FLASHINFER_DETERMINISTIC SGLANG_DSA_TOPK_FLASHINFER_TIE_BREAK SGLANG_SANITIZE_NAN_LOGITS"
    ),
    "0.5.16": "SGLANG_PLATFORM SGLANG_ENABLE_BF16_SPLITK_GEMM SGLANG_OPT_BF16_FP32_GEMM_ALGO SGLANG_RUST_SERVER",
    "0.5.18": "SGLANG_DETERMINISTIC_NCCL_NCHANNELS SGLANG_ENABLE_FP8_GEMM_CONFIG_TUNE SGLANG_OPT_MOE_QUANT_ONCE",
    "0.5.20": (
        "SGLANG_FLASHINFER_MOE_FUSED_FINALIZE SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE "
        "SGLANG_FLASHINFER_MEGAMOE_IN_KERNEL_FC2_REDUCE SGLANG_ENABLE_PCIE_IPC_ALLREDUCE "
        "SGLANG_M3_ALLOW_CUSTOM_AR SGLANG_TRITON_FP8_PREFILL_ATTN SGLANG_TRITON_DENSE_PREFILL_ATTN "
        "SGLANG_DSV4_COMPRESS_STATE_DTYPE SGLANG_DSV4_FP4_DEQUANT SGLANG_DSV4_FP4_EXPERTS "
        "SGLANG_HUMMING_ONLINE_QUANT_CONFIG SGLANG_DSV41_REASONING_EFFORT SGLANG_INKLING_DEFAULT_REASONING_EFFORT "
        "SGLANG_MM_AVOID_RETOKENIZE SGLANG_ENABLE_LILICORR_SAMPLING"
    ),
    "0.5.23": "SGLANG_LORA_MOE_CONFIG_DIR",
}
"""The first release read that has them -> names."""

READ_UNTIL = {
    "SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS": "0.4.6",
    "SGLANG_CUTLASS_MOE": "0.5.20",
    "SGLANG_SUPPORT_CUTLASS_BLOCK_FP8": "0.5.9",
    "SGLANG_ENABLE_FLASHINFER_FP8_GEMM": "0.5.9",
}
"""The last release read that has it."""

_FALSIFY = re.compile(
    r"SGLANG_(SIMULATE_|TEST_|KV_CANARY_PERTURB_)\w+|SGLANG_(DEBUG_REVERT_PR|RADIX_FORCE_MISS|DEBUG_POISON_POOL)"
)
_FAMILIES = re.compile(r"SGLANG_(AITER|ROCM|PREFILL)_\w+|SGLANG_INIT_NEW_TOKEN_RATIO")
_FOLDERS = frozenset({"SGLANG_MOE_CONFIG_DIR", "SGLANG_LORA_MOE_CONFIG_DIR"})
FIRST = {name: since for since, names in READ_SINCE.items() for name in names.split()}


def variables(told: Collect, env: Mapping[str, str], version: str | None) -> None:
    """The variables that change results; those that falsify outputs or that this release does not read are findings."""
    for name in sorted(env):
        if is_common(name):
            told.variable(name, env[name])
        elif is_secret(name):
            if name in ("SGLANG_API_KEY", "EXA_API_KEY"):
                told.secret(env[name])
        elif _FALSIFY.fullmatch(name):
            told.finding(
                "check.settings_take_effect", CheckStatus.FAIL, f"{name} falsifies results or undoes a fix",
                f"variable {name}", f"unset {name}",
            )  # fmt: skip
        elif (name in FIRST or _FAMILIES.fullmatch(name)) and not _dead(told, name, version) and name not in _FOLDERS:
            told.variable(name, env[name])


def _dead(told: Collect, name: str, version: str | None) -> bool:
    last = READ_UNTIL.get(name)
    if last is None or not beyond(version, last):
        return False
    told.finding(
        "check.variables_known", CheckStatus.FAIL,
        f"{name} is set, but sglang {version} does not read it (last: {last})", f"variable {name}", f"unset {name}",
    )  # fmt: skip
    return True
