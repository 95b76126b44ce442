"""What an SGLang start log shows (message templates of 0.3.4 to 0.5.23)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.engines.sglang.options import BUILTIN_TEMPLATES, SAMPLING_SOURCES
from lockllm.engines.shown.log import clean, fields, value
from lockllm.facts.observation import By, Reading
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,\d]*(?P<rank>[^\]]*)\] (?P<text>.*)\Z")
_EARLY = re.compile(r"(?:WARNING|INFO|ERROR):sglang[\w.]*:(?P<text>.*)\Z")
_DUMP = re.compile(r"server_args=(?:ServerArgs\((?P<old>.*)\)|(?P<new>\{.*\}))\Z")
_READY = "The server is fired up and ready to roll!"

FIRST: tuple[tuple[FactKey, str], ...] = (
    ("checkpoint.architecture", r"Load weight end\. .*?type=(?P<v>\w+)"),
    ("serve.dtype", r"Load weight end\. .*?dtype=(?P<v>torch\.\w+)"),
    ("serve.quantization", r"Load weight end\. .*?quant=(?P<v>[^,\s]+)"),
    ("serve.kv_cache_dtype", r"Using KV cache dtype: (?P<v>[\w.]+)$"),
    ("serve.kv_cache_dtype", r"KV Cache is allocated\. dtype: (?P<v>[\w.]+), "),
    ("serve.attention_backend", r"Attention backend not (?:explicitly )?(?:specified|set)\. Use (?P<v>\w+) backend by default"),
    ("serve.attention_backend", r"Attention backend not specified\. Falling back to '(?P<v>\w+)' for deterministic"),
    ("serve.attention_backend", r"MLA optimization is turned on\. Use (?P<v>\w+) backend\.$"),
    ("serve.attention_backend", r"Using (?P<v>\w+) as attention backend for \w+\.$"),
    ("serve.max_num_seqs", r"max_total_num_tokens=\d+, .*?max_running_requests=(?P<v>\d+)"),
    ("serve.max_model_len", r"max_total_num_tokens=\d+, .*?context_len=(?P<v>\d+)"),
    ("cuda.nccl", r"sglang is using nccl==(?P<v>[\d.]+)$"),
    ("serve.chunked_prefill_size", r"max_total_num_tokens=\d+, chunked_prefill_size=(?P<v>-?\d+), "),
    ("chat_template.content_format", r"Using default HuggingFace chat template with detected content format: (?P<v>\w+)"),
    ("chat_template.content_format", r"Detected user specified Jinja chat template with content format: (?P<v>\w+)$"),
    ("chat_template.content_format", r"Detected chat template content format: (?P<v>\w+)$"),
    ("kernels.tree_cache", r"Tree cache initialized: source=\w+ impl=(?P<v>\w+)"),
)  # fmt: skip
"""Facts whose value a line holds: the first line of the first rank speaks of the target model, later ones of a draft."""

SAID: tuple[tuple[FactKey, str, Any], ...] = (
    ("kernels.all_reduce", r"NCCL_ALGO is set to 'allreduce:tree'", "nccl-tree"),
    ("kernels.all_reduce_fusion", r"Auto-enabling FlashInfer AllReduce Fusion", "flashinfer"),
    ("kernels.sampler", r"Sampling backend is set to pytorch for deterministic inference\.$", "pytorch"),
    ("serve.batch_invariant", r"Sampling backend is set to pytorch for deterministic inference\.$", True),
    (
        "serve.enable_prefix_caching",
        r"Currently radix cache is not compatible with \w+ attention backend for determin",
        False,
    ),
    ("serve.enable_prefix_caching", r"Tree cache initialized: source=\w+ impl=ChunkCache\b", False),
    ("serve.enforce_eager", r"(?i:cuda graph) is disabled because", True),
    ("serve.enforce_eager", r"Capture (?:[\w ]+ )?(?i:cuda) graph (?:begin|end)\.", False),
    ("chat_template.source", r"Using default HuggingFace chat template with detected content format", "checkpoint"),
    ("chat_template.source", r"Detected user specified Jinja chat template", "flag"),
    ("chat_template.source", r"Use chat template for the OpenAI-compatible API server:", "flag"),
    ("chat_template.source", r"No chat template found, defaulting to 'string'", "none"),
    ("chat_template.content_format", r"No chat template found, defaulting to 'string'", "string"),
)
"""Facts that a line states by being there."""

DUMPED: Mapping[str, FactKey] = {
    "tp_size": "serve.tensor_parallel_size",
    "pp_size": "serve.pipeline_parallel_size",
    "dp_size": "serve.data_parallel_size",
    "ep_size": "serve.expert_parallel_size",
    "dtype": "serve.dtype",
    "quantization": "serve.quantization",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "random_seed": "serve.seed",
    "attention_backend": "serve.attention_backend",
    "sampling_backend": "kernels.sampler",
    "moe_runner_backend": "kernels.moe_backend",
    "chunked_prefill_size": "serve.chunked_prefill_size",
    "enable_deterministic_inference": "serve.batch_invariant",
    "speculative_algorithm": "serve.speculative.method",
    "trust_remote_code": "serve.trust_remote_code",
    "page_size": "serve.page_size",
}
"""Fields of the dump that are in force as printed; `auto` and None are no values."""

_SAMPLED: Mapping[str, FactKey] = {
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "min_p": "sampling.min_p",
    "repetition_penalty": "sampling.repetition_penalty",
}
_SAMPLING = re.compile(r"Using default chat sampling params from model generation config: (\{.*\})$")
_FIRST = tuple((key, re.compile(pattern)) for key, pattern in FIRST)
_SAID = tuple((key, re.compile(pattern), said) for key, pattern, said in SAID)


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """The readings of the last start in a log."""
    messages = _last_start([_message(line) for line in clean(lines)])
    found: dict[FactKey, Any] = {}
    where: dict[FactKey, str] = {}

    def tell(key: FactKey, raw: Any, text: str) -> None:
        if raw is not None and (raw != "auto" or key == "serve.generation_config"):
            found[key] = raw
            where[key] = f"start log: {text[:60]}"

    if any(_DUMP.match(text) or _FIRST[0][1].match(text) for _, text in messages):
        tell("engine.name", "sglang", "server_args")
    for _, text in messages:
        dump = _DUMP.match(text)
        if dump:
            for key, raw in _dumped(fields(dump.group("old") or dump.group("new"))):
                tell(key, raw, "server_args")
    once: set[FactKey] = set()
    for rank, text in messages:
        if not _leads(rank):
            continue
        for key, pattern in _FIRST:
            match = pattern.match(text) if key not in once else None
            if match:
                once.add(key)
                tell(key, _number(match.group("v")), text)
        for key, pattern, said in _SAID:
            if pattern.match(text):
                tell(key, said, text)
        for key, raw in _sampling(text):
            tell(key, raw, text)
    return [seen(key, raw, where[key], By.LOG) for key, raw in found.items()]


def _message(line: str) -> tuple[str, str]:
    stamped = _STAMP.match(line)
    if stamped:
        return stamped.group("rank").strip(), stamped.group("text")
    early = _EARLY.match(line)
    return "", early.group("text") if early else line


def _leads(rank: str) -> bool:
    """Whether a rank is the first of its kind, or no rank at all."""
    return not any(part[-1] != "0" or part[-2:-1].isdigit() for part in rank.split())


def _last_start(messages: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What follows the start before the last one: lines before a dump belong to the start that prints it."""
    dumps = [at for at, (_, text) in enumerate(messages) if text.startswith("server_args=")]
    if len(dumps) < 2:
        return messages
    begin = dumps[-1]
    for at in range(dumps[-1] - 1, max(dumps[-2], dumps[-1] - 20), -1):
        if messages[at][1] == _READY:
            break
        if _before_dump(messages[at]):
            begin = at
    return messages[begin:]


def _before_dump(message: tuple[str, str]) -> bool:
    rank, text = message
    if rank or text == _READY:
        return False
    early = (
        r"Attention backend|Sampling backend|Currently radix|NCCL_ALGO|(?i:cuda graph)|Using \w+ as attention|MLA opt"
    )
    return bool(re.match(early, text))


def _dumped(dump: Mapping[str, str]) -> Iterable[tuple[FactKey, Any]]:
    for name, key in DUMPED.items():
        yield key, value(dump.get(name))
    off = value(dump.get("disable_radix_cache"))
    if isinstance(off, bool):
        yield "serve.enable_prefix_caching", not off
    chunk = value(dump.get("chunked_prefill_size"))
    if isinstance(chunk, int):
        yield "serve.enable_chunked_prefill", chunk > 0
    source = value(dump.get("sampling_defaults"))
    if source is not None:
        yield "serve.generation_config", SAMPLING_SOURCES.get(str(source), source)
    template = value(dump.get("chat_template"))
    if isinstance(template, str):
        yield "chat_template.source", "flag"
        if template in BUILTIN_TEMPLATES:
            yield "serve.chat_template", template
    eager = value(dump.get("disable_cuda_graph"))
    if eager is True:
        yield "serve.enforce_eager", True


def _sampling(text: str) -> Iterable[tuple[FactKey, Any]]:
    match = _SAMPLING.match(text)
    held = value(match.group(1)) if match else None
    if isinstance(held, dict):
        for name, key in _SAMPLED.items():
            raw = held.get(name)
            if isinstance(raw, (int, float)):
                yield key, 0 if name == "top_k" and raw < 0 else raw


def _number(text: str) -> Any:
    number = whole(text)
    return text if number is None else number
