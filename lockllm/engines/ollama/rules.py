"""Ollama's defaults by release, 0.5 to 0.33: context, slots, cache, sampling by route."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lockllm.engines import Context, Given
from lockllm.engines.kernel import renderers
from lockllm.engines.kernel.omitted import plain, version
from lockllm.engines.kernel.releases import at_least, below, beyond
from lockllm.engines.ollama import options
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Check, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import memory_bytes

OLDEST = "0.5.0"
NEWEST = "0.33.0"
CONTEXT_FIXED: tuple[tuple[str, int], ...] = (("0.5.0", 2048), ("0.6.7", 4096))
CONTEXT_BY_MEMORY = "0.15.5"
CONTEXT_TIERS: tuple[tuple[float, int], ...] = ((47, 262144), (23, 32768), (0, 4096))
"""From that release on: total VRAM in GiB of at least, and the context."""
ONE_SLOT = "0.10.0"
FLASH_BY_ITSELF = "0.12.4"
PENALTY_OFF = "0.32.10"

OMITTED: Mapping[str, Any] = {"num_keep": 4, "num_gpu": -1, "num_thread": 0, "main_gpu": 0}
OMITTED_BEFORE: Mapping[str, Any] = {
    "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "penalize_newline": True, "tfs_z": 1.0,
}  # fmt: skip
"""Parameters that are kept and whose default is a constant: `DefaultOptions` of `api/types.go`; the second, until 0.9.0."""

_RENDERER: Path = ("serve", "args", "renderer")

Told = Iterable["Reading | Unobserved"]


def of_model(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """What the model itself sets, as its layers in the store show: parameters, renderer, parser, system text, template."""
    groups = ("serve", "sampling", "chat_template")
    return tuple(each for each in readings if each.by is By.FILE and each.fact.group in groups)


def effective(given: Given | None, context: Context) -> Told:
    """Defaults and rules over what was given."""
    version = context.version
    if version is None:
        yield Unobserved(("serve",), "the release of Ollama is not known", "name it, or ask GET /api/version")
        return
    if beyond(version, NEWEST) or below(version, OLDEST):
        reason = f"the rules of Ollama {version} were not read ({OLDEST} to {NEWEST} were)"
        for group in ("serve", "sampling"):
            yield Unobserved((group,), reason, "observe the running server, or use a newer lockllm")
        return
    held: dict[Path, Any] = {reading.fact.path: reading.value for reading in (given.readings if given else ())}
    if ("serve", "max_model_len") not in held:
        yield _context(version, context)
    if ("serve", "max_num_seqs") not in held:
        if at_least(version, ONE_SLOT):
            yield seen("serve.max_num_seqs", 1, f"default of Ollama {version}", By.DEFAULT)
        else:
            yield Unobserved(("serve", "max_num_seqs"), "4 or 1 by free memory", "set OLLAMA_NUM_PARALLEL")
    if ("serve", "kv_cache_dtype") not in held:
        yield seen("serve.kv_cache_dtype", "f16", f"default of Ollama {version}", By.DEFAULT)
    if ("serve", "flash_attn") not in held:
        if at_least(version, FLASH_BY_ITSELF):
            yield Unobserved(("serve", "flash_attn"), "on where GPU and model can", "set OLLAMA_FLASH_ATTENTION")
        else:
            yield seen("serve.flash_attn", "off", f"default of Ollama {version}", By.DEFAULT)
    if ("serve", "max_num_batched_tokens") not in held:
        yield Unobserved(
            ("serve", "max_num_batched_tokens"), "it follows free memory at load", "set PARAMETER num_batch"
        )
    yield seen("serve.enable_prefix_caching", True, "Ollama: every request carries cache_prompt", By.RULE)
    yield from sampling(version, {".".join(path[1:]): value for path, value in held.items() if path[0] == "sampling"})
    renderer = held.get(("serve", "args", "renderer"))
    if isinstance(renderer, str) and renderer and ("chat_template", "source") not in held:
        yield seen(
            "chat_template.source", renderers.shown(renderer, "ollama", version), "the engine's own code", By.RULE
        )
        reason = f"{renderer} is a renderer of Ollama: the engine's own code is the template"
        yield Unobserved(("chat_template", "sha256"), reason, "pin engine.version")


def _context(version: str, context: Context) -> Reading | Unobserved:
    trained = context.checkpoint.get(("checkpoint", "max_position_embeddings"))
    if at_least(version, CONTEXT_BY_MEMORY):
        memory, count = context.host.get(("host", "gpu_memory")), context.host.get(("host", "gpu_count"))
        if not isinstance(memory, str):
            reason = "it follows the GPUs' memory: 4096, 32768 or 262144"
            return Unobserved(("serve", "max_model_len"), reason, "set OLLAMA_CONTEXT_LENGTH")
        gib = memory_bytes(memory) / 2**30 * (count if isinstance(count, int) and count else 1)
        value = next(size for bound, size in CONTEXT_TIERS if gib >= bound)
        why = f"Ollama {version}: {gib:.0f} GiB of GPU memory"
    else:
        value = next(size for first, size in reversed(CONTEXT_FIXED) if at_least(version, first))
        why = f"default of Ollama {version}"
    if isinstance(trained, int) and trained < value:
        return seen("serve.max_model_len", trained, f"Ollama {version}: the model's own context", By.RULE)
    return seen("serve.max_model_len", value, why, By.RULE)


def sampling(version: str, model: Mapping[str, Any]) -> Iterable[Reading]:
    """The chat completion's defaults; the native routes differ in temperature and top_p, which a Modelfile sets there alone."""
    source = f"default of Ollama {version}"
    why = "Ollama: the OpenAI routes send it themselves"
    yield seen("sampling.temperature", 1.0, why, By.RULE)
    yield seen("sampling.top_p", 1.0, why, By.RULE)
    yield seen(("sampling", "native", "temperature"), model.get("native.temperature", 0.8), source, By.DEFAULT)
    yield seen(("sampling", "native", "top_p"), model.get("native.top_p", 0.9), source, By.DEFAULT)
    built_in = {
        "top_k": 40, "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.0 if at_least(version, PENALTY_OFF) else 1.1,
        "repeat_last_n": 64, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": None, "max_tokens": None,
    }  # fmt: skip
    for key, value in built_in.items():
        if key not in model:
            yield seen(("sampling", key), value, source, By.DEFAULT)


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving a parameter or variable out."""
    older = below(version(known) or NEWEST, options.GONE["mirostat"])
    facts: dict[Path, Any] = {("serve", "kv_cache_dtype"): "f16"}
    return plain({**OMITTED, **OMITTED_BEFORE} if older else OMITTED, facts, OLDEST, NEWEST, path, known)


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings that need no lock: those of the command line travel in `Given.checks`."""
    return ()
