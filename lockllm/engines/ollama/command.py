"""The command and variables that put facts in force on Ollama, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Command, Context
from lockllm.engines.ollama import options
from lockllm.engines.ollama.rules import RULES
from lockllm.facts.fact import Fact, Path
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Raw

_VARIABLE_OF = {key: name for name, key in options.VARIABLES.items()}
_PARAMETER_OF = {key: name for name, key in options.PARAMETERS.items()}


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """`ollama serve` with its variables; what only a Modelfile can say is told as a PARAMETER line."""
    env: dict[str, str] = {}
    notes: list[str] = []
    for path, value in facts.items():
        key = dotted(path)
        if value is ABSENT or isinstance(value, Raw):
            continue
        if path[0] == "env":
            env[path[1]] = str(value)
        elif key in _VARIABLE_OF:
            env[_VARIABLE_OF[key]] = _text(key, value)
        elif key in _PARAMETER_OF or path[:2] == ("serve", "args"):
            name = _PARAMETER_OF.get(key) or ".".join(path[2:])
            each = value if isinstance(value, (list, tuple)) else (value,)
            notes += [f"{key}: put `PARAMETER {name} {one}` into the Modelfile" for one in each]
        elif path[0] == "serve":
            notes.append(f"{key}: no variable of Ollama sets it")
    return Command(argv=("ollama", "serve"), env=env, notes=tuple(notes))


def _text(key: str, value: Any) -> str:
    if key == "serve.flash_attn":
        return "1" if str(value).lower() in ("on", "enabled", "true", "1") else "0"
    return {"float16": "f16", "bfloat16": "bf16"}.get(str(value), str(value))


def where(fact: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how the fact is set, defaulted and seen on Ollama."""
    found: dict[str, str] = {}
    key = fact.key
    ways = []
    if key in _VARIABLE_OF:
        ways.append(f"the variable {_VARIABLE_OF[key]}")
    if key in _PARAMETER_OF:
        ways.append(f"PARAMETER {_PARAMETER_OF[key]} of the Modelfile")
    if ways:
        found["set_by"] = " or ".join(ways)
    found |= {"default": text} if (text := RULES.default_text(key)) else {}
    for name, texts in (("seen_at", _SEEN_AT), ("unknown", _UNKNOWN)):
        if key in texts:
            found[name] = texts[key]
    return found


_SEEN_AT = {
    "engine.version": "GET /api/version; log",
    "serve.max_model_len": "GET /api/ps: context_length; arguments of the runner; log",
    "serve.max_num_seqs": "arguments of the runner; log",
    "serve.kv_cache_dtype": "arguments of the runner; log",
    "serve.flash_attn": "arguments of the runner; log",
    "host.gpu_product": "log",
}
_UNKNOWN = {
    "chat_template.sha256": "with a builtin renderer no text exists: the release is its identity",
    "kernels.attention": "no endpoint shows it",
}
