"""Ollama's defaults by release, 0.5 to 0.33: context, slots, cache, sampling by route."""

from __future__ import annotations

from collections.abc import Iterable

from lockllm.engines.kernel import renderers
from lockllm.engines.kernel.rules import Case, Rule, Rules, Told, constants, kept
from lockllm.engines.ollama import options
from lockllm.engines.protocol import Context, Given
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Check, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import memory_bytes

NEWEST = "0.33.0"
CONTEXT_TIERS: tuple[tuple[float, int], ...] = ((47, 262144), (23, 32768), (0, 4096))
"""Total VRAM in GiB of at least, and the context."""
_BY_MEMORY = "0.15.5"
_ONE_SLOT = "0.10.0"
_FLASH_BY_ITSELF = "0.12.4"
_PENALTY_OFF = "0.32.10"


def of_model(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """What the model itself sets, as its layers in the store show: parameters, renderer, parser, system text, template."""
    groups = ("serve", "sampling", "chat_template")
    return tuple(each for each in readings if each.by is By.FILE and each.fact.group in groups)


def _context(value: int, since: str, before: str) -> Rule:
    """A context that the release sets, where the model was trained for as much."""
    return Rule(
        fact="serve.max_model_len", since=since, before=before, says=str(value),
        work=lambda case: _within(case, value, f"default of Ollama {case.version}"),
    )  # fmt: skip


def _within(case: Case, value: int, why: str) -> Reading:
    trained = case.context.checkpoint.get(("checkpoint", "max_position_embeddings"))
    if isinstance(trained, int) and trained < value:
        return case.told("serve.max_model_len", trained, "the model's own context")
    return seen("serve.max_model_len", value, why, By.RULE)


def _by_memory(case: Case) -> Told:
    memory, count = case.context.host.get(("host", "gpu_memory")), case.context.host.get(("host", "gpu_count"))
    if not isinstance(memory, str):
        reason = "it follows the GPUs' memory: 4096, 32768 or 262144"
        return Unobserved(("serve", "max_model_len"), reason, "set OLLAMA_CONTEXT_LENGTH")
    gib = memory_bytes(memory) / 2**30 * (count if isinstance(count, int) and count else 1)
    value = next(size for bound, size in CONTEXT_TIERS if gib >= bound)
    return _within(case, value, f"Ollama {case.version}: {gib:.0f} GiB of GPU memory")


def _unknown(fact: str, reason: str, fix: str) -> Unobserved:
    return Unobserved(tuple(fact.split(".")), reason, fix)


def _native(name: str, value: float) -> Rule:
    """A Modelfile's own value holds on the native routes alone."""
    path = ("sampling", "native", name)

    def work(case: Case) -> Told:
        return seen(path, case.held.get(path, value), f"default of Ollama {case.version}", By.DEFAULT)

    return Rule(fact=".".join(path), over_given=True, says=str(value), work=work)


def _route(name: str, native: float) -> Rule:
    fact = f"sampling.{name}"
    return Rule(
        fact=fact,
        over_given=True,
        says=f"1.0 on the OpenAI routes, whatever the Modelfile says; {native} on the native ones",
        work=lambda case: seen(parse(fact), 1.0, "Ollama: the OpenAI routes send it themselves", By.RULE),
    )


def _in_code(case: Case) -> str:
    """The renderer of a model whose template nothing else gives."""
    told = case.given is not None and any(each.fact.key == "chat_template.source" for each in case.given.readings)
    renderer = case.held.get(("serve", "args", "renderer"))
    return renderer if isinstance(renderer, str) and not told else ""


def _renderer(case: Case) -> Told | None:
    code = renderers.shown(_in_code(case), "ollama", case.version)
    return seen("chat_template.source", code, "the engine's own code", By.RULE) if _in_code(case) else None


def _no_text(case: Case) -> Told | None:
    reason = f"{_in_code(case)} is a renderer of Ollama: the engine's own code is the template"
    return _unknown("chat_template.sha256", reason, "pin engine.version") if _in_code(case) else None


RULES = Rules(
    label="Ollama",
    oldest="0.5.0",
    newest=NEWEST,
    name_it="name it, or ask GET /api/version",
    rows=(
        _context(2048, "", "0.6.7"),
        _context(4096, "0.6.7", _BY_MEMORY),
        Rule(fact="serve.max_model_len", since=_BY_MEMORY, work=_by_memory, says="by GPU memory (4096, 32768 or 262144)"),
        Rule(fact="serve.max_num_seqs", before=_ONE_SLOT, says="4 or 1 by free memory",
             work=lambda case: _unknown("serve.max_num_seqs", "4 or 1 by free memory", "set OLLAMA_NUM_PARALLEL")),
        Rule(fact="serve.max_num_seqs", since=_ONE_SLOT, value=1),
        Rule(fact="serve.kv_cache_dtype", value="f16"),
        Rule(fact="serve.flash_attn", before=_FLASH_BY_ITSELF, value="off"),
        Rule(fact="serve.flash_attn", since=_FLASH_BY_ITSELF, says="on where GPU and model can",
             work=lambda case: _unknown("serve.flash_attn", "on where GPU and model can", "set OLLAMA_FLASH_ATTENTION")),
        Rule(fact="serve.max_num_batched_tokens", says="by free memory at load", work=lambda case: _unknown(
            "serve.max_num_batched_tokens", "it follows free memory at load", "set PARAMETER num_batch")),
        Rule(fact="serve.enable_prefix_caching", over_given=True, says="true", work=lambda case: seen(
            "serve.enable_prefix_caching", True, "Ollama: every request carries cache_prompt", By.RULE)),
        _route("temperature", 0.8),
        _route("top_p", 0.9),
        _native("temperature", 0.8),
        _native("top_p", 0.9),
        *constants({
            "sampling.top_k": 40, "sampling.min_p": 0.0, "sampling.typical_p": 1.0, "sampling.repeat_last_n": 64,
            "sampling.presence_penalty": 0.0, "sampling.frequency_penalty": 0.0, "sampling.seed": None, "sampling.max_tokens": None,
        }),
        Rule(fact="sampling.repetition_penalty", before=_PENALTY_OFF, value=1.1),
        Rule(fact="sampling.repetition_penalty", since=_PENALTY_OFF, value=1.0),
        Rule(fact="chat_template.source", work=_renderer),
        Rule(fact="chat_template.sha256", over_given=True, work=_no_text),
        *kept({"num_keep": 4, "num_gpu": -1, "num_thread": 0, "main_gpu": 0}, source="`DefaultOptions` of api/types.go"),
        *kept(
            {"mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "penalize_newline": True, "tfs_z": 1.0},
            before=options.GONE["mirostat"], source="`DefaultOptions` of api/types.go",
        ),
    ),
)  # fmt: skip
effective = RULES.effective
omitted = RULES.omitted


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings that need no lock: those of the command line travel in `Given.checks`."""
    return ()
