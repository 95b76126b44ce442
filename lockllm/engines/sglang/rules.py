"""SGLang's defaults and `auto` rules by release, 0.3.4 to 0.5.23; between two releases read a rule holds where both agree.

Read from `srt/server_args.py`, `srt/arg_groups/*.py`, `srt/model_executor/model_runner.py` and
`srt/configs/model_config.py` of 0.3.4, 0.4.4, 0.4.6, 0.4.10, 0.5.1, 0.5.3, 0.5.4, 0.5.6, 0.5.10, 0.5.18, 0.5.20 and 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lockllm.engines import Context, Given
from lockllm.engines._releases import at_least, below, beyond, order
from lockllm.engines.sglang.options import NEWEST
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import ABSENT, By, Raw, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import memory_bytes, whole

OLDEST = "0.3.4"
DETERMINISTIC_SINCE = "0.5.3"
GENERATION_CONFIG_SINCE = "0.5.4"
RADIX_WITH_DETERMINISTIC: tuple[tuple[str, frozenset[str]], ...] = (
    ("0.5.3", frozenset({"fa3"})),
    ("0.5.4", frozenset({"fa3", "triton"})),
    ("0.5.14", frozenset({"fa3", "triton", "ascend"})),
    ("0.5.16", frozenset({"fa3", "triton", "ascend", "fa4"})),
)
"""Since a release: the attention backends with which deterministic mode keeps the radix cache."""

DETERMINISTIC_BACKENDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("0.5.3", frozenset({"flashinfer", "fa3", "triton"})),
    ("0.5.14", frozenset({"flashinfer", "fa3", "triton", "ascend"})),
    ("0.5.16", frozenset({"flashinfer", "fa3", "triton", "ascend", "fa4"})),
    ("0.5.20", frozenset({"flashinfer", "fa3", "triton", "ascend", "fa4", "intel_xpu"})),
)
"""Since a release: the attention backends that deterministic mode accepts."""

_CHUNKS: tuple[tuple[str, str, tuple[tuple[float, int], ...]], ...] = (
    ("0.3.4", "0.3.6", ((0, 8192),)),
    ("0.4.0", "0.4.6", ((25_000, 2048), (0, 8192))),
    ("0.4.10", "0.5.1", ((35 * 1024, 2048), (160 * 1024, 8192), (0, 16384))),
    ("0.5.3", "0.5.18", ((35 * 1024, 2048), (60 * 1024, 4096), (160 * 1024, 8192), (0, 16384))),
    ("0.5.20", NEWEST, ((20 * 1024, 2048), (60 * 1024, 4096), (160 * 1024, 8192), (0, 16384))),
)
"""Releases read, and the chunk below each size of GPU memory in MiB; 0: any size."""

_PLAIN_ATTENTION = frozenset(
    """
    LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM Phi3ForCausalLM InternLM2ForCausalLM
    """.split()
)
"""Architectures for which no release read has a rule of its own."""
_DEFAULTS: Mapping[str, Any] = {
    "serve.tensor_parallel_size": 1,
    "serve.pipeline_parallel_size": 1,
    "serve.data_parallel_size": 1,
    "serve.expert_parallel_size": 1,
    "serve.trust_remote_code": False,
}
_ABSENT = ("serve.speculative.method", "serve.tool_call_parser", "serve.reasoning_parser", "serve.chat_template")
_BUILT_IN: Mapping[str, Any] = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
_TRANSFORMERS_4: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 50, "repetition_penalty": 1.0}
_SAMPLED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

Told = Iterable["Reading | Unobserved"]


class _Known:
    """What the rules look at: facts given, facts of checkpoint and host."""

    def __init__(self, given: Given | None, context: Context) -> None:
        self.version = context.version or ""
        self.context = context
        self.auto = given.auto if given else frozenset()
        self.given: dict[Path, Any] = {
            reading.fact.path: reading.value for reading in (given.readings if given else ())
        }
        self.paths = frozenset(each.fact.path for each in given.paths) if given else frozenset()

    def get(self, key: str) -> Any:
        path = parse(key)
        for held in (self.given, self.context.checkpoint, self.context.host):
            value = held.get(path)
            if value is not None and value is not ABSENT and not isinstance(value, Raw):
                return value
        return None

    def has(self, key: str) -> bool:
        path = parse(key)
        return path in self.given or path in self.paths

    def rule(self, key: str, value: Any, why: str = "") -> Reading:
        return seen(key, value, f"sglang {self.version}: {why}" if why else f"sglang {self.version}", By.RULE)

    def default(self, key: str, value: Any) -> Reading:
        return seen(key, value, f"default of sglang {self.version}", By.DEFAULT)


def effective(given: Given | None, context: Context) -> Told:
    """Defaults and resolved `auto`s over what was given."""
    known = _Known(given, context)
    if context.version is None:
        yield Unobserved(("serve",), "the release of SGLang is not known", "name it, or look where it is installed")
        return
    if beyond(context.version, NEWEST) or below(context.version, OLDEST):
        reason = f"the rules of SGLang {context.version} were not read ({OLDEST} to {NEWEST} were)"
        for group in ("serve", "sampling"):
            yield Unobserved((group,), reason, "observe the running server, or use a newer lockllm")
        return
    yield from _plain(known)
    yield from _dtypes(known)
    yield from _lengths(known)
    backend = yield from _attention(known)
    yield from _modes(known, backend)
    yield from sampling(known)


def _plain(known: _Known) -> Told:
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


def _dtypes(known: _Known) -> Told:
    if not known.has("serve.dtype"):
        declared = known.get("checkpoint.dtype")
        if declared is None:
            yield Unobserved(
                ("serve", "dtype"), "auto follows the checkpoint's dtype, which is not known", "give --dtype"
            )
        else:
            gemma = str(known.get("checkpoint.architecture") or "").startswith("Gemma")
            value = ("bfloat16" if gemma else "float16") if declared == "float32" else declared
            yield known.rule("serve.dtype", value, f"auto of a {declared} checkpoint")
            known.given[("serve", "dtype")] = value
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


def _kv(known: _Known) -> Told:
    stored = known.get("quantization.kv_cache")
    dtype = known.get("serve.dtype")
    if known.get("quantization.method") is None and not known.context.checkpoint:
        dtype = None
    if isinstance(stored, str) and stored.lower().startswith(("fp8", "float8")):
        yield known.rule("serve.kv_cache_dtype", "fp8_e4m3", "auto of a checkpoint with an FP8 cache")
    elif dtype is not None:
        yield known.rule("serve.kv_cache_dtype", dtype, "auto is the model's dtype")
    else:
        yield Unobserved(("serve", "kv_cache_dtype"), "auto follows the model's dtype, which is not known", "")


def _lengths(known: _Known) -> Told:
    if not known.has("serve.max_model_len"):
        declared = known.get("checkpoint.max_position_embeddings")
        if isinstance(declared, int):
            yield known.rule("serve.max_model_len", int(declared * _factor(known)), "the checkpoint's own context")
    if known.has("serve.chunked_prefill_size"):
        return
    memory = known.get("host.gpu_memory")
    if known.get("host.platform") == "cpu":
        yield known.rule("serve.chunked_prefill_size", 4096, "no GPU")
        yield known.rule("serve.enable_chunked_prefill", True, "no GPU")
        return
    size = _chunk(known.version, memory_bytes(memory) / 2**20) if isinstance(memory, str) else None
    if size is None:
        reason = "it follows the size of GPU memory"
        yield Unobserved(("serve", "chunked_prefill_size"), reason, "give --chunked-prefill-size N")
        yield known.rule("serve.enable_chunked_prefill", True, "prompts are cut by default")
        return
    if known.get("serve.args.enable_dp_attention") is True:
        size //= max(1, known.get("serve.data_parallel_size") or 1)
    yield known.rule("serve.chunked_prefill_size", size, f"GPU memory of {memory}")
    yield known.rule("serve.enable_chunked_prefill", True, "prompts are cut by default")


def _factor(known: _Known) -> float:
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
    sizes = {next(size for bound, size in tiers if not bound or mebibytes < bound) for tiers in inside}
    return sizes.pop() if len(sizes) == 1 else None


def _attention(known: _Known) -> Any:
    """The attention backend; the generator's value is what is in force, or None."""
    given = known.get("serve.attention_backend")
    if given is not None:
        return given
    value, why = _backend(known)
    if value is None:
        yield Unobserved(("serve", "attention_backend"), why, "give --attention-backend, or observe the running server")
    else:
        yield known.rule("serve.attention_backend", value, why)
    return value


def _backend(known: _Known) -> tuple[str | None, str]:
    capability = str(known.get("host.compute_capability") or "")
    major = whole(capability.partition(".")[0]) or 0
    if known.get("serve.batch_invariant") is True:
        if not major:
            return None, "deterministic mode picks it by GPU, which is not known"
        return ("flashinfer", "deterministic mode on this GPU") if major >= 10 else ("fa3", "deterministic mode")
    if known.get("checkpoint.architecture") not in _PLAIN_ATTENTION:
        return None, "architectures have rules of their own"
    if known.get("host.platform") not in ("cuda", None) or not major:
        return None, "it follows the GPU, which is not known"
    return _by_gpu(known, major)


def _by_gpu(known: _Known, major: int) -> tuple[str | None, str]:
    installed = "flashinfer-python" in known.context.packages or "flashinfer" in known.context.packages
    drafts = known.get("serve.speculative.eagle_topk")
    if isinstance(drafts, int) and drafts > 1:
        return None, "tree drafts have rules of their own"
    if major == 9 and at_least(known.version, "0.4.6"):
        return "fa3", "Hopper"
    if major == 10 and at_least(known.version, "0.5.7"):
        return ("trtllm_mha", "Blackwell") if at_least(known.version, "0.5.10") else (None, "the rule moved about here")
    if not known.context.packages:
        return None, "it follows whether FlashInfer is installed"
    return ("flashinfer", "FlashInfer is installed") if installed else ("triton", "FlashInfer is not installed")


def _since(table: tuple[tuple[str, frozenset[str]], ...], version: str) -> frozenset[str]:
    return next((names for first, names in reversed(table) if at_least(version, first)), frozenset())


def keeps_radix(version: str, backend: str) -> bool:
    """Whether deterministic mode keeps the radix cache with that backend."""
    return backend in _since(RADIX_WITH_DETERMINISTIC, version)


def accepts_deterministic(version: str, backend: str) -> bool:
    """Whether deterministic mode starts with that backend."""
    return backend in _since(DETERMINISTIC_BACKENDS, version)


def _modes(known: _Known, backend: str | None) -> Told:
    fixed = known.get("serve.batch_invariant") is True
    if not known.has("serve.batch_invariant"):
        yield known.default("serve.batch_invariant", False)
    off = known.get("serve.enable_prefix_caching") is False
    if fixed and not off:
        if backend is None:
            yield Unobserved(
                ("serve", "enable_prefix_caching"), "deterministic mode keeps it with some attention backends only", ""
            )
        else:
            kept = keeps_radix(known.version, backend)
            yield known.rule("serve.enable_prefix_caching", kept, f"deterministic mode with {backend}")
    elif not known.has("serve.enable_prefix_caching"):
        yield known.default("serve.enable_prefix_caching", True)
    if not known.has("serve.enforce_eager"):
        eager = backend in ("torch_native", "flex_attention")
        if eager or backend is not None or known.get("host.platform") == "cuda":
            yield known.rule("serve.enforce_eager", eager, "graphs are captured but with torch_native")
        else:
            yield Unobserved(("serve", "enforce_eager"), "it follows the attention backend", "")


def sampling(known: _Known) -> Told:
    """The server's own sampling defaults for a chat completion, and where completions and /generate differ."""
    since = at_least(known.version, GENERATION_CONFIG_SINCE)
    source = known.get("serve.generation_config")
    if since and source is None:
        yield known.default("serve.generation_config", "auto")
    for key, value in (("max_tokens", None), ("presence_penalty", 0), ("frequency_penalty", 0), ("seed", None)):
        yield known.default(f"sampling.{key}", value)
    yield known.default("sampling.completions.max_tokens", 16)
    yield known.default("sampling.generate.max_tokens", 128)
    if not since or source == "openai":
        for key, value in _BUILT_IN.items():
            yield known.default(f"sampling.{key}", value)
        return
    yield from _from_checkpoint(known)


def _from_checkpoint(known: _Known) -> Told:
    checkpoint = known.context.checkpoint
    declared = {path[2]: value for path, value in checkpoint.items() if path[:2] == ("checkpoint", "generation_config")}
    if not checkpoint:
        for key in _SAMPLED:
            yield Unobserved(
                ("sampling", key), "it follows the checkpoint's generation_config.json, which is not seen", ""
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
            yield seen(f"sampling.{key}", value, f"sglang {known.version}: generation_config.json: {key}", By.RULE)
            if value != _BUILT_IN[key]:
                yield known.default(f"sampling.completions.{key}", _BUILT_IN[key])
        elif default != _BUILT_IN[key]:
            yield known.rule(
                f"sampling.{key}", default, "transformers 4 fills in what generation_config.json leaves out"
            )
            yield known.default(f"sampling.completions.{key}", _BUILT_IN[key])
        else:
            yield known.default(f"sampling.{key}", default)


def _transformers_4(known: _Known) -> bool | None:
    installed = known.context.packages.get("transformers")
    return None if installed is None else order(installed)[0] < (5,)
