"""`GET /server_info?config_format=json` of the development mode: the resolved configuration, leaf by leaf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lockllm.engines import Answer
from lockllm.engines.shown.log import fields
from lockllm.engines.vllm.dump import dumped
from lockllm.engines.vllm.spread import SAMPLING_KEYS
from lockllm.engines.vllm.variables import number_truth
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import row_of, seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

LEAVES: tuple[tuple[FactKey, str, str], ...] = (
    ("serve.dtype", "model_config", "dtype"),
    ("serve.max_model_len", "model_config", "max_model_len"),
    ("serve.enforce_eager", "model_config", "enforce_eager"),
    ("serve.seed", "model_config", "seed"),
    ("serve.trust_remote_code", "model_config", "trust_remote_code"),
    ("serve.enable_prefix_caching", "cache_config", "enable_prefix_caching"),
    ("serve.gpu_memory_share", "cache_config", "gpu_memory_utilization"),
    ("serve.tensor_parallel_size", "parallel_config", "tensor_parallel_size"),
    ("serve.pipeline_parallel_size", "parallel_config", "pipeline_parallel_size"),
    ("serve.data_parallel_size", "parallel_config", "data_parallel_size"),
    ("serve.max_num_seqs", "scheduler_config", "max_num_seqs"),
    ("serve.max_num_batched_tokens", "scheduler_config", "max_num_batched_tokens"),
    ("serve.enable_chunked_prefill", "scheduler_config", "enable_chunked_prefill"),
    ("serve.enable_chunked_prefill", "scheduler_config", "chunked_prefill_enabled"),
    ("serve.load_format", "load_config", "load_format"),
    ("checkpoint.revision", "model_config", "revision"),
)
"""Fact, section and key whose value is in force as it stands."""
_PACKAGE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.+!_-]*)\Z")
_DEV = "name the start log with --log"


def server_info(answer: Answer) -> Iterator[Reading | Unobserved]:
    """Readings of the JSON form, or of the one line of fields that releases before 0.11.1 answer with."""
    body = answer.json
    tree = body.get("vllm_config") if isinstance(body, dict) else None
    if isinstance(tree, str):
        for key, raw in dumped(fields(tree)):
            yield seen(row_of(key).path, raw, f"{answer.source.partition('?')[0]}: vllm_config", By.ENDPOINT)
        return
    if not isinstance(tree, dict):
        yield Unobserved(("serve",), f"{answer.source} holds no configuration tree", "use vLLM 0.11.0 or later")
        return
    source = answer.source.partition("?")[0]
    for key, section, name in LEAVES:
        value = _section(tree, section).get(name)
        if _plain(value):
            yield seen(key, value, f"{source}: {section}.{name}", By.ENDPOINT)
    yield from _model(tree, source)
    yield from _attention(tree, source)
    yield from _speculative(tree, source)
    yield from _environment(body if isinstance(body, dict) else {}, source)


def _section(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool)) and value not in ("auto", "")


def _model(tree: Mapping[str, Any], source: str) -> Iterator[Reading | Unobserved]:
    model, cache = _section(tree, "model_config"), _section(tree, "cache_config")
    if "seed" in model and model["seed"] is None:
        yield seen("serve.seed", None, f"{source}: model_config.seed", By.ENDPOINT)
    if "quantization" in model:
        yield seen("serve.quantization", model["quantization"] or "none", f"{source}: quantization", By.ENDPOINT)
    kept = cache.get("cache_dtype")
    resolved = model.get("dtype") if kept == "auto" else kept
    if isinstance(resolved, str) and resolved != "auto":
        yield seen("serve.kv_cache_dtype", resolved, f"{source}: cache_config.cache_dtype", By.ENDPOINT)
    generation = model.get("generation_config")
    if generation in ("auto", "vllm"):
        yield seen("serve.generation_config", generation, f"{source}: generation_config", By.ENDPOINT)
    over = model.get("override_generation_config")
    if isinstance(over, dict):
        for name, value in over.items():
            if name in SAMPLING_KEYS and _plain(value):
                fact = "max_tokens" if name == "max_new_tokens" else name
                yield seen(("sampling", fact), value, f"{source}: override_generation_config", By.ENDPOINT)
    mode = model.get("tokenizer_mode")
    if _plain(mode):
        yield seen("tokenizer.mode", mode, f"{source}: tokenizer_mode", By.ENDPOINT)
    outputs = _section(tree, "structured_outputs_config") or _section(tree, "decoding_config")
    parser = outputs.get("reasoning_parser", outputs.get("reasoning_backend"))
    if parser is not None:
        yield seen("serve.reasoning_parser", parser or None, f"{source}: reasoning_parser", By.ENDPOINT)


def _attention(tree: Mapping[str, Any], source: str) -> Iterator[Reading | Unobserved]:
    backend = _section(tree, "attention_config").get("backend")
    if _plain(backend):
        name = re.sub(r"^AttentionBackendEnum\.", "", str(backend))
        yield seen("serve.attention_backend", name, f"{source}: attention_config.backend", By.ENDPOINT)
    elif "attention_config" in tree:
        yield Unobserved(("serve", "attention_backend"), "vLLM chose it at start, and keeps its name empty", _DEV)


def _speculative(tree: Mapping[str, Any], source: str) -> Iterator[Reading]:
    if "speculative_config" not in tree:
        return
    found = tree["speculative_config"]
    if not isinstance(found, dict):
        yield seen(("serve", "speculative", "method"), None, f"{source}: speculative_config", By.ENDPOINT)
        return
    for name in ("method", "num_speculative_tokens"):
        if _plain(found.get(name)):
            yield seen(("serve", "speculative", name), found[name], f"{source}: speculative_config", By.ENDPOINT)


def _environment(body: Mapping[str, Any], source: str) -> Iterator[Reading]:
    """`vllm_env` holds every variable that vLLM reads, defaults included, so only the decisive switch is a reading."""
    variables = body.get("vllm_env")
    if isinstance(variables, dict) and "VLLM_BATCH_INVARIANT" in variables:
        value = variables["VLLM_BATCH_INVARIANT"]
        told = value if isinstance(value, bool) else number_truth(str(value))
        if told is None and str(value) in ("True", "False"):
            told = str(value) == "True"
        if told is not None:
            yield seen("serve.batch_invariant", told, f"{source}: vllm_env", By.ENDPOINT)
    system = body.get("system_env")
    if isinstance(system, dict):
        yield from _system(system, f"{source}: system_env")


def _system(system: Mapping[str, Any], source: str) -> Iterator[Reading]:
    """Package versions and driver as the server's own process collected them."""
    listed = system.get("pip_packages")
    for line in listed.splitlines()[:200] if isinstance(listed, str) else ():
        found = _PACKAGE.match(line.strip())
        if found:
            name = re.sub(r"[-_.]+", "-", found.group(1)).lower()
            yield seen(("packages", name), found.group(2), f"{source}.pip_packages", By.ENDPOINT)
    driver = system.get("nvidia_driver_version")
    if isinstance(driver, str) and re.fullmatch(r"\d[\d.]*", driver):
        yield seen("host.driver", driver, f"{source}.nvidia_driver_version", By.ENDPOINT)
