"""SGLang's attention backend by release, architecture and GPU, and what deterministic mode makes of it.

Read from `get_default_attn_backend` and what it grew from (`srt/model_executor/model_runner.py` up to 0.5.4,
`srt/server_args.py` up to 0.5.18, `srt/arg_groups/overrides.py` since), and `_handle_deterministic_inference`, of
every release from 0.4.6 to 0.5.23.
"""

from __future__ import annotations

from collections.abc import Generator

from lockllm.engines.kernel.releases import at_least, below
from lockllm.engines.sglang.known import Known
from lockllm.facts.observation import Reading, Unobserved
from lockllm.facts.types import whole

DETERMINISTIC_SINCE = "0.5.3"
_DETERMINISTIC_DEFAULT_SINCE = "0.5.4"  # 0.5.3 starts the mode only where a backend is named
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

_PLAIN = frozenset(
    """
    LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM Phi3ForCausalLM InternLM2ForCausalLM
    """.split()
)
"""Architectures without multi-head latent attention or sinks, for which no release read has a rule of its own."""

_FA3: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("0.4.6", "0.4.6", frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"})),
    ("0.4.8", "0.5.7", frozenset({"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})),
    ("0.5.8", "", _PLAIN),
)
"""Releases, and those of the plain architectures that get fa3 on Hopper (`is_fa3_default_architecture`)."""

_DEEPSEEK = frozenset(
    """
    DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekV32ForCausalLM MistralLarge3ForCausalLM
    PixtralForConditionalGeneration GlmMoeDsaForCausalLM
    """.split()
)
"""Architectures for which deterministic mode takes triton on Blackwell (0.5.5 and newer)."""
_TRTLLM_SINCE = "0.5.7"
_FP8_FALLBACK_SINCE = "0.4.6"

Chosen = tuple["str | None", str]


def backend(known: Known) -> Generator[Reading | Unobserved, None, str | None]:
    """The attention backend; the generator's value is what is in force, or None."""
    given = known.get("serve.attention_backend")
    if given is not None:
        return "triton" if falls_back(known.version, given, known.get("serve.kv_cache_dtype")) else str(given)
    value, why = _chosen(known)
    if value is None:
        yield Unobserved(("serve", "attention_backend"), why, "give --attention-backend, or observe the running server")
        return None
    if falls_back(known.version, value, known.get("serve.kv_cache_dtype")):
        value, why = "triton", "fa3 does not take an fp8_e5m2 cache"
    yield known.rule("serve.attention_backend", value, why)
    return value


def falls_back(version: str, backend: object, kv_cache_dtype: object) -> bool:
    """Whether SGLang takes triton instead of fa3: it does for an fp8_e5m2 cache."""
    return backend == "fa3" and kv_cache_dtype == "fp8_e5m2" and at_least(version, _FP8_FALLBACK_SINCE)


def before_ampere(capability: object) -> bool:
    """Whether a GPU has no bfloat16: SGLang then computes in float16, whatever dtype is asked."""
    return 0 < _major(capability) < 8


def keeps_radix(version: str, backend: str) -> bool:
    """Whether deterministic mode keeps the radix cache with that backend."""
    return backend in _since(RADIX_WITH_DETERMINISTIC, version)


def accepts_deterministic(version: str, backend: str | None) -> bool:
    """Whether deterministic mode starts with that backend, or without one named."""
    if backend is None:
        return at_least(version, _DETERMINISTIC_DEFAULT_SINCE)
    return backend in _since(DETERMINISTIC_BACKENDS, version)


def _chosen(known: Known) -> Chosen:
    phases = {known.get(f"serve.args.{phase}_attention_backend") for phase in ("prefill", "decode")}
    if len(phases) == 1 and (both := phases.pop()) is not None:
        return str(both), "one backend is named for prefill and decode"
    major = _major(known.get("host.compute_capability"))
    architecture = known.get("checkpoint.architecture")
    if known.get("serve.batch_invariant") is True:
        return _deterministic(known.version, major, architecture)
    if architecture not in _PLAIN:
        return None, "architectures have rules of their own"
    if known.get("host.platform") not in ("cuda", None) or not major:
        return None, "it follows the GPU, which is not known"
    return _by_gpu(known, major, str(architecture))


def _deterministic(version: str, major: int, architecture: object) -> Chosen:
    if not at_least(version, _DETERMINISTIC_DEFAULT_SINCE):
        return None, "0.5.3 starts deterministic mode only where a backend is named"
    if not major:
        return None, "deterministic mode picks it by GPU, which is not known"
    if major not in (10, 12):
        return "fa3", "deterministic mode"
    latent = architecture in _DEEPSEEK and at_least(version, "0.5.5")
    return ("triton" if latent else "flashinfer"), "deterministic mode on this GPU"


def _by_gpu(known: Known, major: int, architecture: str) -> Chosen:
    version = known.version
    page = known.get("serve.page_size")
    drafts = known.get("serve.speculative.eagle_topk")
    chains = drafts is None or (drafts == 1 and page in (None, 1))
    if known.get("serve.speculative.method") is not None and drafts is None and major in (9, 10):
        return None, "how wide its drafts are decides, and SGLang picks that by the model"
    if major == 9 and chains and at_least(version, "0.4.6"):
        fast = {architecture in names for names in _lists(version)}
        if fast != {False}:
            return ("fa3", "Hopper") if fast == {True} else (None, "the rule moved about here")
    if major == 10 and chains and at_least(version, _TRTLLM_SINCE):
        return "trtllm_mha", "Blackwell"
    if not known.context.packages:
        return None, "it follows whether FlashInfer is installed"
    installed = "flashinfer-python" in known.context.packages or "flashinfer" in known.context.packages
    return ("flashinfer", "FlashInfer is installed") if installed else ("triton", "FlashInfer is not installed")


def _major(capability: object) -> int:
    return whole(str(capability or "").partition(".")[0]) or 0


def _lists(version: str) -> list[frozenset[str]]:
    """The lists of a release; between two that were read, those of both."""
    inside = [names for first, last, names in _FA3 if at_least(version, first) and _until(version, last)]
    if inside:
        return inside
    older = [names for _, last, names in _FA3 if last and not below(version, last)][-1:]
    newer = [names for first, _, names in _FA3 if below(version, first)][:1]
    return older + newer


def _until(version: str, last: str) -> bool:
    return not last or not below(last, version.partition(".post")[0])


def _since(table: tuple[tuple[str, frozenset[str]], ...], version: str) -> frozenset[str]:
    return next((names for first, names in reversed(table) if at_least(version, first)), frozenset())
