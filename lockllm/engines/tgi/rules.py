"""TGI's defaults and rules, read at v3.3.7 (2.3 and newer agree where nothing is said), and its findings."""

from __future__ import annotations

from collections.abc import Iterable

from lockllm.engines.kernel.rules import Case, Rule, Rules, Told, constants, kept
from lockllm.engines.protocol import Context, Given
from lockllm.engines.tgi.options import QUANTIZED_IN_FLOAT16
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Check, CheckStatus, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

NEWEST = "3.3.7"
_ELSEWHERE = "look at the shard's environment or the start log"


def _rule(key: str, value: object, why: str) -> Told:
    return seen(parse(key), value, f"TGI: {why}", By.RULE)


def _shards(case: Case) -> Told:
    """Neither `--num-shard` nor `--sharded`: as many as the container shows."""
    path, env = ("serve", "tensor_parallel_size"), case.context.env
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
        text = env.get(name)
        if text is None:
            continue
        if name == "NVIDIA_VISIBLE_DEVICES" and text in ("all", "void"):
            count = case.context.host.get(("host", "gpu_count"))
            if isinstance(count, int):
                return _rule("serve.tensor_parallel_size", count, f"{name}={text}: every GPU")
            return Unobserved(path, f"{name}={text} takes every GPU", "give --num-shard N")
        return _rule("serve.tensor_parallel_size", len(text.split(",")), name)
    if not env:
        return Unobserved(path, "it follows the visible devices", "give --num-shard N")
    return _rule("serve.tensor_parallel_size", 1, "no device list is set")


def _quantization(case: Case) -> Told:
    method = case.get("quantization.method")
    if method is not None:
        return _rule("serve.quantization", method, "config.json: quantization_config")
    return Unobserved(("serve", "quantization"), "it follows the checkpoint, which is not seen", "give --quantize")


def _dtype(case: Case) -> Told:
    if case.get("serve.quantization") in QUANTIZED_IN_FLOAT16:
        return _rule("serve.dtype", "float16", "this quantization runs in float16")
    return Unobserved(("serve", "dtype"), "each model class has a dtype of its own", "give --dtype")


def _kv_cache(case: Case) -> Told:
    fp8 = str(case.get("quantization.kv_cache") or "").lower().startswith(("fp8", "float8"))
    if fp8 and case.get("serve.attention_backend") == "flashinfer":
        return _rule("serve.kv_cache_dtype", "fp8_e4m3fn", "the checkpoint's FP8 cache with flashinfer")
    if case.get("serve.dtype") is not None and not fp8:
        return _rule("serve.kv_cache_dtype", case.get("serve.dtype"), "the model's dtype")
    return Unobserved(("serve", "kv_cache_dtype"), "it follows the model's dtype", "give --kv-cache-dtype")


def _is_old(case: Case) -> bool:
    return (whole(str(case.get("host.compute_capability") or "").partition(".")[0]) or 8) < 8


def _attention(case: Case) -> Told:
    if _is_old(case):
        return _rule("serve.attention_backend", "paged", "compute capability below 8.0")
    reason = "flashinfer, or flashdecoding for some head sizes and families"
    return Unobserved(("serve", "attention_backend"), reason, f"set ATTENTION, or {_ELSEWHERE}")


def _prefix_caching(case: Case) -> Told:
    if _is_old(case) or (case.given and case.given.adapters) or case.get("serve.attention_backend") == "paged":
        return _rule("serve.enable_prefix_caching", False, "off with adapters and with paged attention")
    reason = "on, but for vision models and some head sizes"
    return Unobserved(("serve", "enable_prefix_caching"), reason, f"set PREFIX_CACHING, or {_ELSEWHERE}")


def _eager(case: Case) -> Told | None:
    method, given = str(case.get("serve.quantization") or ""), case.given
    if not method and not given:
        return None
    eager = method.startswith("bitsandbytes") or method == "exl2" or bool(given and given.adapters)
    return _rule("serve.enforce_eager", eager, "no graphs with bitsandbytes, exl2 and adapters")


def _fitted(name: str, flag: str, says: str = "") -> Rule:
    reason = (
        "it is fitted to GPU and free memory at start" if name != "max_num_seqs" else "it follows free memory at start"
    )
    work = Unobserved(("serve", name), reason, f"give {flag} N")
    return Rule(fact=f"serve.{name}", work=lambda case: work, says=says)


RULES = Rules(
    label="TGI",
    oldest="2.3.0",
    newest=NEWEST,
    unversioned=True,
    rows=(
        # `router/src/lib.rs` and `validation.rs` fill these in; generation_config.json gives stop tokens only.
        *constants(
            {
                "sampling.top_p": 1.0, "sampling.repetition_penalty": 1.0,
                "sampling.frequency_penalty": 0.0, "sampling.presence_penalty": 0.0, "sampling.seed": None,
            },
            over_given=True,
        ),
        Rule(fact="sampling.temperature", value=1.0, says="1.0; generation_config.json is not read for sampling", over_given=True),
        Rule(fact="sampling.top_k", value=0, says="off", over_given=True),
        Rule(fact="sampling.max_tokens", value=None, says="what fits", over_given=True),
        Rule(fact="serve.trust_remote_code", value=False),
        Rule(fact="serve.enable_chunked_prefill", value=True, source="PREFILL_CHUNKING"),
        Rule(fact="serve.tensor_parallel_size", work=_shards,
             says="as many as CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES names, else 1"),
        Rule(fact="serve.quantization", work=_quantization, says="the checkpoint's method"),
        Rule(fact="serve.dtype", work=_dtype, says="each model class's own; float16 with awq, exl2, gptq and marlin"),
        Rule(fact="serve.kv_cache_dtype", work=_kv_cache,
             says="the model's dtype; fp8_e4m3fn where the checkpoint asks for it and attention is flashinfer"),
        Rule(fact="serve.attention_backend", work=_attention,
             says="flashinfer; paged below compute capability 8.0, flashdecoding for some head sizes"),
        Rule(fact="serve.enable_prefix_caching", work=_prefix_caching, says="true; off for vision models, adapters, paged attention"),
        Rule(fact="serve.enforce_eager", work=_eager, says="false; true with bitsandbytes, exl2 and adapters"),
        _fitted("max_model_len", "--max-total-tokens", "what fits, at most the checkpoint's context"),
        _fitted("max_num_batched_tokens", "--max-batch-prefill-tokens", "computed from the GPU and the model"),
        _fitted("max_num_seqs", "--max-batch-size"),
        *kept(
            {
                "max_waiting_tokens": 20, "waiting_served_ratio": 0.3, "max_concurrent_requests": 128,
                "cuda_memory_fraction": 1.0, "cuda_graphs": "1,2,4,8,16,32",
            },
            since=NEWEST, source="launcher/src/main.rs",
        ),
        Rule(fact="serve.gpu_memory_share", value=1.0, since=NEWEST, only_omitted=True),
    ),
)  # fmt: skip
effective = RULES.effective
omitted = RULES.omitted


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
