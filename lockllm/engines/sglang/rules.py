"""SGLang's defaults and `auto` rules by release, 0.3.4 to 0.5.23; between two releases read a rule holds where both agree.

Read from `srt/server_args.py`, `srt/arg_groups/*.py`, `srt/model_executor/model_runner.py` and
`srt/configs/model_config.py` of 0.3.4, 0.4.4, 0.4.6, 0.4.10, 0.5.1, 0.5.3, 0.5.4, 0.5.6, 0.5.10, 0.5.18, 0.5.20 and 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lockllm.engines import Context, Given
from lockllm.engines.kernel.releases import at_least, below, beyond, order
from lockllm.engines.kernel.renderers import SPARSE_MLA
from lockllm.engines.kernel.unread import sampling as unread_sampling
from lockllm.engines.sglang import attention, installed_defaults
from lockllm.engines.sglang.known import Known
from lockllm.engines.sglang.options import NEWEST
from lockllm.facts.observation import ABSENT, By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import memory_bytes

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

OLDEST = "0.3.4"
GENERATION_CONFIG_SINCE = "0.5.4"
_CHUNKS: tuple[tuple[str, str, tuple[tuple[float, int], ...]], ...] = (
    ("0.3.4", "0.3.6", ((0, 8192),)),
    ("0.4.0", "0.4.6", ((25_000, 2048), (0, 8192))),
    ("0.4.8", "0.5.2", ((35 * 1024, 2048), (160 * 1024, 8192), (0, 16384))),
    ("0.5.3", "0.5.18", ((35 * 1024, 2048), (60 * 1024, 4096), (160 * 1024, 8192), (0, 16384))),
    ("0.5.20", NEWEST, ((20 * 1024, 2048), (60 * 1024, 4096), (160 * 1024, 8192), (0, 16384))),
)
"""Releases read, and the chunk below each size of GPU memory in MiB; 0: any size.

A size is told in whole GiB and a card always shows a little less, so one that equals a bound lies below it.
"""
_MULTI_ITEM = "serve.args.enable_mis"

_DEFAULTS: Mapping[FactKey, Any] = {
    "serve.tensor_parallel_size": 1,
    "serve.pipeline_parallel_size": 1,
    "serve.data_parallel_size": 1,
    "serve.expert_parallel_size": 1,
    "serve.trust_remote_code": False,
}
_ABSENT: tuple[FactKey, ...] = (
    "serve.speculative.method",
    "serve.tool_call_parser",
    "serve.reasoning_parser",
    "serve.chat_template",
)
_BUILT_IN: Mapping[str, Any] = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
_TRANSFORMERS_4: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 50, "repetition_penalty": 1.0}
_SAMPLED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

Told = Iterable["Reading | Unobserved"]


def effective(given: Given | None, context: Context) -> Told:
    """Defaults and resolved `auto`s over what was given."""
    known = Known(given, context)
    if context.version is None:
        yield Unobserved(("serve",), "the release of SGLang is not known", "name it, or look where it is installed")
        return
    if beyond(context.version, NEWEST) or below(context.version, OLDEST):
        reason = f"the rules of SGLang {context.version} were not read ({OLDEST} to {NEWEST} were)"
        yield from installed_defaults.told(given, context, reason)
        fix = "observe the running server, or use a newer lockllm"
        yield Unobserved(("serve",), reason, fix)
        yield from unread_sampling(given, reason, fix)
        return
    yield from _on_policy(known)
    yield from _plain(known)
    yield from _dtypes(known)
    yield from _lengths(known)
    backend = yield from attention.backend(known)
    yield from _modes(known, backend)
    yield from sampling(known)


def _on_policy(known: Known) -> Told:
    """`--rl-on-policy-target` switches deterministic mode on (0.5.5 and newer)."""
    if known.get("serve.args.rl_on_policy_target") is not None and not known.has("serve.batch_invariant"):
        yield known.rule("serve.batch_invariant", True, "--rl-on-policy-target asks for it")
        known.given[("serve", "batch_invariant")] = True


def _plain(known: Known) -> Told:
    for key, value in _DEFAULTS.items():
        if not known.has(key):
            yield known.default(key, value)
    for key in _ABSENT:
        if not known.has(key):
            yield known.default(key, None)
    if not known.has("serve.seed"):
        yield Unobserved(("serve", "seed"), "SGLang draws its seed at every start", "give --random-seed N")
    if not known.has("serve.max_num_seqs"):
        yield Unobserved(
            ("serve", "max_num_seqs"), "it follows the memory that is free at start", "give --max-running-requests N"
        )


def _dtypes(known: Known) -> Told:
    if not known.has("serve.dtype"):
        dtype, why = _dtype(known)
        if dtype is None:
            yield Unobserved(("serve", "dtype"), why, "give --dtype")
        else:
            yield known.rule("serve.dtype", dtype, why)
            known.given[("serve", "dtype")] = dtype
    method = known.get("quantization.method")
    if not known.has("serve.quantization"):
        if method == "none":
            yield known.rule("serve.quantization", "none", "the checkpoint is not quantized")
        elif method in ("gptq", "awq"):
            reason = f"SGLang picks {method} or {method}_marlin by bits, symmetry and GPU"
            yield Unobserved(("serve", "quantization"), reason, "give --quantization, or observe the start log")
        elif method is not None:
            yield known.rule("serve.quantization", method, "the checkpoint's method")
    if not known.has("serve.kv_cache_dtype"):
        yield from _kv(known)


def _dtype(known: Known) -> tuple[str | None, str]:
    """What `auto` becomes; a checkpoint that declares no dtype is taken for float32."""
    if attention.before_ampere(known.get("host.compute_capability")):
        return "float16", "this GPU has no bfloat16"
    declared = known.get("checkpoint.dtype")
    if declared is None and known.context.checkpoint.get(("checkpoint", "dtype")) is ABSENT:
        declared = "float32"
    if declared is None:
        return None, "auto follows the checkpoint's dtype, which is not known"
    if declared != "float32":
        return declared, f"auto of a {declared} checkpoint"
    architecture = str(known.get("checkpoint.architecture") or "")
    gemma, old = architecture.startswith("Gemma"), architecture.startswith("Gemma2")
    if gemma and not old and below(known.version, "0.4.6"):
        if not below(known.version, "0.4.5"):
            return None, "the rule for Gemma moved about here"
        gemma = False
    return ("bfloat16" if gemma else "float16"), "auto of a float32 checkpoint"


def _kv(known: Known) -> Told:
    stored = known.get("quantization.kv_cache")
    dtype = known.get("serve.dtype")
    if known.get("quantization.method") is None and not known.context.checkpoint:
        dtype = None
    architecture = str(known.get("checkpoint.architecture") or "")
    if SPARSE_MLA.match(architecture):  # 8 bits or plain rows, by GPU and by the backend that is chosen at start
        reason = f"for {architecture} the attention backend decides what auto is"
        yield Unobserved(("serve", "kv_cache_dtype"), reason, "set --kv-cache-dtype, or name the start log with --log")
    elif isinstance(stored, str) and stored.lower().startswith(("fp8", "float8")):
        yield known.rule("serve.kv_cache_dtype", "fp8_e4m3", "auto of a checkpoint with an FP8 cache")
    elif dtype is not None:
        yield known.rule("serve.kv_cache_dtype", dtype, "auto is the model's dtype")
    else:
        yield Unobserved(("serve", "kv_cache_dtype"), "auto follows the model's dtype, which is not known", "")


def _lengths(known: Known) -> Told:
    if not known.has("serve.max_model_len"):
        declared = known.get("checkpoint.max_position_embeddings")
        if isinstance(declared, int):
            yield known.rule("serve.max_model_len", int(declared * _factor(known)), "the checkpoint's own context")
    if known.has("serve.chunked_prefill_size") and not known.get(_MULTI_ITEM):
        return
    size, why = _chunk_of(known)
    if size is None:
        yield Unobserved(("serve", "chunked_prefill_size"), why, "give --chunked-prefill-size N")
    else:
        yield known.rule("serve.chunked_prefill_size", size, why)
    yield known.rule(
        "serve.enable_chunked_prefill", size is None or size > 0, why if size else "prompts are cut by default"
    )


def _chunk_of(known: Known) -> tuple[int | None, str]:
    if why := _uncut(known):
        return -1, why
    memory = known.get("host.gpu_memory")
    if known.get("host.platform") == "cpu":
        if at_least(known.version, "0.5.3"):
            return None, "it follows the memory of the host"
        size: int | None = 4096 if at_least(known.version, "0.4.8") else 8192
        why = "no GPU"
    elif not isinstance(memory, str) or known.get("host.mig") is not None:
        return None, "it follows the size of GPU memory"
    else:
        size = _chunk(known.version, memory_bytes(memory) / 2**20)
        why = f"GPU memory of {memory}" if size is not None else "it follows the size of GPU memory"
    return (size // _ranks(known) if size else size), why


def _ranks(known: Known) -> int:
    """Among how many ranks of DP attention a chunk is shared: two up to 0.4.5, since all of them."""
    if known.get("serve.args.enable_dp_attention") is not True:
        return 1
    return max(1, known.get("serve.data_parallel_size") or 1) if at_least(known.version, "0.4.5") else 2


def _uncut(known: Known) -> str:
    """Why prompts are not cut, whatever is asked."""
    if _eagle_alone(known):
        return "EAGLE takes whole prompts in this release"
    return "several items are scored in one prompt" if known.get(_MULTI_ITEM) else ""


def _eagle_alone(known: Known) -> bool:
    early = at_least(known.version, "0.4.2") and below(known.version, "0.4.4")
    return early and known.get("serve.speculative.method") == "EAGLE"


def _factor(known: Known) -> float:
    """The factor of the rotary scaling, where it is not in the declared length already."""
    kind, factor = known.get("checkpoint.rope_type"), known.get("checkpoint.rope_factor")
    if known.get("checkpoint.original_max_position_embeddings") is not None or kind == "llama3":
        return 1.0
    return float(factor) if isinstance(factor, (int, float)) else 1.0


def _chunk(version: str, mebibytes: float) -> int | None:
    """The chunk of a release; between two that were read, where both say the same."""
    key = order(version)[0]
    inside = [tiers for first, last, tiers in _CHUNKS if order(first)[0] <= key <= order(last)[0]]
    if not inside:
        older = [tiers for _, last, tiers in _CHUNKS if order(last)[0] < key][-1:]
        newer = [tiers for first, _, tiers in _CHUNKS if order(first)[0] > key][:1]
        inside = older + newer
    sizes = {next(size for bound, size in tiers if not bound or mebibytes <= bound) for tiers in inside}
    return sizes.pop() if len(sizes) == 1 else None


def _modes(known: Known, backend: str | None) -> Told:
    if not known.has("serve.batch_invariant"):
        yield known.default("serve.batch_invariant", False)
    cached, why = _prefixes(known, backend)
    if cached is None:
        yield Unobserved(("serve", "enable_prefix_caching"), why, "")
    elif why:
        yield known.rule("serve.enable_prefix_caching", cached, why)
    elif not known.has("serve.enable_prefix_caching"):
        yield known.default("serve.enable_prefix_caching", True)
    if known.has("serve.enforce_eager"):
        return
    if known.get("serve.args.disaggregation_mode") == "prefill":
        yield Unobserved(("serve", "enforce_eager"), "a prefill server captures what its release lets it", "")
    elif backend is not None or known.get("host.platform") == "cuda":
        eager = backend in ("torch_native", "flex_attention") or known.get(_MULTI_ITEM) is True
        yield known.rule("serve.enforce_eager", eager, "graphs are captured but with torch_native")
    else:
        yield Unobserved(("serve", "enforce_eager"), "it follows the attention backend", "")


def _prefixes(known: Known, backend: str | None) -> tuple[bool | None, str]:
    """Whether prefixes are cached, and why where a rule decides; no reason: as asked, or by default."""
    if known.get("serve.enable_prefix_caching") is False:
        return False, ""
    if known.get(_MULTI_ITEM) is True:
        return False, "several items are scored in one prompt"
    if _eagle_alone(known):
        return False, "EAGLE switches it off in this release"
    kept = known.get("serve.args.disaggregation_decode_enable_radix_cache") is True
    if known.get("serve.args.disaggregation_mode") == "decode" and not kept:
        return False, "a decode server caches no prefixes"
    if known.get("serve.batch_invariant") is True:
        if backend is None:
            return None, "deterministic mode keeps it with some attention backends only"
        return attention.keeps_radix(known.version, backend), f"deterministic mode with {backend}"
    return True, ""


def sampling(known: Known) -> Told:
    """The server's own sampling defaults for a chat completion, and where completions and /generate differ."""
    since = at_least(known.version, GENERATION_CONFIG_SINCE)
    source = known.get("serve.generation_config")
    if since and source is None:
        yield known.default("serve.generation_config", "auto")
    for key, value in (("max_tokens", None), ("presence_penalty", 0), ("frequency_penalty", 0), ("seed", None)):
        yield known.default(("sampling", key), value)
    yield known.default("sampling.completions.max_tokens", 16)
    yield known.default("sampling.generate.max_tokens", 128)
    if not since or source == "openai":
        for key, value in _BUILT_IN.items():
            yield known.default(("sampling", key), value)
        return
    yield from _from_checkpoint(known)


def _from_checkpoint(known: Known) -> Told:
    checkpoint = known.context.checkpoint
    declared = {path[2]: value for path, value in checkpoint.items() if path[:2] == ("checkpoint", "generation_config")}
    if not checkpoint:
        for key in _SAMPLED:
            yield Unobserved(
                ("sampling", key),
                "it follows the checkpoint's generation_config.json, which is not seen",
                "look from the server's own host, or name the checkpoint with --checkpoint",
            )
        return
    there = bool(declared) or ("checkpoint", "files", "generation_config.json") in checkpoint
    older = _transformers_4(known)
    if there and older is None and set(_SAMPLED) - set(declared):
        older = not at_least(known.version, "0.5.10")
    base = {**_BUILT_IN, **(_TRANSFORMERS_4 if there and older else {})}
    for key, default in base.items():
        value = declared.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = 0 if key == "top_k" and value < 0 else value
            yield seen(("sampling", key), value, f"sglang {known.version}: generation_config.json: {key}", By.RULE)
            if value != _BUILT_IN[key]:
                yield known.default(("sampling", "completions", key), _BUILT_IN[key])
        elif default != _BUILT_IN[key]:
            yield known.rule(
                ("sampling", key), default, "transformers 4 fills in what generation_config.json leaves out"
            )
            yield known.default(("sampling", "completions", key), _BUILT_IN[key])
        else:
            yield known.default(("sampling", key), default)


def _transformers_4(known: Known) -> bool | None:
    installed = known.context.packages.get("transformers")
    return None if installed is None else order(installed)[0] < (5,)
