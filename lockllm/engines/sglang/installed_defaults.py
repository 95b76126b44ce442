"""Defaults that an installed release states as constants, where its rules were not read: those that no rule replaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lockllm.engines import Context, Given, Installed
from lockllm.engines.sglang.options import SAMPLING_SOURCES
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Raw, Reading, Unobserved
from lockllm.facts.registry import seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

_PLAIN: Mapping[FactKey, str] = {
    "serve.tensor_parallel_size": "tp_size",
    "serve.pipeline_parallel_size": "pp_size",
    "serve.data_parallel_size": "dp_size",
    "serve.trust_remote_code": "trust_remote_code",
    "serve.generation_config": "sampling_defaults",
}
"""Facts whose default no rule of 0.3.4 to 0.5.23 replaces -> their option."""
STATED = frozenset(map(parse, _PLAIN))
"""The facts that the source of an installed release may state."""
_BESIDE = ("serve.args.attn_dp_size", "serve.args.enable_dp_attention")
"""Options that say the number of data-parallel replicas besides (0.5.22 and newer)."""
_RULES = (
    "dtype quantization kv_cache_dtype max_model_len max_num_seqs seed chunked_prefill_size enable_chunked_prefill "
    "attention_backend enable_prefix_caching enforce_eager chat_template tool_call_parser reasoning_parser "
    "speculative.method expert_parallel_size batch_invariant"
).split()
"""Facts below `serve` that only a rule tells, or a default that means "as it comes"."""


def told(given: Given | None, context: Context, reason: str) -> Iterator[Reading | Unobserved]:
    """The defaults that the source of the installed release states; why each other fact of the rules is not told."""
    installed = context.installed or Installed(version=context.version or "")
    held = {reading.fact.path for reading in given.readings} if given is not None else set()
    held |= {each.fact.path for each in given.paths} if given is not None else set()
    reason = f"{reason}; {installed.problem}" if installed.problem else reason
    for key, name in _PLAIN.items():
        if parse(key) in held:
            continue
        if name == "dp_size" and any(parse(each) in held for each in _BESIDE):
            yield Unobserved(parse(key), reason, "name it with --dp-size, or use a newer lockllm")
        else:
            yield _plain(key, name, context, installed, reason)
    for tail in _RULES:
        path: Path = parse(f"serve.{tail}")
        if path not in held:
            yield Unobserved(path, reason, "set it on the command line, or use a newer lockllm")


def _plain(key: FactKey, name: str, context: Context, installed: Installed, reason: str) -> Reading | Unobserved:
    path = parse(key)
    flag = "--" + name.replace("_", "-")
    default = installed.defaults.get(name)
    if installed.table is None:
        return Unobserved(path, reason, f"name it with {flag}, or use a newer lockllm")
    if default is None:
        why = f"SGLang {context.version} states no constant as the default of {flag}"
        return Unobserved(path, why, f"name it with {flag}, or use a newer lockllm")
    value: Any = SAMPLING_SOURCES.get(str(default.value)) if name == "sampling_defaults" else default.value
    if value is None:
        why = f"{default.source} is {default.value!r}: what comes of it only a rule of SGLang {context.version} tells"
        return Unobserved(path, why, f"name it with {flag}, or use a newer lockllm")
    reading = seen(key, value, default.source, By.DEFAULT)
    if isinstance(reading.value, Raw):
        why = f"{default.source} is {default.value!r}: no value of {key}"
        return Unobserved(path, why, f"name it with {flag}, or use a newer lockllm")
    return reading
