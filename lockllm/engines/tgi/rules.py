"""TGI's defaults and rules, read at v3.3.7 (2.3 and newer agree where nothing is said), and its findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lockllm.engines import Context, Given
from lockllm.engines.kernel.releases import below, beyond
from lockllm.engines.tgi.options import QUANTIZED_IN_FLOAT16
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Raw, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

OLDEST = "2.3.0"
NEWEST = "3.3.7"
SAMPLING: Mapping[str, Any] = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0, "frequency_penalty": 0.0,
    "presence_penalty": 0.0, "max_tokens": None, "seed": None,
}  # fmt: skip
"""What `router/src/lib.rs` and `validation.rs` fill in; generation_config.json gives stop tokens only."""

_ELSEWHERE = "look at the shard's environment or the start log"
Told = Iterable["Reading | Unobserved"]


def effective(given: Given | None, context: Context) -> Told:
    """Defaults and resolved rules over what was given."""
    if context.version is not None and (beyond(context.version, NEWEST) or below(context.version, OLDEST)):
        reason = f"the rules of TGI {context.version} were not read ({OLDEST} to {NEWEST} were)"
        for group in ("serve", "sampling"):
            yield Unobserved((group,), reason, "observe the running server, or use a newer lockllm")
        return
    held: dict[Path, Any] = {reading.fact.path: reading.value for reading in (given.readings if given else ())}

    def get(key: str) -> Any:
        path = parse(key)
        for values in (held, context.checkpoint, context.host):
            value = values.get(path)
            if value is not None and value is not ABSENT and not isinstance(value, Raw):
                return value
        return None

    for key, value in SAMPLING.items():
        yield seen(("sampling", key), value, "default of TGI", By.DEFAULT)
    if parse("serve.trust_remote_code") not in held:
        yield seen("serve.trust_remote_code", False, "default of TGI", By.DEFAULT)
    if parse("serve.enable_chunked_prefill") not in held:
        yield seen("serve.enable_chunked_prefill", True, "default of TGI: PREFILL_CHUNKING", By.DEFAULT)
    if parse("serve.tensor_parallel_size") not in held:
        yield _shards(context)
    yield from _numerics(held, get)
    yield from _caches(given, held, get)
    yield from _limits(held)


def _shards(context: Context) -> Reading | Unobserved:
    """Neither `--num-shard` nor `--sharded`: as many as the container shows."""
    env = context.env
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        text = env.get(name)
        if text is None:
            continue
        if name == "NVIDIA_VISIBLE_DEVICES" and text in ("all", "void"):
            count = context.host.get(("host", "gpu_count"))
            if isinstance(count, int):
                return seen("serve.tensor_parallel_size", count, f"TGI: {name}={text}: every GPU", By.RULE)
            return Unobserved(("serve", "tensor_parallel_size"), f"{name}={text} takes every GPU", "give --num-shard N")
        return seen("serve.tensor_parallel_size", len(text.split(",")), f"TGI: {name}", By.RULE)
    if not env:
        return Unobserved(("serve", "tensor_parallel_size"), "it follows the visible devices", "give --num-shard N")
    return seen("serve.tensor_parallel_size", 1, "TGI: no device list is set", By.RULE)


def _numerics(held: dict[Path, Any], get: Any) -> Told:
    if parse("serve.quantization") not in held:
        method = get("quantization.method")
        if method is not None:
            yield seen("serve.quantization", method, "TGI: config.json: quantization_config", By.RULE)
            held[("serve", "quantization")] = method
        else:
            yield Unobserved(
                ("serve", "quantization"), "it follows the checkpoint, which is not seen", "give --quantize"
            )
    if parse("serve.dtype") not in held:
        if get("serve.quantization") in QUANTIZED_IN_FLOAT16:
            yield seen("serve.dtype", "float16", "TGI: this quantization runs in float16", By.RULE)
            held[("serve", "dtype")] = "float16"
        else:
            yield Unobserved(("serve", "dtype"), "each model class has a dtype of its own", "give --dtype")
    if parse("serve.kv_cache_dtype") not in held:
        stored = str(get("quantization.kv_cache") or "").lower()
        if stored.startswith(("fp8", "float8")) and get("serve.attention_backend") == "flashinfer":
            yield seen("serve.kv_cache_dtype", "fp8_e4m3fn", "TGI: the checkpoint's FP8 cache with flashinfer", By.RULE)
        elif get("serve.dtype") is not None and not stored.startswith(("fp8", "float8")):
            yield seen("serve.kv_cache_dtype", get("serve.dtype"), "TGI: the model's dtype", By.RULE)
        else:
            yield Unobserved(("serve", "kv_cache_dtype"), "it follows the model's dtype", "give --kv-cache-dtype")


def _caches(given: Given | None, held: Mapping[Path, Any], get: Any) -> Told:
    capability = str(get("host.compute_capability") or "").partition(".")[0]
    old = (whole(capability) or 8) < 8
    if parse("serve.attention_backend") not in held:
        if old:
            yield seen("serve.attention_backend", "paged", "TGI: compute capability below 8.0", By.RULE)
        else:
            reason = "flashinfer, or flashdecoding for some head sizes and families"
            yield Unobserved(("serve", "attention_backend"), reason, f"set ATTENTION, or {_ELSEWHERE}")
    if parse("serve.enable_prefix_caching") not in held:
        if old or (given and given.adapters) or get("serve.attention_backend") == "paged":
            yield seen("serve.enable_prefix_caching", False, "TGI: off with adapters and with paged attention", By.RULE)
        else:
            reason = "on, but for vision models and some head sizes"
            yield Unobserved(("serve", "enable_prefix_caching"), reason, f"set PREFIX_CACHING, or {_ELSEWHERE}")
    if parse("serve.enforce_eager") not in held:
        method = str(get("serve.quantization") or "")
        eager = method.startswith("bitsandbytes") or method == "exl2" or bool(given and given.adapters)
        if method or given:
            yield seen("serve.enforce_eager", eager, "TGI: no graphs with bitsandbytes, exl2 and adapters", By.RULE)


def _limits(held: Mapping[Path, Any]) -> Told:
    for name, flag in (
        ("max_model_len", "--max-total-tokens"),
        ("max_num_batched_tokens", "--max-batch-prefill-tokens"),
    ):
        if ("serve", name) not in held:
            yield Unobserved(("serve", name), "it is fitted to GPU and free memory at start", f"give {flag} N")
    if ("serve", "max_num_seqs") not in held:
        yield Unobserved(("serve", "max_num_seqs"), "it follows free memory at start", "give --max-batch-size N")


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings that need no lock."""
    if context.checkpoint.get(("chat_template", "source")) == "chat_template.jinja":
        yield Check(
            "check.one_template", CheckStatus.FAIL, "TGI does not read chat_template.jinja: chats fail, or another one wins",
            "chat_template.jinja", "put the template into tokenizer_config.json",
        )  # fmt: skip
    if given is None:
        return
    held = {reading.fact.path: reading.value for reading in given.readings}
    quantized, dtype = held.get(("serve", "quantization")), held.get(("serve", "dtype"))
    if quantized is not None and dtype is not None and not str(quantized).startswith("bitsandbytes"):
        yield Check(
            "check.flags_accepted", CheckStatus.FAIL, "--dtype and --quantize exclude each other",
            "argument --dtype", "leave one of them out",
        )  # fmt: skip
