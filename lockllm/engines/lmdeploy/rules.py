"""LMDeploy's defaults and rules by release: 0.9 to 0.18; the move of sampling defaults at 0.15."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lockllm.engines import Context, Given
from lockllm.engines.kernel.releases import at_least, below, beyond
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

OLDEST = "0.9.0"
NEWEST = "0.18.0"
GENERATION_CONFIG_SINCE = "0.15.0"
BUILT_IN: Mapping[str, Any] = {
    "temperature": 0.8, "top_p": 1.0, "top_k": 50, "min_p": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
"""Since 0.15.0, where the model's generation_config.json does not say otherwise."""
REQUEST_BEFORE: Mapping[str, Any] = {
    "temperature": 0.7, "top_p": 1.0, "top_k": 40, "min_p": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
"""Before 0.15.0 the OpenAI request filled these in, whatever generation_config.json said (checked at 0.9.2)."""
BATCH_BY_GPU: tuple[tuple[tuple[str, ...], int], ...] = (
    (("a100", "a800"), 384),
    (("h100", "h800", "h200", "l20y"), 1024),
)
BATCH_ELSE = 128
_DEFAULTS: Mapping[FactKey, Any] = {
    "serve.tensor_parallel_size": 1,
    "serve.data_parallel_size": 1,
    "serve.expert_parallel_size": 1,
    "serve.enable_prefix_caching": False,
    "serve.enforce_eager": False,
    "serve.trust_remote_code": False,
    "serve.max_num_batched_tokens": 8192,
}
Told = Iterable["Reading | Unobserved"]


def effective(given: Given | None, context: Context) -> Told:
    """Defaults and rules over what was given."""
    version = context.version
    if version is None or beyond(version, NEWEST) or below(version, OLDEST):
        reason = (
            f"the rules of LMDeploy {version} were not read ({OLDEST} to {NEWEST})"
            if version
            else "no release is known"
        )
        for group in ("serve", "sampling"):
            yield Unobserved((group,), reason, "name the release, or use a newer lockllm")
        return
    held: dict[Path, Any] = {reading.fact.path: reading.value for reading in (given.readings if given else ())}
    held |= {each.fact.path: each.path for each in (given.paths if given else ())}
    for key, value in _DEFAULTS.items():
        if tuple(key.split(".")) not in held:
            yield seen(key, value, f"default of LMDeploy {version}", By.DEFAULT)
    yield from _dtypes(held, version, context)
    yield from _limits(held, version, context)
    if held.get(("serve", "args", "backend")) == "pytorch":
        yield seen("engine.backend", "pytorch", "argument --backend pytorch is final", By.RULE)
    else:
        yield Unobserved(
            ("engine", "backend"), "turbomind is only a wish: an architecture that it lacks falls back to pytorch",
            "look for _turbomind in the mapped libraries, or give --backend pytorch",
        )  # fmt: skip
    yield from sampling(held, version, context)


def _dtypes(held: dict[Path, Any], version: str, context: Context) -> Told:
    if ("serve", "dtype") not in held:
        declared = context.checkpoint.get(("checkpoint", "dtype"))
        if declared in ("float32", "float16"):
            yield seen("serve.dtype", "float16", f"LMDeploy {version}: auto of a {declared} checkpoint", By.RULE)
            held[("serve", "dtype")] = "float16"
        elif declared == "bfloat16":
            yield from _bfloat16(held, version, context)
        else:
            yield Unobserved(
                ("serve", "dtype"), "auto follows the checkpoint's dtype, which is not known", "give --dtype"
            )
    policy = held.get(("serve", "args", "quant_policy"), 0)
    if ("serve", "kv_cache_dtype") not in held and policy in (0, "none", "0"):
        dtype = held.get(("serve", "dtype"))
        if isinstance(dtype, str):
            yield seen("serve.kv_cache_dtype", dtype, f"LMDeploy {version}: quant policy 0", By.RULE)
        else:
            yield Unobserved(("serve", "kv_cache_dtype"), "it follows the model's dtype", "")
    method = context.checkpoint.get(("quantization", "method"))
    if ("serve", "quantization") not in held and method is not None:
        yield seen("serve.quantization", method, f"LMDeploy {version}: config.json", By.RULE)


def _bfloat16(held: dict[Path, Any], version: str, context: Context) -> Told:
    capability = str(context.host.get(("host", "compute_capability")) or "")
    if not capability:
        yield Unobserved(("serve", "dtype"), "bfloat16 where the GPU has it, and the GPU is not known", "give --dtype")
        return
    major = whole(capability.partition(".")[0])
    value = "bfloat16" if major is not None and major >= 8 else "float16"
    held[("serve", "dtype")] = value
    yield seen("serve.dtype", value, f"LMDeploy {version}: auto of a bfloat16 checkpoint on {capability}", By.RULE)


def _limits(held: Mapping[Path, Any], version: str, context: Context) -> Told:
    if ("serve", "max_num_seqs") not in held:
        product = context.host.get(("host", "gpu_product")) or context.host.get(("host", "gpu"))
        if isinstance(product, str):
            name = product.lower()
            size = next((size for names, size in BATCH_BY_GPU if any(each in name for each in names)), BATCH_ELSE)
            yield seen("serve.max_num_seqs", size, f"LMDeploy {version}: by the GPU's name", By.RULE)
        else:
            yield Unobserved(("serve", "max_num_seqs"), "128, 384 or 1024 by the GPU's name", "give --max-batch-size N")
    if ("serve", "max_model_len") not in held:
        declared = context.checkpoint.get(("checkpoint", "max_position_embeddings"))
        if isinstance(declared, int):
            yield seen("serve.max_model_len", declared, f"LMDeploy {version}: the model's own", By.RULE)
        else:
            yield Unobserved(
                ("serve", "max_model_len"), "it is the model's own, which is not known", "give --session-len N"
            )


def sampling(held: Mapping[Path, Any], version: str, context: Context) -> Told:
    """What a chat completion that says nothing gets."""
    source = held.get(("serve", "generation_config"))
    yield seen("sampling.seed", None, f"default of LMDeploy {version}: drawn for each request", By.DEFAULT)
    yield seen("sampling.max_tokens", None, f"default of LMDeploy {version}", By.DEFAULT)
    if not at_least(version, GENERATION_CONFIG_SINCE):
        for key, value in REQUEST_BEFORE.items():
            yield seen(("sampling", key), value, f"default of LMDeploy {version}", By.DEFAULT)
        return
    if source is None:
        yield seen("serve.generation_config", "auto", f"default of LMDeploy {version}", By.DEFAULT)
    if source not in (None, "auto", "lmdeploy"):
        for key in BUILT_IN:
            yield Unobserved(("sampling", key), f"it comes from {source}, which was not read", "")
        return
    if source != "lmdeploy" and not context.checkpoint:
        for key in BUILT_IN:
            yield Unobserved(("sampling", key), "it follows generation_config.json, which is not seen", "")
        return
    for key, value in BUILT_IN.items():
        declared = context.checkpoint.get(("checkpoint", "generation_config", key)) if source != "lmdeploy" else None
        if isinstance(declared, (int, float)) and not isinstance(declared, bool):
            yield seen(("sampling", key), declared, f"LMDeploy {version}: generation_config.json: {key}", By.RULE)
        else:
            yield seen(("sampling", key), value, f"default of LMDeploy {version}", By.DEFAULT)


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings that need no lock."""
    if given is None:
        return
    held = {reading.fact.path: reading.value for reading in given.readings}
    backend, policy = held.get(("serve", "args", "backend")), held.get(("serve", "kv_cache_dtype"))
    if backend == "turbomind" and str(policy).startswith("fp8"):
        yield Check(
            "check.settings_take_effect", CheckStatus.FAIL, "turbomind has no fp8 KV cache", "argument --quant-policy",
            "give --backend pytorch, or another --quant-policy",
        )  # fmt: skip
    elif backend == "turbomind":
        yield Check(
            "check.settings_take_effect", CheckStatus.UNKNOWN,
            "--backend turbomind is a wish: where it lacks the architecture, pytorch serves without a word on any endpoint",
            "argument --backend", "look for _turbomind in the mapped libraries",
        )  # fmt: skip
