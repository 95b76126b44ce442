"""What a vLLM server says over HTTP: the open endpoints, and `/server_info` where the development mode opens it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lockllm.engines import Answer, Context, Probe
from lockllm.engines.kernel.releases import beyond
from lockllm.engines.vllm.options import NEWEST
from lockllm.engines.vllm.server_info import server_info
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen

_ASK = [{"role": "user", "content": "Hello"}]
VERSION = Probe(path="/version")
MODELS = Probe(path="/v1/models")
METRICS = Probe(path="/metrics", accept="text/plain")
SERVER_INFO = Probe(path="/server_info?config_format=json")
TOKENIZE = Probe(path="/tokenize", method="POST", body={"prompt": "Hello", "add_special_tokens": True})
TOKENIZER_INFO = Probe(path="/tokenizer_info")
RENDER = Probe(path="/v1/chat/completions/render", method="POST", body={"messages": _ASK})
RESPONSES = Probe(
    path="/v1/responses", method="POST", body={"input": "Hello", "max_output_tokens": 1, "store": False}, generates=True
)
CHAT = Probe(path="/v1/chat/completions", method="POST", body={"messages": _ASK, "max_tokens": 1}, generates=True)
PROBES = (VERSION, MODELS, METRICS, SERVER_INFO, TOKENIZE, TOKENIZER_INFO, RENDER, RESPONSES, CHAT)
"""Paths that only look or compute. Two generate a token, and show what no open endpoint shows.

The response of `/v1/responses` holds the sampling parameters of the request, resolved by the defaults in force (0.31.0 to
0.33.0, `entrypoints/openai/responses/protocol.py`: `ResponsesResponse.from_request`); a chat completion the fingerprint.
"""

_DEV = "start the server with VLLM_SERVER_DEV_MODE=1, or name its log with --log"
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_FINGERPRINT = re.compile(
    r"vllm-(?P<v>[^-]+)(?:-tp(?P<tp>\d{1,9}))?(?:-pp(?P<pp>\d{1,9}))?(?:-dp(?P<dp>\d{1,9}))?(?:-ep)?-[0-9a-f]{8}\Z"
)
_MOST_LINES = 50_000
HIDDEN = {
    "serve.dtype": "no open endpoint shows it",
    "serve.quantization": "no open endpoint shows it",
    "serve.seed": "no open endpoint shows it",
    "serve.enforce_eager": "no open endpoint shows it",
    "serve.max_num_seqs": "no open endpoint shows it",
    "serve.max_num_batched_tokens": "no open endpoint shows it",
    "serve.batch_invariant": "no open endpoint shows it",
    "serve.generation_config": "no open endpoint shows it",
}
"""What `/server_info` alone shows."""


def detect(answers: Sequence[Answer]) -> bool:
    """Whether vLLM answers: it owns its models, exports its metrics, or keeps its own configuration tree."""
    for answer in answers:
        if answer.status != 200:
            continue
        path = answer.probe.path
        body = answer.json
        if path == MODELS.path and any(model.get("owned_by") == "vllm" for model in _models(body)):
            return True
        if path == METRICS.path and "vllm:" in answer.text:
            return True
        if path == SERVER_INFO.path and isinstance(body, dict) and "vllm_config" in body:
            return True
    return False


def from_http(answers: Sequence[Answer], context: Context) -> Iterable[Reading | Unobserved]:
    """Readings of every answer; what no answer shows is not observed, with what would show it."""
    readers: dict[str, Callable[[Answer], Iterable[Reading | Unobserved]]] = {
        VERSION.path: _version,
        MODELS.path: _served,
        METRICS.path: _metrics,
        SERVER_INFO.path: server_info,
        TOKENIZE.path: _tokenize,
        TOKENIZER_INFO.path: _template,
        RENDER.path: _rendered,
        RESPONSES.path: _echoed,
        CHAT.path: _fingerprint,
    }
    told: set[Path] = set()
    for answer in answers:
        reader = readers.get(answer.probe.path)
        if reader is None or answer.status != 200:
            continue
        for reading in reader(answer):
            told.add(reading.fact.path if isinstance(reading, Reading) else reading.path)
            yield reading
    if answers and detect(answers):
        if ("engine", "name") not in told:
            yield seen("engine.name", "vllm", "its answers", By.ENDPOINT)
        yield from _hidden(told, context)


def _hidden(told: set[Path], context: Context) -> Iterator[Unobserved]:
    newer = beyond(context.version, NEWEST)
    for key, reason in HIDDEN.items():
        path = parse(key)
        if path not in told:
            yield Unobserved(path, f"{reason}{' of this release' if newer else ''}", _DEV)


def _version(answer: Answer) -> Iterator[Reading | Unobserved]:
    body = answer.json
    version = body.get("version") if isinstance(body, dict) else None
    if not isinstance(version, str) or not version or len(version) > 100:
        yield Unobserved(("engine", "version"), f"{answer.source} holds no version", "check what answers there")
        return
    yield seen("engine.version", version.partition("+")[0], answer.source, By.ENDPOINT)
    if "+" in version:
        yield seen("engine.build", version.partition("+")[2], answer.source, By.ENDPOINT)
    rust = body.get("rust_frontend_version") if isinstance(body, dict) else None
    if isinstance(rust, str):
        yield seen(("engine", "bundled", "rust_frontend"), rust, answer.source, By.ENDPOINT)


def _served(answer: Answer) -> Iterator[Reading | Unobserved]:
    models = list(_models(answer.json))
    base = [model for model in models if not model.get("parent")]
    if not base:
        yield Unobserved(("serve", "max_model_len"), f"{answer.source} lists no model", "check what answers there")
        return
    root, length = base[0].get("root"), base[0].get("max_model_len")
    if _is_repo(root):
        yield seen("checkpoint.repo", root, f"{answer.source}: root", By.ENDPOINT)
    if isinstance(length, int) and not isinstance(length, bool):
        yield seen("serve.max_model_len", length, f"{answer.source}: max_model_len", By.ENDPOINT)
    for model in models:
        if model.get("parent") and isinstance(model.get("id"), str) and _is_repo(model.get("root")):
            yield seen(("adapters", model["id"], "repo"), model["root"], f"{answer.source}: root", By.ENDPOINT)


def _is_repo(root: Any) -> bool:
    """Whether a text has the shape `owner/name` and is no visible path."""
    return isinstance(root, str) and root.count("/") == 1 and not root.startswith(("/", ".", "~"))


def _models(body: Any) -> Iterator[Mapping[str, Any]]:
    data = body.get("data") if isinstance(body, dict) else None
    if isinstance(data, list):
        yield from (model for model in data[:1000] if isinstance(model, dict))


def _metrics(answer: Answer) -> Iterator[Reading | Unobserved]:
    """`vllm:cache_config_info`: a label for each attribute of the cache configuration, resolved."""
    for number, line in enumerate(answer.text.splitlines()):
        if number > _MOST_LINES:
            break
        if line.startswith("vllm:cache_config_info{"):
            yield from _cache(dict(_LABEL.findall(line[:20_000])), f"{answer.source}: vllm:cache_config_info")
            return
    yield Unobserved(("serve", "enable_prefix_caching"), "the metrics hold no vllm:cache_config_info", _DEV)


def _cache(labels: Mapping[str, str], source: str) -> Iterator[Reading | Unobserved]:
    caching = {"True": True, "False": False, "None": False}.get(labels.get("enable_prefix_caching", ""))
    if caching is not None:
        yield seen("serve.enable_prefix_caching", caching, source, By.ENDPOINT)
    kept = labels.get("cache_dtype", "")
    if kept and kept != "auto":
        yield seen("serve.kv_cache_dtype", kept, source, By.ENDPOINT)
    elif kept:
        reason = "it is that of the model, which the metrics do not name"
        yield Unobserved(("serve", "kv_cache_dtype"), reason, "start the server with --kv-cache-dtype, or " + _DEV)
    share = labels.get("gpu_memory_utilization", "")
    if re.fullmatch(r"[01](\.\d{1,6})?", share):
        yield seen("serve.gpu_memory_share", float(share), source, By.ENDPOINT)


def _tokenize(answer: Answer) -> Iterator[Reading]:
    body = answer.json
    length = body.get("max_model_len") if isinstance(body, dict) else None
    if isinstance(length, int) and not isinstance(length, bool):
        yield seen("serve.max_model_len", length, f"{answer.source}: max_model_len", By.ENDPOINT)


def _template(answer: Answer) -> Iterator[Reading]:
    body = answer.json
    text = body.get("chat_template") if isinstance(body, dict) else None
    if isinstance(text, str) and text:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        yield seen("chat_template.sha256", digest, f"{answer.source}: chat_template", By.ENDPOINT)


_SAMPLED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")


def _rendered(answer: Answer) -> Iterator[Reading]:
    """`sampling_params` of a rendered chat: the defaults in force.

    Fields at their own default are left out: top_k 0.
    """
    body = answer.json
    found = body.get("sampling_params") if isinstance(body, dict) else None
    if not isinstance(found, dict) or "temperature" not in found:
        return
    source = f"{answer.source}: sampling_params"
    for name in _SAMPLED:
        value = found.get(name, 0 if name == "top_k" else None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield seen(("sampling", name), max(value, 0) if name == "top_k" else value, source, By.ENDPOINT)


def _echoed(answer: Answer) -> Iterator[Reading]:
    """The parameters of a request that set none. A temperature of 0 puts `top_p` out of force (`SamplingParams`)."""
    body = answer.json
    if not isinstance(body, dict):
        return
    greedy = body.get("temperature") == 0
    for name in ("temperature", *(() if greedy else ("top_p",)), "presence_penalty", "frequency_penalty"):
        value = body.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield seen(("sampling", name), value, f"{answer.source}: {name}", By.ENDPOINT)


def _fingerprint(answer: Answer) -> Iterator[Reading]:
    text = answer.json.get("system_fingerprint") if isinstance(answer.json, dict) else None
    if isinstance(text, str):
        yield from from_fingerprint(text, f"{answer.source}: system_fingerprint")


def from_fingerprint(text: str, source: str) -> Iterator[Reading]:
    """The parallel sizes that a `system_fingerprint` names, where it is of the full form."""
    found = _FINGERPRINT.match(text) if len(text) < 200 else None
    if found is None:
        return
    sizes = (("tp", "tensor_parallel_size"), ("pp", "pipeline_parallel_size"), ("dp", "data_parallel_size"))
    for short, name in sizes:
        if found.group(short):
            yield seen(("serve", name), int(found.group(short)), source, By.ENDPOINT)
