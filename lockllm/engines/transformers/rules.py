"""What `transformers serve` does where nothing is typed, 5.6 to 5.24.

Source: `cli/serve.py`, `cli/serving/utils.py` and `model_manager.py` of 5.6.0, 5.12.0, 5.19.0, and 5.24.0, alike there; run at
5.24.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.engines.kernel.releases import order
from lockllm.engines.kernel.rules import Case, Rule, Rules, Told, constants, kept
from lockllm.engines.protocol import Context, Given
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Unobserved, values
from lockllm.facts.registry import row_of, seen

OLDEST = "5.6.0"
NEWEST = "5.24.0"
_READ = (5, 24)
_EAGER = (
    "BigBird", "Bloom", "CpmAnt", "DeepseekV4", "FalconMamba", "Gemma2", "GPTNeoForCausalLM", "GPTNeoXJapanese", "GptOss",
    "GraniteSwa", "GraniteMoeSwa", "HyV4", "Mamba", "MegatronBert", "MiMoV2Flash", "Mpt", "Mvp", "RemBert", "RoFormer", "Rwkv",
    "VaultGemma", "XGLM", "xLSTM",
)  # fmt: skip
"""Beginnings of the causal architectures of 5.24.0 whose classes do not support sdpa."""
_DIFFERED = ("CodeGen", "Gemma2", "GPTJ", "RecurrentGemma", "VaultGemma", "Zamba")
"""Those of which that was otherwise in a release from 5.6.0 on."""
_SAMPLING: Mapping[str, Any] = {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0}
_LEAST_TOKENS = 1024
_MOVED = (
    "serve.dtype", "serve.quantization", "serve.attention_backend", "serve.continuous_batching",
    *(f"sampling.{name}" for name in _SAMPLING),
)  # fmt: skip
"""Facts that another release than the one that was read may fill in otherwise."""


def declared(context: Context, key: str) -> Any:
    """What the checkpoint's generation_config.json says; None where it says nothing."""
    value = context.checkpoint.get(("checkpoint", "generation_config", key))
    return None if value is ABSENT else value


def _batches(case: Case) -> bool:
    return case.held.get(("serve", "continuous_batching")) is True


def _dtype(case: Case) -> Told:
    """`auto`: what config.json declares, else what the tensors are."""
    for key in ("checkpoint.dtype", "checkpoint.tensor_dtypes"):
        value = case.context.checkpoint.get(row_of(key).path)
        if isinstance(value, (list, tuple)):
            value = value[0] if len(value) == 1 else None
        if isinstance(value, str):
            return seen("serve.dtype", value, f"--dtype auto: {key}", By.RULE)
    reason = "the checkpoint's own dtype is not known"
    return Unobserved(("serve", "dtype"), reason, "name the checkpoint, or set --dtype")


def _attention(case: Case) -> Told:
    path, fix = ("serve", "attention_backend"), "set --attn-implementation"
    architecture = case.context.checkpoint.get(("checkpoint", "architecture"))
    if _batches(case) and any(each in case.context.packages for each in ("flash-attn", "kernels")):
        return Unobserved(path, "continuous batching may switch to flash attention", fix)
    if not isinstance(architecture, str) or not architecture.endswith("ForCausalLM"):
        return Unobserved(path, "whether the model's class supports sdpa is not known", fix)
    if architecture.startswith(_DIFFERED) and order(case.version)[0][:2] != _READ:
        reason = f"whether {architecture} supports sdpa in transformers {case.version} was not read"
        return Unobserved(path, reason, fix)
    backend = "eager" if architecture.startswith(_EAGER) else "sdpa"
    return seen("serve.attention_backend", backend, f"the default of {architecture}", By.RULE)


def _slots(case: Case) -> Told:
    if _batches(case):
        return seen("serve.max_num_seqs", None, "continuous batching counts blocks, not requests", By.RULE)
    return seen("serve.max_num_seqs", 1, "one request at a time without continuous batching", By.RULE)


def _prefix_caching(case: Case) -> Told:
    if _batches(case):
        return seen("serve.enable_prefix_caching", True, "continuous batching shares blocks", By.RULE)
    return seen("serve.enable_prefix_caching", False, "no cache lives on after a request", By.RULE)


def _samples(case: Case) -> Told:
    sampled = declared(case.context, "do_sample") is True
    return seen(
        ("sampling", "do_sample"), sampled, "generation_config.json" if sampled else "the library's default", By.RULE
    )


def _sampled(key: str, value: Any) -> Rule:
    """generation_config.json over the library's default; greedy unless it says do_sample."""

    def work(case: Case) -> Told:
        said = declared(case.context, key)
        if key == "temperature" and declared(case.context, "do_sample") is not True:
            return seen("sampling.temperature", 0, "do_sample is false: greedy", By.RULE)
        if key == "repetition_penalty" and _batches(case):
            return seen("sampling.repetition_penalty", 1.0, "continuous batching drops it", By.RULE)
        if said is not None:
            return seen(("sampling", key), said, "generation_config.json", By.RULE)
        return seen(("sampling", key), value, "the library's default", By.DEFAULT)

    says = "0 (greedy) unless generation_config.json says do_sample" if key == "temperature" else ""
    return Rule(fact=f"sampling.{key}", work=work, says=says or f"generation_config.json, else {value}")


def _tokens(case: Case) -> Told:
    most = declared(case.context, "max_new_tokens")
    most = max(_LEAST_TOKENS, most) if isinstance(most, int) else _LEAST_TOKENS
    return seen("sampling.max_tokens", most, "max_new_tokens, at least 1024", By.RULE)


RULES = Rules(
    label="transformers serve",
    oldest=OLDEST,
    newest="5.24.999",
    rows=(
        Rule(fact="serve.continuous_batching", value=False, says="off: one request at a time"),
        *constants({"serve.trust_remote_code": False, "serve.quantization": None, "serve.seed": None}),
        Rule(fact="serve.dtype", work=_dtype, says="auto: what the checkpoint declares"),
        Rule(fact="serve.attention_backend", work=_attention, says="sdpa where the model's class supports it, else eager"),
        Rule(fact="serve.max_num_seqs", work=_slots, says="1; none with continuous batching"),
        Rule(fact="serve.enable_prefix_caching", work=_prefix_caching, says="false; true with continuous batching"),
        Rule(fact="sampling.do_sample", work=_samples, says="generation_config.json, else false"),
        *(_sampled(key, value) for key, value in _SAMPLING.items()),
        Rule(fact="sampling.max_tokens", work=_tokens, says="1024, or max_new_tokens where it is more"),
        Rule(fact="serve.dtype", value="auto", only_omitted=True),
        *kept({"reasoning": "auto", "model_timeout": 300, "compile": False, "device": "auto"}, source="cli/serve.py"),
    ),
)  # fmt: skip


def is_read(version: str | None) -> bool:
    """Whether the options of a release are those that were read, or newer."""
    return version is not None and order(version)[0] >= _READ


def effective(given: Given | None, context: Context) -> Iterator[Told]:
    """Defaults and `auto`s of 5.6 to 5.24; older releases were read for their flags alone, newer ones not at all."""
    if context.version is None:
        return
    if not RULES.unread(context.version):
        yield from RULES.effective(given, context)
        return
    held = values(given.readings) if given else {}
    reason = f"the defaults of transformers serve {context.version} were not read"
    for key in _MOVED:
        if row_of(key).path not in held:
            yield Unobserved(
                row_of(key).path, reason, f"set the option, or use a release that was read: {OLDEST} to {NEWEST}"
            )


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving the option out; `auto` is the CPU where the host has nothing else."""
    told = RULES.omitted(path, known)
    return (*told, "cpu") if "device" in path and told and known.get(("host", "platform")) == "cpu" else told
