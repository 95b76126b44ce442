"""The variables of vLLM that change results, the releases that read them, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from lockllm.engines._releases import at_least, spans
from lockllm.engines._variables import is_common
from lockllm.engines.vllm.options import READ, is_read
from lockllm.engines.vllm.variable_rows import ROWS
from lockllm.facts.env import is_secret
from lockllm.facts.observation import By, Check, CheckStatus, Reading
from lockllm.facts.registry import seen

_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP).*)?\Z")
"""What Kubernetes sets for a service that is named after the engine."""
BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
ATTENTION_BACKEND = "VLLM_ATTENTION_BACKEND"
_OUTSIDE = {
    BATCH_INVARIANT: ("0.11.1", ""),
    "VLLM_CUSTOM_ALLREDUCE_ALGO": ("0.10.2", ""),
}
"""Read outside the environment table, from these releases on."""

NUMERICS = frozenset(
    """
    VLLM_FLOAT32_MATMUL_PRECISION VLLM_ATTENTION_BACKEND VLLM_FLASH_ATTN_VERSION VLLM_USE_TRITON_FLASH_ATTN
    VLLM_FLASHINFER_FORCE_TENSOR_CORES VLLM_USE_CUDNN_PREFILL VLLM_DISABLE_FLASHINFER_PREFILL VLLM_USE_TRTLLM_ATTENTION
    VLLM_USE_TRTLLM_DECODE_ATTENTION VLLM_USE_TRTLLM_RAGGED_DEEPSEEK_PREFILL VLLM_FLASHINFER_DISABLE_Q_QUANTIZATION
    VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH VLLM_V1_USE_PREFILL_DECODE_ATTENTION VLLM_MLA_DISABLE
    VLLM_TRITON_USE_TD
    VLLM_USE_AITER_UNIFIED_ATTENTION VLLM_USE_FLASHINFER_SAMPLER VLLM_XPU_USE_SAMPLER_KERNEL VLLM_USE_DEEP_GEMM
    VLLM_MOE_USE_DEEP_GEMM VLLM_USE_DEEP_GEMM_E8M0 VLLM_USE_DEEP_GEMM_TMA_ALIGNED_SCALES
    VLLM_BLOCKSCALE_FP8_GEMM_FLASHINFER VLLM_USE_FLASHINFER_MOE_FP16 VLLM_USE_FLASHINFER_MOE_FP8
    VLLM_USE_FLASHINFER_MOE_FP4 VLLM_USE_FLASHINFER_MOE_INT4 VLLM_USE_FLASHINFER_MOE_MXFP4_BF16
    VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8 VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS VLLM_FLASHINFER_MOE_BACKEND
    VLLM_FLASHINFER_MOE_A2A_LOW_PRECISION_COMBINE VLLM_MXFP4_USE_MARLIN VLLM_NVFP4_GEMM_BACKEND
    VLLM_USE_NVFP4_CT_EMULATIONS VLLM_USE_FBGEMM VLLM_B12X_MOE_FP4_FORCE_A16 VLLM_MARLIN_USE_ATOMIC_ADD
    VLLM_MARLIN_INPUT_DTYPE VLLM_TEST_FORCE_FP8_MARLIN VLLM_HUMMING_ONLINE_QUANT_CONFIG VLLM_HUMMING_INPUT_QUANT_CONFIG
    VLLM_HUMMING_USE_F16_ACCUM VLLM_HUMMING_MOE_GEMM_TYPE VLLM_USE_TRITON_AWQ VLLM_DISABLED_KERNELS
    VLLM_FUSED_MOE_CHUNK_SIZE VLLM_ENABLE_FUSED_MOE_ACTIVATION_CHUNKING VLLM_USE_FUSED_MOE_GROUPED_TOPK
    VLLM_TRITON_FORCE_FIRST_CONFIG VLLM_ENABLE_INDUCTOR_MAX_AUTOTUNE VLLM_ENABLE_INDUCTOR_COORDINATE_DESCENT_TUNING
    VLLM_USE_STANDALONE_COMPILE VLLM_USE_AOT_COMPILE VLLM_ALLREDUCE_USE_SYMM_MEM VLLM_ALLREDUCE_USE_FLASHINFER
    VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC VLLM_FLASHINFER_ALLREDUCE_BACKEND VLLM_USE_NCCL_SYMM_MEM VLLM_DISABLE_PYNCCL
    VLLM_SKIP_P2P_CHECK VLLM_KV_CACHE_LAYOUT VLLM_USE_V1 VLLM_USE_V2_MODEL_RUNNER VLLM_USE_OINK_OPS VLLM_ENABLE_HPC_OPS
    VLLM_DEEPEPLL_NVFP4_DISPATCH VLLM_DEEPEP_V2_ALLOW_MULTIPLE_REDUCTION VLLM_MOE_ROUTING_SIMULATION_STRATEGY
    VLLM_CPU_INT4_W4A8 VLLM_CPU_ATTN_SPLIT_KV VLLM_CPU_SGL_KERNEL VLLM_MXFP4_EMULATION_DEQUANT_AT_LOAD
    VLLM_MXFP8_EMULATION_DEQUANT_AT_LOAD VLLM_ROCM_USE_AITER VLLM_ROCM_USE_SKINNY_GEMM VLLM_ROCM_CUSTOM_PAGED_ATTN
    VLLM_ROCM_FP8_MFMA_PAGE_ATTN VLLM_ROCM_FP8_PADDING VLLM_ROCM_MOE_PADDING VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT
    VLLM_ROCM_QUICK_REDUCE_QUANTIZATION VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16
    VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB
    VLLM_XPU_INC_WNA16_BACKEND Q_SCALE_CONSTANT K_SCALE_CONSTANT V_SCALE_CONSTANT VLLM_GDN_DECODE_KERNEL
    VLLM_USE_BREAKABLE_CUDAGRAPH VLLM_CUSTOM_ALLREDUCE_ALGO VLLM_BATCH_INVARIANT
    """.split()
)
OTHERS = frozenset(
    """
    VLLM_SYSTEM_START_DATE VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS VLLM_USE_FASTOKENS VLLM_VIDEO_LOADER_BACKEND
    VLLM_ENFORCE_STRICT_TOOL_CALLING VLLM_TOOL_JSON_ERROR_AUTOMATIC_RETRY VLLM_USE_EXPERIMENTAL_PARSER_CONTEXT
    VLLM_USE_MODELSCOPE VLLM_PLUGINS VLLM_TARGET_DEVICE VLLM_MAIN_CUDA_VERSION VLLM_ALLOW_LONG_MAX_MODEL_LEN
    VLLM_ALLOW_RUNTIME_LORA_UPDATING VLLM_LORA_RESOLVER_HF_REPO_LIST VLLM_TEST_FORCE_LOAD_FORMAT
    VLLM_SKIP_MODEL_NAME_VALIDATION VLLM_ENABLE_CUDA_COMPATIBILITY VLLM_USE_RUST_FRONTEND VLLM_ENABLE_V1_MULTIPROCESSING
    VLLM_PP_LAYER_PARTITION VLLM_CPU_KVCACHE_SPACE VLLM_CPU_OMP_THREADS_BIND VLLM_MOE_DP_CHUNK_SIZE
    VLLM_ENABLE_STARTUP_PLAN VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS VLLM_DISABLE_SHARED_EXPERTS_STREAM
    VLLM_USE_SIMPLE_KV_OFFLOAD VLLM_PREFIX_CACHE_RETENTION_INTERVAL VLLM_DISABLE_COMPILE_CACHE VLLM_DP_SIZE
    """.split()
)
"""Variables of the classes prompt, identity and scheduling."""
PATHS = frozenset({"VLLM_TUNED_CONFIG_FOLDER", "VLLM_MODEL_REDIRECT_PATH"})
"""Variables that name files whose content decides."""
SECRET = frozenset({"VLLM_API_KEY", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"})
FALSIFYING = {
    "VLLM_MOE_ROUTING_SIMULATION_STRATEGY": "it fakes expert routing",
    "VLLM_TEST_FORCE_LOAD_FORMAT": "it loads weights in a format for tests",
    "TRITON_INTERPRET": "kernels run in Python",
}
"""Variables that a server in production must not have, and why."""
REPLACED = {
    ATTENTION_BACKEND: "pass --attention-backend instead",
    "VLLM_FLASH_ATTN_VERSION": "pass --attention-config.flash_attn_version instead",
    "VLLM_USE_V1": "unset it; only the V1 engine is left",
    "VLLM_USE_FLASHINFER_MOE_FP16": "pass --moe-backend instead",
    "VLLM_USE_FLASHINFER_MOE_FP8": "pass --moe-backend instead",
    "VLLM_USE_FLASHINFER_MOE_FP4": "pass --moe-backend instead",
    "VLLM_FLASHINFER_MOE_BACKEND": "pass --moe-backend instead",
    "VLLM_MXFP4_USE_MARLIN": "pass --moe-backend instead",
    "VLLM_NVFP4_GEMM_BACKEND": "pass --linear-backend instead",
}
"""What to do instead of setting a variable that later releases no longer read."""


@lru_cache(maxsize=1)
def history() -> dict[str, tuple[str, str]]:
    """Every variable that some release reads -> first and last release; `""`: still there."""
    return {**{name: (first, last) for name, first, last in ROWS}, **_OUTSIDE}


def reads(name: str, version: str | None) -> bool | None:
    """Whether that version reads the variable; None where it cannot be told."""
    if version is None or not is_read(version):
        return None
    span = history().get(name)
    return span is not None and spans(*span, version, READ)


def matters(name: str) -> bool:
    """Whether results depend on a variable of vLLM's own."""
    if is_secret(name) or name in SECRET or name in PATHS:
        return False
    return name in NUMERICS or name in OTHERS or name.startswith("VLLM_ROCM_USE_AITER_")


def readings(env: Mapping[str, str], version: str | None, by: By) -> Iterable[Reading]:
    """The variables that count, and the facts that they decide. One that this version does not read is no fact."""
    for name in sorted(env):
        own = matters(name)
        if (own and reads(name, version) is not False) or (not own and is_common(name)):
            yield seen(("env", name), env[name], f"variable {name}", by)
    word = env.get(BATCH_INVARIANT)
    if word is not None and reads(BATCH_INVARIANT, version) is not False and (truth := number_truth(word)) is not None:
        yield seen("serve.batch_invariant", truth, f"variable {BATCH_INVARIANT}", by)
    backend = env.get(ATTENTION_BACKEND)
    if backend and reads(ATTENTION_BACKEND, version):
        yield seen("serve.attention_backend", backend, f"variable {ATTENTION_BACKEND}", by)


def number_truth(text: str) -> bool | None:
    """`bool(int(text))`, as vLLM reads its switches; None where that fails."""
    try:
        return bool(int(text)) if len(text) < 20 else None
    except ValueError:
        return None


def secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables that must appear nowhere."""
    return tuple(value for name, value in env.items() if value and (is_secret(name) or name in SECRET))


def checks(env: Mapping[str, str], version: str | None) -> Iterable[Check]:
    """Set variables that this version does not read, and those that falsify results."""
    mine = sorted(
        name for name in env if name.startswith("VLLM_") and not is_secret(name) and not _SERVICE.search(name)
    )
    if version is not None and mine:
        if not is_read(version):
            yield Check(
                "check.variables_known",
                CheckStatus.UNKNOWN,
                f"the variables of vLLM {version} are not known to this release",
                mend="use a newer lockllm",
            )
        else:
            yield _known(mine, version)
    for name, why in FALSIFYING.items():
        if env.get(name) not in (None, "", "0"):
            yield Check(
                "check.settings_take_effect",
                CheckStatus.FAIL,
                f"{name} is set: {why}",
                f"variable {name}",
                f"unset {name}",
            )
    word = env.get(BATCH_INVARIANT)
    if word and number_truth(word) is None and at_least(version, "0.11.1"):
        yield Check(
            "check.settings_take_effect",
            CheckStatus.FAIL,
            f"{BATCH_INVARIANT} is {word!r}, and vLLM reads a number",
            f"variable {BATCH_INVARIANT}",
            f"set {BATCH_INVARIANT}=1",
        )


def _known(names: list[str], version: str) -> Check:
    dead = [name for name in names if reads(name, version) is False]
    if not dead:
        return Check(
            "check.variables_known", CheckStatus.PASS, f"vLLM {version} reads every VLLM_ variable that is set"
        )
    told = []
    for name in dead:
        span = history().get(name)
        told.append(f"{name} (last read by {span[1]})" if span and span[1] else f"{name} (no release has it)"
                    if span is None else f"{name} (read since {span[0]})")  # fmt: skip
    mend = next((REPLACED[name] for name in dead if name in REPLACED), "unset " + ", ".join(dead))
    return Check(
        "check.variables_known",
        CheckStatus.FAIL,
        f"set, but vLLM {version} does not read: {', '.join(told)}",
        f"variable {dead[0]}",
        mend,
    )
