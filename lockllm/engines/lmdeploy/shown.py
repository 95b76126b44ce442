"""What LMDeploy shows: almost nothing over HTTP; with `--log-level INFO` its configuration in the start log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.engines import Answer, Context, Probe
from lockllm.engines.lmdeploy.options import KV_CACHE
from lockllm.engines.shown.log import clean, fields, value
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

PROBES = (Probe(path="/v1/models"), Probe(path="/is_sleeping"))
_DUMP = re.compile(r"(?:input|updated) backend(?:=(?P<be>\w+), backend)?_config=(?P<k>\w+)EngineConfig\((?P<c>.*)\)\Z")
_INI = re.compile(
    r"(?P<k>weight_type|quant_policy|tensor_para_size|session_len|enable_prefix_caching|max_batch_size) = (?P<v>\S+)\Z"
)
_NAMES: Mapping[str, FactKey] = {
    "tp": "serve.tensor_parallel_size",
    "tensor_para_size": "serve.tensor_parallel_size",
    "session_len": "serve.max_model_len",
    "max_batch_size": "serve.max_num_seqs",
    "enable_prefix_caching": "serve.enable_prefix_caching",
    "dtype": "serve.dtype",
    "weight_type": "serve.dtype",
    "eager_mode": "serve.enforce_eager",
}
_WEIGHTS = {"bf16": "bfloat16", "bfloat16": "bfloat16", "half": "float16", "fp16": "float16", "fp32": "float32"}


def detect(answers: Sequence[Answer]) -> bool:
    """Whether these answers are LMDeploy's."""
    for answer in answers:
        data = answer.json.get("data") if isinstance(answer.json, dict) else None
        if answer.probe.path == "/v1/models" and isinstance(data, list):
            return any(isinstance(each, dict) and each.get("owned_by") == "lmdeploy" for each in data)
    return False


def from_http(answers: Sequence[Answer], context: Context) -> Iterable[Reading | Unobserved]:
    """No endpoint shows version, configuration or prompt."""
    if detect(answers):
        yield seen("engine.name", "lmdeploy", "GET /v1/models", By.ENDPOINT)
    yield Unobserved(("serve",), "no endpoint of LMDeploy shows its configuration", "run lockllm on that host")
    yield Unobserved(("engine", "version"), "no endpoint of LMDeploy shows its release", "run lockllm on that host")


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """The readings of the last start in a log: `updated` configuration over `input`, and the ini dump of old releases."""
    found: dict[str, Reading] = {}
    for number, line in enumerate(clean(lines), 1):
        source = f"log line {number}"
        if " - lmdeploy - " in line:
            found.setdefault("engine.name", seen("engine.name", "lmdeploy", source, By.LOG))
        dump, ini = _DUMP.search(line), _INI.match(line)
        if dump:
            kind = {"Turbomind": "turbomind", "Pytorch": "pytorch"}.get(dump.group("k"), dump.group("be"))
            if kind:
                found["engine.backend"] = seen("engine.backend", kind.lower(), source, By.LOG)
            for name, raw in fields(dump.group("c")).items():
                _tell(found, name, value(raw), source)
        elif ini:
            _tell(found, ini.group("k"), value(ini.group("v")), source)
    return list(found.values())


def _tell(found: dict[str, Reading], name: str, raw: Any, source: str) -> None:
    if raw is None or raw == "auto":
        return
    if name == "quant_policy" and str(raw) in KV_CACHE:
        found["serve.args.quant_policy"] = seen(("serve", "args", "quant_policy"), raw, source, By.LOG)
    elif name in _NAMES:
        told = _WEIGHTS.get(str(raw), raw) if name in ("dtype", "weight_type") else raw
        found[_NAMES[name]] = seen(_NAMES[name], told, source, By.LOG)
