"""What TensorRT-LLM shows: `/version`, and start logs of its C++ runtime (shape of 0.9 to 1.x)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.engines import Answer, Context, Probe
from lockllm.engines.shown.log import clean
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

PROBES = (Probe(path="/version"), Probe(path="/server_info"), Probe(path="/v1/models"))
_HIDDEN = "TensorRT-LLM's endpoints show neither flags nor dtype, parallelism or quantization"

SAID: tuple[tuple[FactKey, str], ...] = (
    ("engine.version", r"\[TensorRT-LLM\] TensorRT[- ]LLM version: (?P<v>\S+)"),
    ("engine.artifact_version", r"Engine version (?P<v>\S+) found in the config file"),
    ("serve.max_num_seqs", r"TRTGptModel maxNumSequences: (?P<v>\d+)"),
    ("serve.max_num_batched_tokens", r"TRTGptModel maxNumTokens: (?P<v>\d+)"),
)
_SAID = tuple((key, re.compile(pattern)) for key, pattern in SAID)


def detect(answers: Sequence[Answer]) -> bool:
    """Whether these answers are TensorRT-LLM's."""
    info = _json(answers, "/server_info")
    return isinstance(info, dict) and "disaggregated_params" in info and _json(answers, "/version") is not None


def from_http(answers: Sequence[Answer], context: Context) -> Iterable[Reading | Unobserved]:
    """Readings that the endpoints give."""
    said = _json(answers, "/version")
    if isinstance(said, dict) and isinstance(said.get("version"), str):
        yield seen("engine.name", "tensorrt-llm", "GET /version", By.ENDPOINT)
        yield seen("engine.version", said["version"], "GET /version", By.ENDPOINT)
    info = _json(answers, "/server_info")
    identity = info.get("render_fingerprint") if isinstance(info, dict) else None
    if isinstance(identity, dict) and isinstance(identity.get("digest"), str) and identity.get("complete", True):
        yield seen(("chat_template", "render_fingerprint"), identity["digest"], "GET /server_info", By.ENDPOINT)
    yield Unobserved(("serve",), _HIDDEN, "run lockllm on that host, or give --log")


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """The readings of the last start in a log; ranks repeat each other."""
    found: dict[str, Reading] = {}
    for number, line in enumerate(clean(lines), 1):
        if "[TensorRT-LLM]" in line or "[TRT-LLM]" in line:
            found.setdefault("engine.name", seen("engine.name", "tensorrt-llm", f"log line {number}", By.LOG))
        for key, pattern in _SAID:
            match = pattern.search(line)
            if match:
                text = match.group("v")
                size = whole(text)
                found[key] = seen(key, text if size is None else size, f"log line {number}", By.LOG)
    return list(found.values())


def _json(answers: Sequence[Answer], path: str) -> Any:
    return next((each.json for each in answers if each.probe.path == path and each.status == 200), None)
