"""What SGLang's endpoints show: `/server_info` holds the resolved configuration, and its keys in clear (never read here)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.engines import Answer, Context, Form, Given, Probe
from lockllm.engines.kernel.collect import is_path
from lockllm.engines.kernel.releases import at_least
from lockllm.engines.kernel.values import leaves, secret_name
from lockllm.engines.sglang import given as _given
from lockllm.engines.sglang.options import BUILTIN_TEMPLATES, SAMPLING_SOURCES
from lockllm.engines.sglang.rules import effective
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import find, read, seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

PROBES = (
    Probe(path="/server_info"),
    Probe(path="/get_server_info"),
    Probe(path="/model_info"),
    Probe(path="/get_model_info"),
    Probe(path="/v1/models"),
    Probe(path="/v1/loads"),
)
"""`/flush_cache` and its like are never asked; `/health_generate` makes a token."""

_INFO = ("/server_info", "/get_server_info")
_MODEL = ("/model_info", "/get_model_info")

PLAIN: Mapping[str, FactKey] = {
    "tp_size": "serve.tensor_parallel_size",
    "pp_size": "serve.pipeline_parallel_size",
    "dp_size": "serve.data_parallel_size",
    "ep_size": "serve.expert_parallel_size",
    "dtype": "serve.dtype",
    "quantization": "serve.quantization",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "attention_backend": "serve.attention_backend",
    "random_seed": "serve.seed",
    "load_format": "serve.load_format",
    "trust_remote_code": "serve.trust_remote_code",
    "enable_deterministic_inference": "serve.batch_invariant",
    "chunked_prefill_size": "serve.chunked_prefill_size",
    "page_size": "serve.page_size",
    "mem_fraction_static": "serve.gpu_memory_share",
    "sampling_backend": "kernels.sampler",
    "moe_runner_backend": "kernels.moe_backend",
    "grammar_backend": "serve.structured_output",
    "tokenizer_mode": "tokenizer.mode",
    "revision": "checkpoint.revision",
}
"""Field -> fact; null and `auto` are no values."""

KERNELS = tuple(
    """
    moe_runner_backend fp8_gemm_runner_backend fp4_gemm_runner_backend bf16_gemm_backend mm_attention_backend
    prefill_attention_backend decode_attention_backend linear_attn_backend mamba_backend moe_a2a_backend lora_backend
    dsa_prefill_backend dsa_decode_backend dsa_topk_backend dsa_paged_mqa_logits_backend dsv4_prefill_backend
    dsv4_attn_backend speculative_moe_runner_backend flashinfer_allreduce_fusion_backend
    """.split()
)
"""Fields that choose kernels: `kernels.FIELD`. Here `auto` is a value, what the server ends up with: it chooses at each call."""

_RESOLVED_LATER: Mapping[str, FactKey] = {
    "dtype": "serve.dtype",
    "quantization": "serve.quantization",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "attention_backend": "serve.attention_backend",
}
"""Fields that the worker resolves: `auto` and null stay in the answer."""

MAYBE: Mapping[str, FactKey] = {
    "reasoning_parser": "serve.reasoning_parser",
    "tool_call_parser": "serve.tool_call_parser",
    "speculative_algorithm": "serve.speculative.method",
}
"""Field -> fact; null says that there is none."""

_DRAFTED: Mapping[str, FactKey] = {
    "speculative_num_steps": "serve.speculative.num_steps",
    "speculative_eagle_topk": "serve.speculative.eagle_topk",
    "speculative_num_draft_tokens": "serve.speculative.num_draft_tokens",
}

Told = Iterable["Reading | Unobserved"]


def detect(answers: Sequence[Answer]) -> bool:
    """Whether these answers are SGLang's."""
    info = _json(answers, _INFO)
    if isinstance(info, dict) and "tp_size" in info and ("random_seed" in info or "internal_states" in info):
        return True
    models = _json(answers, ("/v1/models",))
    data = models.get("data") if isinstance(models, dict) else None
    return isinstance(data, list) and any(isinstance(each, dict) and each.get("owned_by") == "sglang" for each in data)


def from_http(answers: Sequence[Answer], context: Context) -> Told:
    """Readings that the endpoints give."""
    info, source = _found(answers, _INFO)
    if isinstance(info, dict):
        yield from _info(info, source, context)
    else:
        yield _missing(answers)
    model, source = _found(answers, _MODEL)
    if isinstance(model, dict):
        named = model.get("architectures")
        if isinstance(named, list) and named and isinstance(named[0], str):
            yield seen("checkpoint.architecture", named[0], source, By.ENDPOINT)
    yield from _length(answers)
    loads, source = _found(answers, ("/v1/loads",))
    if isinstance(loads, dict) and isinstance(loads.get("accelerator"), str):
        yield seen("host.gpu", loads["accelerator"], source, By.ENDPOINT)


def _missing(answers: Sequence[Answer]) -> Unobserved:
    statuses = {answer.status for answer in answers if answer.probe.path in _INFO}
    if statuses & {401, 403}:
        return Unobserved(
            ("serve",), "/server_info asks for a key", "name the variable that holds it: --api-key-env NAME"
        )
    if 503 in statuses:
        return Unobserved(("serve",), "the server is still loading", "ask again later: --wait SECONDS")
    return Unobserved(
        ("serve",), "/server_info gives no configuration", "look at the process: run lockllm on that host"
    )


def _info(info: Mapping[str, Any], source: str, context: Context) -> Told:
    yield seen("engine.name", "sglang", source, By.ENDPOINT)
    version = info.get("version")
    if isinstance(version, str) and not version.startswith("0.0.0"):
        yield seen("engine.version", version, source, By.ENDPOINT)
        if built := re.search(r"\+(?:[\w.]*\.)?g([0-9a-f]{7,40})", version):
            yield seen("engine.build", built.group(1), f"{source}: version", By.ENDPOINT)
    elif isinstance(version, str):
        yield Unobserved(("engine", "version"), "a build without version information", "look at its metadata")
    shared = info.get("enable_dp_attention") is True and info.get("dp_size") != 1
    if shared:
        reason = "with DP attention the server shows each rank's share of what was asked"
        yield Unobserved(("serve", "chunked_prefill_size"), reason, "look at the process: run lockllm on that host")
    for name, key in {**PLAIN, **_DRAFTED}.items():
        value = info.get(name) if not shared or name != "chunked_prefill_size" else None
        if value is not None and value != "auto" and not (name == "quantization" and value == ""):
            yield seen(key, value, f"{source}: {name}", By.ENDPOINT)
    for name in KERNELS:
        if isinstance(info.get(name), str):
            yield seen(("kernels", name), info[name], f"{source}: {name}", By.ENDPOINT)
    for name, key in _RESOLVED_LATER.items():
        if name in info and info[name] in (None, "auto"):
            reason = f"the server shows {name} as {'auto' if info[name] else 'null'}, not what came of it"
            yield Unobserved(parse(key), reason, "look from the server's own host, or name its start log with --log")
    for name, key in MAYBE.items():
        if name in info:
            yield seen(key, info[name], f"{source}: {name}", By.ENDPOINT)
    yield from _derived(info, source)
    yield from _template(info, source)
    yield from _sampling(info, source, context)
    yield from _kept(info, source, context)


def _derived(info: Mapping[str, Any], source: str) -> Told:
    off = info.get("disable_radix_cache")
    if isinstance(off, bool):
        yield seen("serve.enable_prefix_caching", not off, f"{source}: disable_radix_cache", By.ENDPOINT)
    chunk = info.get("chunked_prefill_size")
    if isinstance(chunk, int):
        yield seen("serve.enable_chunked_prefill", chunk > 0, f"{source}: chunked_prefill_size", By.ENDPOINT)
    eager = _eager(info)
    if eager is not None:
        yield seen("serve.enforce_eager", eager, f"{source}: cuda_graph_config", By.ENDPOINT)
    asked = info.get("max_running_requests")
    if isinstance(asked, int):
        yield seen("serve.max_num_seqs", asked, f"{source}: max_running_requests", By.ENDPOINT)
        return
    states = info.get("internal_states")
    state = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    each = state.get("effective_max_running_requests_per_dp")
    if isinstance(each, int) and info.get("dp_size") == 1:
        where = f"{source}: internal_states[0].effective_max_running_requests_per_dp"
        yield seen("serve.max_num_seqs", each, where, By.ENDPOINT)


def _eager(info: Mapping[str, Any]) -> bool | None:
    """Whether no graph is captured, neither for decoding nor for prefill."""
    config = info.get("cuda_graph_config")
    if isinstance(config, dict):
        backends = [part.get("backend") for part in config.values() if isinstance(part, dict)]
        if backends and all(isinstance(backend, str) for backend in backends):
            return all(backend == "disabled" for backend in backends)
    off = info.get("disable_cuda_graph")
    return off if isinstance(off, bool) else None


def _template(info: Mapping[str, Any], source: str) -> Told:
    if "chat_template" in info:
        value = info["chat_template"]
        if value is None:
            yield seen("serve.chat_template", None, f"{source}: chat_template", By.ENDPOINT)
        elif isinstance(value, str) and value in BUILTIN_TEMPLATES:
            yield seen("serve.chat_template", value, f"{source}: chat_template", By.ENDPOINT)
        else:
            reason = "the server names a file whose text no endpoint shows"
            yield Unobserved(("serve", "chat_template"), reason, "run lockllm on that host")
    kwargs = info.get("default_chat_template_kwargs")
    if isinstance(kwargs, dict):
        for path, value in leaves(kwargs, ("serve", "chat_template_kwargs")):
            yield seen(path, value, f"{source}: default_chat_template_kwargs", By.ENDPOINT)


def _sampling(info: Mapping[str, Any], source: str, context: Context) -> Told:
    defaults = info.get("sampling_defaults")
    if not isinstance(defaults, str):
        return
    value = SAMPLING_SOURCES.get(defaults, defaults)
    yield seen("serve.generation_config", value, f"{source}: sampling_defaults", By.ENDPOINT)
    version = info.get("version") if isinstance(info.get("version"), str) else context.version
    if version is None:
        return
    fact = find(("serve", "generation_config"))
    given = Given(engine="sglang", readings=(Reading(fact, read(fact, value), source, By.ENDPOINT),))
    told = Context(version=version, checkpoint=context.checkpoint, packages=context.packages)
    for each in effective(given, told):
        path = each.fact.path if isinstance(each, Reading) else each.path
        if path[0] == "sampling" and path != ("sampling",):
            yield each


def _kept(info: Mapping[str, Any], source: str, context: Context) -> Told:
    """Kept options of the command line, which 0.5.20 and newer repeat, with the values in force."""
    words = info.get("launch_command")
    if not isinstance(words, str) or not at_least(str(info.get("version")), "0.5.20"):
        return
    try:
        args = tuple(shlex.split(words[:100_000]))
    except ValueError:
        return
    form = Form(engine="sglang", args=_arguments(args), program=("python3", "-m", "sglang.launch_server"))
    version = str(info.get("version"))
    own = context.installed if context.installed is not None and context.installed.version == version else None
    told = _given.given(form, {}, {}, version, True, own)
    for reading in told.readings:
        path: Path = reading.fact.path
        if path[:2] != ("serve", "args") or any(secret_name(part) for part in path):
            continue
        current = info.get(path[2]) if len(path) == 3 else None
        if isinstance(current, (bool, int, float)) or (isinstance(current, str) and not is_path(current)):
            yield seen(path, current, f"{source}: {path[2]}", By.ENDPOINT)
        else:
            yield Reading(reading.fact, reading.value, f"{source}: launch_command", By.ENDPOINT)


def _arguments(words: tuple[str, ...]) -> tuple[str, ...]:
    """The server's own arguments of a repeated command line."""
    start = next((at for at, word in enumerate(words) if word.startswith("--")), 0)
    return words[start:]


def _length(answers: Sequence[Answer]) -> Told:
    models, source = _found(answers, ("/v1/models",))
    data = models.get("data") if isinstance(models, dict) else None
    for each in data if isinstance(data, list) else ():
        if isinstance(each, dict) and each.get("parent") is None and isinstance(each.get("max_model_len"), int):
            yield seen("serve.max_model_len", each["max_model_len"], f"{source}: max_model_len", By.ENDPOINT)
            return


def _json(answers: Sequence[Answer], paths: Sequence[str]) -> Any:
    return _found(answers, paths)[0]


def _found(answers: Sequence[Answer], paths: Sequence[str]) -> tuple[Any, str]:
    for path in paths:
        for answer in answers:
            if answer.probe.path == path and answer.status == 200 and answer.json is not None:
                return answer.json, answer.source
    return None, ""
