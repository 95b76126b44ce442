"""vLLM's rules for context length, batch limits, prefix caching and chunked prefill.

Read from `engine/arg_utils.py`, `config.py` and `config/model.py` of 0.6.0 to 0.33.0.
"""

from __future__ import annotations

from typing import Any

from lockllm.engines.kernel import gpu
from lockllm.engines.vllm.case import Case, Unknown

_NO_KIND = Unknown(
    "it depends on what the model does, which its architecture does not tell", "set it on the command line"
)
_NO_ENGINE = Unknown("whether the V0 or the V1 engine runs cannot be told", "set it on the command line")
_NO_GPU = Unknown("it depends on the GPU, which is not known", "name host.gpu in llm.toml, or observe on the host")
_FITS = "what fits in memory decides"


def max_model_len(now: Case) -> Any:
    """The checkpoint's context, scaled by RoPE as that release does it."""
    if ("serve", "max_model_len") in now.auto:
        return Unknown(_FITS, "observe the running server")
    if not now.looked:
        return Unknown("the checkpoint's files were not seen", "name them with --checkpoint")
    length = now.declared("checkpoint.max_position_embeddings")
    architecture = str(now.declared("checkpoint.architecture") or "")
    if not isinstance(length, int) or architecture.startswith("Cohere") or now.kind not in ("generate", "hybrid"):
        return Unknown("the checkpoint's context length is not plain", "set --max-model-len")
    if any(
        path[:3] == ("serve", "args", "hf_overrides") or path[:3] == ("serve", "args", "rope_scaling")
        for path in now.given
    ):
        return Unknown("overrides of the configuration move it", "set --max-model-len")
    return _scaled(now, length, architecture)


def _scaled(now: Case, length: int, architecture: str) -> Any:
    kind = now.declared("checkpoint.rope_type")
    factor = now.declared("checkpoint.rope_factor")
    original = now.declared("checkpoint.original_max_position_embeddings")
    if kind in (None, "default", "none", "su", "llama3", "mrope") or "Gemma3" in architecture or not factor:
        return length
    if kind == "longrope":
        return (original or length) if now.since("0.11.1") else length
    if kind in ("yarn", "deepseek_yarn", "deepseek_llama_scaling"):
        if now.since("0.30.0"):
            return length
        if kind != "yarn" or not isinstance(original, int):
            return Unknown(f"how this release scales {kind} was not read", "set --max-model-len")
        return int(original * factor)
    return int(length * factor)


def prefix_caching(now: Case) -> Any:
    """Off on V0; on with V1 for models that generate; hybrid ones since 0.26.0."""
    engine, kind = now.v1, now.kind
    if engine is None:
        return _NO_ENGINE
    if engine is False:
        return False
    if kind == "generate":
        return not (now.said("serve.args.enable_prompt_embeds") is True and not now.since("0.11.1"))
    if kind == "hybrid" and now.since("0.11.1"):
        return now.since("0.26.0")
    if kind == "encoder_decoder" or (kind == "attention_free" and now.since("0.12.0")):
        return False
    return _NO_KIND


def chunked_prefill(now: Case) -> Any:
    """On with V1 for models that generate. V0: only for long contexts, and under conditions."""
    engine, kind = now.v1, now.kind
    if engine is None:
        return _NO_ENGINE
    if engine is False:
        length = now.said("serve.max_model_len")
        return False if isinstance(length, int) and length <= 32768 else Unknown(
            "V0 switches it on for contexts above 32768 under conditions of its own", "set --enable-chunked-prefill"
        )  # fmt: skip
    if kind in ("generate", "hybrid", "attention_free"):
        return True
    return False if kind == "encoder_decoder" and now.since("0.11.1") else _NO_KIND


def _tier(now: Case) -> tuple[int, int] | Unknown:
    """Default batched tokens and sequences of an API server, by platform and GPU (`get_batch_defaults`)."""
    platform = now.platform
    world = (now.said("serve.tensor_parallel_size") or 1) * (now.said("serve.pipeline_parallel_size") or 1)
    if platform == "cpu":
        if now.since("0.10.0"):
            return 2048 * world, 128 * world
        return (2048, 32) if now.since("0.9.2") else Unknown("the CPU defaults of this release were not read", "set it")
    memory, product = gpu.memory_gib(now.host), gpu.name(now.host)
    if memory is None or platform not in ("cuda", "rocm"):
        return _NO_GPU
    if not now.since("0.8.5"):  # by name: the memory does not count yet
        named = "h100" in product or "h200" in product
        return (8192 if named else 2048), (1024 if named or not now.since("0.8.4") else 256)
    if memory >= 160 and now.since("0.28.0"):
        return 16384, 1024
    big = memory >= 70
    if now.since("0.9.0"):
        big = big and "a100" not in product
    if now.since("0.33.0"):
        big = big and gpu.capability(now.host) != 12.1
    return (8192, 1024) if big else (2048, 256)


def max_num_seqs(now: Case) -> Any:
    """By GPU memory since 0.8.5, never more than the batched tokens."""
    if now.v1 is None:
        return _NO_ENGINE
    if now.v1 is False:
        return 256
    tier = _tier(now)
    if isinstance(tier, Unknown):
        return tier
    default = tier[1] * _doubled(now)
    tokens = now.said("serve.max_num_batched_tokens")
    if isinstance(tokens, int) and tokens < default:
        return (
            tokens
            if now.since("0.10.2")
            else Unknown("a batch limit below the default was not read", "set --max-num-seqs")
        )
    return default


def max_num_batched_tokens(now: Case) -> Any:
    """By GPU memory; without chunked prefill at least the context; never more than all sequences hold."""
    if now.v1 is None:
        return _NO_ENGINE
    length, chunked = now.said("serve.max_model_len"), now.said("serve.enable_chunked_prefill")
    if not isinstance(length, int) or chunked is None:
        return Unknown(
            "it depends on serve.max_model_len and serve.enable_chunked_prefill", "set --max-num-batched-tokens"
        )
    if now.v1 is False:
        if chunked or now.kind != "generate":
            return Unknown("the V0 rule for this model was not read", "set --max-num-batched-tokens")
        return max(length, 2048)
    if (now.said("serve.data_parallel_size") or 1) > 1 and now.said("serve.args.enable_expert_parallel") is True:
        return Unknown("batched expert parallelism has a default of its own", "set --max-num-batched-tokens")
    if now.kind != "generate" and now.kind != "hybrid":
        return _NO_KIND
    tier = _tier(now)
    if isinstance(tier, Unknown):
        return tier
    tokens = tier[0] * _doubled(now)
    if not chunked:
        tokens = max(tokens, length)
    asked = now.said("serve.max_num_seqs") if ("serve", "max_num_seqs") in now.given else None
    most = (asked if isinstance(asked, int) else tier[1] * _doubled(now)) * length
    if most < tokens and not now.since("0.11.1"):
        return Unknown("a limit below the default was not read", "set --max-num-batched-tokens")
    return min(tokens, most)


def _doubled(now: Case) -> int:
    return 2 if now.said("serve.args.performance_mode") == "throughput" else 1
