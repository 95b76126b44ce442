"""What vLLM makes of what nobody said, and of `auto`.

The rules of 0.6.0 to 0.33.0, in the order in which they build on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lockllm.engines import Context, Given
from lockllm.engines.kernel.releases import beyond
from lockllm.engines.kernel.unread import sampling as unread_sampling
from lockllm.engines.vllm import batching, precision, sampling_rules
from lockllm.engines.vllm.case import Case, Unknown, case
from lockllm.engines.vllm.installed_defaults import told
from lockllm.engines.vllm.options import NEWEST, OLDEST, is_read
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

_LOG = "name the start log with --log; `/server_info` keeps it empty"
Rule = Callable[[Case], Any]


def effective(given: Given | None, context: Context) -> Iterable[Reading | Unobserved]:
    """Defaults and resolved `auto`s over what was given.

    What only a newer release's rule could tell is not observed; a constant of its own source is its default.
    """
    now = case(given, context)
    reason = _unread(context.version)
    for key, by, rule in RULES:
        path = parse(key)
        if path in now.given:
            continue
        if reason is not None:
            own = context.installed
            yield told(path, now, own, reason) if own else Unobserved(path, reason.reason, reason.fix)
            continue
        value = rule(now)
        now.told[path] = value
        if isinstance(value, Unknown):
            yield Unobserved(path, value.reason, value.fix)
        elif value is not NOTHING:
            yield seen(key, value, f"vLLM {context.version}: {'default' if by is By.DEFAULT else 'rule'}", by)
    if reason is None:
        yield from sampling_rules.effective(now, given)
    else:
        yield from unread_sampling(given, reason.reason, reason.fix)


def _unread(version: str | None) -> Unknown | None:
    if version is None:
        return Unknown("the release of vLLM is not known", "name it with --engine-version")
    if is_read(version):
        return None
    if beyond(version, NEWEST):
        return Unknown(
            f"vLLM {version} is newer than {NEWEST}, the newest whose rules were read", "use a newer lockllm"
        )
    return Unknown(
        f"the rules of vLLM {version} were not read: only {OLDEST} to {NEWEST}", "set it on the command line"
    )


NOTHING = object()
"""The fact does not exist in that release."""


def _constant(value: Any, since: str = "") -> Rule:
    return lambda now: value if not since or now.since(since) else NOTHING


def _one(now: Case) -> Any:
    return 1


def _data_parallel(now: Case) -> Any:
    asked = now.env.get("VLLM_DP_SIZE", "")
    return int(asked) if asked.isdigit() and len(asked) < 6 else 1


def _share(now: Case) -> Any:
    return 0.92 if now.since("0.20.0") else 0.9


def _seed(now: Case) -> Any:
    """0 up to 0.7.3; none at 0.8; since 0.9.0 V1 takes 0 for none, V0 keeps none."""
    if not now.since("0.8.0") or now.since("0.11.1"):
        return 0
    if not now.since("0.9.0"):
        return None
    return {True: 0, False: None, None: Unknown("whether the V1 engine runs cannot be told", "set --seed")}[now.v1]


def _generation_config(now: Case) -> Any:
    if now.since("0.8.0"):
        return "auto"
    return "vllm" if now.since("0.6.6") else NOTHING


def _batch_invariant(now: Case) -> Any:
    if now.env_whole or not now.since("0.11.1"):
        return False
    return Unknown("the server has overwritten its environment", "start it with VLLM_SERVER_DEV_MODE=1")


def _attention_backend(now: Case) -> Any:
    return Unknown("vLLM chooses it at start", _LOG)


def _speculative(now: Case) -> Any:
    if any(path[:2] == ("serve", "speculative") for path in now.given):
        return NOTHING
    architecture = str(now.declared("checkpoint.architecture") or "")
    if "Speculator" in architecture or "Eagle" in architecture:
        return Unknown("a speculators checkpoint sets it by itself", _LOG)
    return None


RULES: tuple[tuple[FactKey, By, Rule], ...] = (
    ("serve.tensor_parallel_size", By.DEFAULT, _one),
    ("serve.pipeline_parallel_size", By.DEFAULT, _one),
    ("serve.data_parallel_size", By.DEFAULT, _data_parallel),
    ("serve.load_format", By.DEFAULT, _constant("auto")),
    ("serve.trust_remote_code", By.DEFAULT, _constant(False)),
    ("serve.enforce_eager", By.DEFAULT, _constant(False)),
    ("serve.gpu_memory_share", By.DEFAULT, _share),
    ("serve.generation_config", By.DEFAULT, _generation_config),
    ("serve.tool_call_parser", By.DEFAULT, _constant(None)),
    ("serve.reasoning_parser", By.DEFAULT, _constant(None)),
    ("serve.speculative.method", By.DEFAULT, _speculative),
    ("serve.seed", By.DEFAULT, _seed),
    ("serve.batch_invariant", By.DEFAULT, _batch_invariant),
    ("serve.dtype", By.RULE, precision.dtype),
    ("serve.quantization", By.RULE, precision.quantization),
    ("serve.kv_cache_dtype", By.RULE, precision.kv_cache_dtype),
    ("tokenizer.mode", By.RULE, precision.tokenizer_mode),
    ("serve.max_model_len", By.RULE, batching.max_model_len),
    ("serve.enable_prefix_caching", By.RULE, batching.prefix_caching),
    ("serve.enable_chunked_prefill", By.RULE, batching.chunked_prefill),
    ("serve.max_num_batched_tokens", By.RULE, batching.max_num_batched_tokens),
    ("serve.max_num_seqs", By.RULE, batching.max_num_seqs),
    ("serve.attention_backend", By.RULE, _attention_backend),
)
"""Fact, witness and rule."""
