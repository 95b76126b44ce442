"""What TGI shows: `/info` (its version lies, its sha does not) and the start log of 2.x and 3.x."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.engines import Answer, Context, Probe
from lockllm.engines.shown.log import clean
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

PROBES = (Probe(path="/info"), Probe(path="/v1/models"))
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_HIDDEN = (
    "dtype", "quantization", "kv_cache_dtype", "tensor_parallel_size", "attention_backend", "enable_prefix_caching",
    "trust_remote_code",
)  # fmt: skip

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z\s+(?:TRACE|DEBUG|INFO|WARN|ERROR)\s+(?:[\w-]+: )*(?P<text>.*)\Z")
_FIELD = re.compile(r"\s+(?P<k>\w+): (?P<v>.*)\Z")

SAID: tuple[tuple[FactKey, str], ...] = (
    ("serve.attention_backend", r"Using attention (?P<v>[\w-]+) - Prefix caching \w+"),
    ("serve.enable_prefix_caching", r"Using attention [\w-]+ - Prefix caching (?P<v>\w+)"),
    ("serve.attention_backend", r"Using [Aa]ttention = (?P<v>[\w-]+)$"),
    ("serve.enable_prefix_caching", r"Using prefix caching = (?P<v>\w+)$"),
    ("serve.tensor_parallel_size", r"Sharding model on (?P<v>\d+) processes"),
    ("serve.max_num_batched_tokens", r"Default `max_batch_prefill_tokens` to (?P<v>\d+)"),
    ("serve.quantization", r"Auto selecting quantization method (?P<v>[\w-]+)"),
    ("kernels.quant_kernel", r"Using (?P<v>GPTQ-Marlin|exllama|cutlass w8a8|Marlin FP8)[\w ]* kernels?"),
    ("engine.backend", r"Using backend (?P<v>V\d)"),
)
"""Later lines win: the shard's word comes after the launcher's."""

_ARGS: Mapping[str, FactKey] = {
    "revision": "checkpoint.revision",
    "dtype": "serve.dtype",
    "quantize": "serve.quantization",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "num_shard": "serve.tensor_parallel_size",
    "max_total_tokens": "serve.max_model_len",
    "max_batch_prefill_tokens": "serve.max_num_batched_tokens",
    "max_batch_size": "serve.max_num_seqs",
    "trust_remote_code": "serve.trust_remote_code",
}
_SAID = tuple((key, re.compile(pattern)) for key, pattern in SAID)


def detect(answers: Sequence[Answer]) -> bool:
    """Whether these answers are TGI's."""
    info = _info(answers)
    return info is not None and "model_id" in info and ("docker_label" in info or "max_concurrent_requests" in info)


def from_http(answers: Sequence[Answer], context: Context) -> Iterable[Reading | Unobserved]:
    """Readings that the endpoints give."""
    info = _info(answers)
    source = "GET /info"
    if info is None:
        yield Unobserved(("serve",), "/info gives no answer", "look at the process: run lockllm on that host")
        return
    yield seen("engine.name", "tgi", source, By.ENDPOINT)
    version, sha = info.get("version"), info.get("sha")
    if isinstance(version, str) and "dev" not in version:
        yield seen("engine.version", version, f"{source}: version", By.ENDPOINT)
    else:
        reason = "releases call themselves by the version before (3.3.7 says 3.3.6-dev0)"
        yield Unobserved(("engine", "version"), reason, "compare engine.build, or the image")
    if isinstance(sha, str) and re.fullmatch(r"[0-9a-f]{7,40}", sha):
        yield seen("engine.build", sha, f"{source}: sha", By.ENDPOINT)
    model, commit = info.get("model_id"), info.get("model_sha")
    if isinstance(model, str) and _REPO.match(model):
        yield seen("checkpoint.repo", model, f"{source}: model_id", By.ENDPOINT)
    if isinstance(commit, str) and re.fullmatch(r"[0-9a-f]{40}", commit):
        yield seen(
            "checkpoint.commit", commit, f"{source}: model_sha (the Hub's word at start)", By.ENDPOINT, "claimed"
        )
    if isinstance(info.get("max_total_tokens"), int):
        yield seen("serve.max_model_len", info["max_total_tokens"], f"{source}: max_total_tokens", By.ENDPOINT)
    for name in _HIDDEN:
        yield Unobserved(("serve", name), "no endpoint of TGI shows it", "run lockllm on that host, or give --log")


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """The readings of the last start in a log."""
    messages = [_message(line) for line in clean(lines)]
    starts = [at for at, text in enumerate(messages) if text.startswith("Args {")]
    messages = messages[starts[-1] :] if starts else messages
    found: dict[FactKey, tuple[Any, str]] = {}
    if starts or any(text.startswith("Starting shard") for text in messages):
        found["engine.name"] = ("tgi", "Args")
    for name, value in _dump(messages):
        if name in _ARGS and value is not None:
            found[_ARGS[name]] = (value, f"Args: {name}")
    for text in messages:
        for key, pattern in _SAID:
            match = pattern.search(text)
            if match:
                found[key] = (_value(key, match.group("v")), text[:60])
    return [seen(key, value, f"start log: {where}", By.LOG) for key, (value, where) in found.items()]


def _message(line: str) -> str:
    if line.startswith('{"timestamp"'):
        try:
            fields = json.loads(line).get("fields", {})
        except (ValueError, AttributeError, RecursionError):
            return line
        text = fields.get("message") if isinstance(fields, dict) else None
        return text if isinstance(text, str) else line
    stamped = _STAMP.match(line)
    return stamped.group("text") if stamped else line


def _dump(messages: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The fields of the pretty-printed `Args {`: `name: value,` or `name: Some(`, value, `),` on lines of their own."""
    flat = [part for message in messages[:400] for part in message.split("\n")]
    if not flat or not flat[0].startswith("Args {"):
        return
    at = 1
    while at < len(flat) and flat[at].rstrip() != "}":
        field = _FIELD.match(flat[at])
        at += 1
        if field is None:
            continue
        text = field.group("v").strip().rstrip(",")
        if text == "Some(" and at < len(flat):
            text = flat[at].strip().rstrip(",")
            at += 1
        yield field.group("k"), _rust(text)


def _rust(text: str) -> Any:
    """A Rust value: `"x"`, 2, true, None, or the name of a variant: `BitsandbytesNf4` is bitsandbytes-nf4."""
    if text == "None":
        return None
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?\d+", text):
        number = whole(text)
        return text if number is None else number
    if text.startswith('"'):
        return text.strip('"')
    if re.fullmatch(r"[A-Z]\w*", text):
        return text if re.match(r"Fp8e", text) else re.sub(r"(?<=[a-z])(?=[A-Z])", "-", text).lower()
    return None


def _value(key: FactKey, text: str) -> Any:
    if key == "serve.enable_prefix_caching":
        return text.lower() in ("true", "1")
    number = whole(text)
    return text if number is None else number


def _info(answers: Sequence[Answer]) -> dict[str, Any] | None:
    for answer in answers:
        if answer.probe.path == "/info" and answer.status == 200 and isinstance(answer.json, dict):
            return answer.json
    return None
