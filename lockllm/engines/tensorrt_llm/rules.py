"""TensorRT-LLM's defaults, as far as sources of 1.0 to 1.3 were read; a newer field default is not guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lockllm.engines import Context, Given
from lockllm.engines.kernel.omitted import plain
from lockllm.engines.kernel.releases import below, beyond
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

OLDEST = "1.0"
NEWEST = "1.3"
_DEFAULTS: Mapping[FactKey, Any] = {
    "serve.tensor_parallel_size": 1,
    "serve.pipeline_parallel_size": 1,
    "serve.trust_remote_code": False,
    "serve.enable_chunked_prefill": False,
    "serve.enable_prefix_caching": True,
    "serve.attention_backend": "TRTLLM",
    "serve.enforce_eager": False,
}
OMITTED: Mapping[str, Any] = {
    "backend": "pytorch", "max_beam_width": 1, "context_parallel_size": 1, "kv_cache_free_gpu_memory_fraction": 0.9,
    "kv_cache_config.free_gpu_memory_fraction": 0.9, "enable_attention_dp": False, "enable_autotuner": True,
    "disable_overlap_scheduler": False, "allreduce_strategy": "AUTO", "sampler_type": "auto",
    "scheduler_config.capacity_scheduler_policy": "GUARANTEED_NO_EVICT", "fail_fast_on_attention_window_too_large": False,
}  # fmt: skip
"""Kept options and keys whose default is a constant in 1.0 to 1.3: `commands/serve.py`, `llmapi/llm_args.py`."""
SAMPLING: Mapping[str, Any] = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}  # fmt: skip
"""`serve/openai_protocol.py`; an unseeded request takes the runtime's seed 0."""

_ASK = "observe the start log, or give it"
Told = Iterable["Reading | Unobserved"]


def effective(given: Given | None, context: Context) -> Told:
    """Defaults and rules over what was given."""
    version = context.version
    if version is None or beyond(version, f"{NEWEST}.99") or below(version, OLDEST):
        known = f"the rules of TensorRT-LLM {version} were not read" if version else "the release is not known"
        for group in ("serve", "sampling"):
            yield Unobserved((group,), known, "observe the running server, or use a newer lockllm")
        return
    held: dict[Path, Any] = {reading.fact.path: reading.value for reading in (given.readings if given else ())}
    backend = held.get(("serve", "args", "backend"))
    for key, value in _DEFAULTS.items():
        path = tuple(key.split("."))
        if path not in held and not (
            backend in ("tensorrt", "trt") and path[1] in ("attention_backend", "enforce_eager")
        ):
            yield seen(key, value, f"default of TensorRT-LLM {version}", By.DEFAULT)
    if held.get(("serve", "args", "generation_config")) == "auto":
        reason = "generation_config: auto takes sampling defaults from the checkpoint's generation_config.json"
        for name in SAMPLING:
            yield Unobserved(("sampling", name), reason, "pin them with --pin from a server that shows them")
    else:
        for name, value in SAMPLING.items():
            yield seen(("sampling", name), value, f"default of TensorRT-LLM {version}", By.DEFAULT)
    yield seen("sampling.seed", None, f"default of TensorRT-LLM {version}: the runtime's seed 0", By.DEFAULT)
    if ("serve", "dtype") not in held:
        declared = context.checkpoint.get(("checkpoint", "dtype"))
        if declared in ("float16", "bfloat16"):
            yield seen("serve.dtype", declared, f"TensorRT-LLM {version}: auto is the checkpoint's", By.RULE)
        else:
            yield Unobserved(("serve", "dtype"), "auto follows the checkpoint", "set dtype in the YAML file")
    for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "kv_cache_dtype"):
        if ("serve", name) not in held:
            yield Unobserved(("serve", name), "its default moved between releases, or follows the model", _ASK)


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving an option out of the command and of its YAML file."""
    facts: dict[Path, Any] = {tuple(key.split(".")): value for key, value in _DEFAULTS.items()}
    return plain(OMITTED, facts | {("serve", "gpu_memory_share"): 0.9}, OLDEST, f"{NEWEST}.99", path, known)


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings that need no lock."""
    force = context.env.get("FORCE_DETERMINISTIC")
    if force is not None and force != "1":
        yield Check(
            "check.settings_take_effect", CheckStatus.FAIL, "FORCE_DETERMINISTIC counts only as exactly 1",
            "variable FORCE_DETERMINISTIC", "set FORCE_DETERMINISTIC=1",
        )  # fmt: skip
