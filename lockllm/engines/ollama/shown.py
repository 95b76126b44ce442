"""What Ollama shows: `/api/version`, `/api/ps`, `/api/tags`, and its log with the runners' own lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lockllm.engines import Answer, Context, Form, Probe
from lockllm.engines.ollama.given import given
from lockllm.engines.shown import llama_lines as llama
from lockllm.engines.shown.log import clean
from lockllm.facts.observation import ABSENT, By, Reading, Unobserved
from lockllm.facts.registry import find, seen
from lockllm.facts.types import whole

PROBES = (
    Probe(path="/api/version"),
    Probe(path="/api/ps"),
    Probe(path="/api/tags"),
    Probe(path="/", accept="text/plain"),
)
_MOST = 5_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"(\d+\.\d+\.\d+(?:-rc\d+)?)(?:-(\d+)-g([0-9a-f]{7,}))?(-dirty)?\Z")
_LISTENING = re.compile(r'msg="Listening on \S+ \(version (?P<v>[^)]+)\)"')
_COMMAND = re.compile(r'msg="starting (?:runner|llama server|llama-server)" cmd="(?P<c>[^"]+)"')
_LOAD = re.compile(r'msg=load request="\{(?P<c>.*)\}"')
_GPU = re.compile(r'msg="inference compute" (?P<kv>.*)$')
_PAIR = re.compile(r'(\w+)=("[^"]*"|\S+)')
_TYPE = re.compile(r'msg="" architecture=(?P<a>\S+) file_type=(?P<f>\S+)')
_FLASH = re.compile(r'msg="enabling flash attention"')


def detect(answers: Sequence[Answer]) -> bool:
    """Whether these answers are Ollama's."""
    for answer in answers:
        if answer.probe.path == "/" and "Ollama is running" in answer.text[:200]:
            return True
    tags = _json(answers, "/api/tags")
    return isinstance(tags, dict) and "models" in tags and _json(answers, "/api/version") is not None


def from_http(answers: Sequence[Answer], context: Context) -> Iterable[Reading | Unobserved]:
    """Readings that the endpoints give. A model that is not loaded has no runner to ask."""
    if not detect(answers):
        return
    yield seen("engine.name", "ollama", "GET /", By.ENDPOINT)
    said = _json(answers, "/api/version")
    yield from _version(said.get("version") if isinstance(said, dict) else None)
    wanted = _canonical(context.locked_model)
    models = _models(answers, "/api/ps")
    own = [each for each in models if wanted and _canonical(each.get("name")) == wanted]
    if not models:
        yield Unobserved(
            ("serve",), "no model is loaded: there is no runner to look at", "send it a request, then look again"
        )
        yield from _stored(_models(answers, "/api/tags"), wanted)
    elif len(models) > 1 and len(own) != 1:
        names = ", ".join(str(each.get("name")) for each in models[:5])
        yield Unobserved(
            ("serve",), f"several models are loaded: {names}", "unload all but one, or look at the runner's process"
        )
    else:
        yield from _loaded((own or models)[0])


def _models(answers: Sequence[Answer], path: str) -> list[Mapping[str, Any]]:
    body = _json(answers, path)
    rows = body.get("models") if isinstance(body, dict) else None
    return [each for each in rows[:_MOST] if isinstance(each, dict)] if isinstance(rows, list) else []


def _canonical(name: object) -> str:
    """`qwen3`, `library/qwen3:latest` and `registry.ollama.ai/library/qwen3:latest` are one name."""
    if not isinstance(name, str) or not name:
        return ""
    plain = name.removeprefix("registry.ollama.ai/").removeprefix("hf.co/").removeprefix("library/").lower()
    return plain if ":" in plain.rpartition("/")[2] else f"{plain}:latest"


def _stored(models: Sequence[Mapping[str, Any]], wanted: str) -> Iterable[Reading | Unobserved]:
    """Of a model that is not loaded, what the next request would load under its name."""
    if not wanted or not models:
        return
    digest = next((each.get("digest") for each in models if _canonical(each.get("name")) == wanted), None)
    path = ("checkpoint", "manifest_sha256")
    if isinstance(digest, str) and _DIGEST.fullmatch(digest):
        yield seen(path, digest, "GET /api/tags: digest", By.ENDPOINT, "claimed")
    elif digest is None:
        yield Reading(find(path), ABSENT, f"GET /api/tags: no model {wanted}", By.ENDPOINT)


def _version(text: object) -> Iterable[Reading | Unobserved]:
    if not isinstance(text, str) or text == "0.0.0":
        yield Unobserved(("engine", "version"), "a build without its version", "look at the image or the package")
        return
    yield seen("engine.version", text.removeprefix("v"), "GET /api/version", By.ENDPOINT)
    found = _VERSION.match(text.removeprefix("v"))
    if found and found.group(3):
        yield seen("engine.build", found.group(3), "GET /api/version", By.ENDPOINT)


def _loaded(model: Mapping[str, Any]) -> Iterable[Reading | Unobserved]:
    length, digest = model.get("context_length"), model.get("digest")
    if isinstance(length, int):
        yield seen("serve.max_model_len", length, "GET /api/ps: context_length", By.ENDPOINT)
    if isinstance(digest, str) and _DIGEST.fullmatch(digest):
        yield seen("checkpoint.manifest_sha256", digest, "GET /api/ps: digest", By.ENDPOINT, "claimed")
    if isinstance(model.get("remote_host"), str) or str(model.get("name", "")).endswith(("cloud",)):
        yield Unobserved(("checkpoint",), "the model runs in Ollama's cloud", "serve it locally")
    details = model.get("details")
    if isinstance(details, dict) and isinstance(details.get("quantization_level"), str):
        yield seen("quantization.scheme", details["quantization_level"], "GET /api/ps: details", By.ENDPOINT)


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """The readings of the last start in a log: the server's lines, then those of the runner it started last."""
    cleaned = clean(lines)
    found: dict[str, Reading] = {}
    begin = max((at for at, line in enumerate(cleaned) if _COMMAND.search(line)), default=None)
    for number, line in enumerate(cleaned, 1):
        for reading in _line(line, number):
            found[reading.fact.key] = reading
    if begin is not None:
        for reading in llama.readings(llama.read(cleaned[begin:])):
            if reading.fact.group != "engine" and reading.fact.path != ("checkpoint", "path"):
                found[reading.fact.key] = reading
    if found:
        found.setdefault("engine.name", seen("engine.name", "ollama", "start log", By.LOG))
    return list(found.values())


def _line(line: str, number: int) -> Iterable[Reading]:
    source = f"log line {number}"
    if version := _LISTENING.search(line):
        yield seen("engine.version", version.group("v"), source, By.LOG)
    if gpu := _GPU.search(line):
        pairs = {key: value.strip('"') for key, value in _PAIR.findall(gpu.group("kv"))}
        product = pairs.get("description") or pairs.get("name")
        if product:
            yield seen("host.gpu_product", product, source, By.LOG)
        if pairs.get("compute"):
            yield seen("host.compute_capability", pairs["compute"], source, By.LOG)
        if pairs.get("driver"):
            yield seen("host.driver_cuda", pairs["driver"], source, By.LOG)
    if kind := _TYPE.search(line):
        yield seen("checkpoint.architecture", kind.group("a"), source, By.LOG)
    if _FLASH.search(line):
        yield seen("serve.flash_attn", "enabled", source, By.LOG)
    if command := _COMMAND.search(line):
        yield from _runner(command.group("c"), source)
    if load := _LOAD.search(line):
        yield from _request(load.group("c"), source)


def _runner(text: str, source: str) -> Iterable[Reading]:
    try:
        words = shlex.split(text)
    except ValueError:
        return
    program = words[0].rsplit("/", 1)[-1] if words else ""
    args = tuple(words[2:] if program == "ollama" else words[1:])
    said = given(Form(engine="ollama", args=args, program=(program,), subcommand="runner"), {}, {}, None, live=False)
    for reading in said.readings:
        if reading.fact.path != ("serve", "gpu_layers"):
            yield Reading(reading.fact, reading.value, source, By.LOG)
    kind = (
        "llama-server" if program == "llama-server" else "ollama-engine" if "--ollama-engine" in args else "llama.cpp"
    )
    yield seen("engine.backend", kind, source, By.LOG)


def _request(text: str, source: str) -> Iterable[Reading]:
    """`{Operation:commit … Parallel:1 … KvSize:8192 …}`: only the committed one counts."""
    if not text.startswith("Operation:commit"):
        return
    pairs = dict(re.findall(r"(\w+):([\w.-]*)", text))
    slots, size = whole(pairs.get("Parallel", "")), whole(pairs.get("KvSize", ""))
    if slots is not None:
        yield seen("serve.max_num_seqs", slots, source, By.LOG)
    if size is not None and slots:
        yield seen("serve.max_model_len", size // slots, source, By.LOG)
    if pairs.get("FlashAttention", "").lower() in ("true", "enabled", "1"):
        yield seen("serve.flash_attn", "enabled", source, By.LOG)
    if pairs.get("KvCacheType"):
        yield seen("serve.kv_cache_dtype", pairs["KvCacheType"], source, By.LOG)


def _json(answers: Sequence[Answer], path: str) -> Any:
    return next((each.json for each in answers if each.probe.path == path and each.status == 200), None)
