"""The command line that puts facts in force on TensorRT-LLM, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Command, Context
from lockllm.engines.tensorrt_llm import options
from lockllm.engines.tensorrt_llm.rules import RULES
from lockllm.facts.fact import Fact, Path
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Raw

_BY_NAME = {option.name: option for option in options.TABLE.options}
_NAME_OF: dict[str, str] = {}
for _name, _key in options.FACTS.items():
    _NAME_OF.setdefault(_key, _name)
_NAME_OF["serve.expert_parallel_size"] = "ep_size"


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """The command line of a set of facts; keys without a flag are told as lines of the YAML file."""
    argv, env, notes, model = [], {}, [], ""
    for path, value in facts.items():
        key = dotted(path)
        if value is ABSENT or isinstance(value, Raw):
            continue
        if path[0] == "env":
            env[path[1]] = str(value)
        elif path in (("checkpoint", "repo"), ("checkpoint", "path")):
            model = model or str(value)
        elif path == ("checkpoint", "commit") and ("checkpoint", "repo") in facts:
            argv += ["--revision", str(value)]
        elif key in _NAME_OF or path[:2] == ("serve", "args"):
            name = _NAME_OF.get(key) or ".".join(path[2:])
            if name in _BY_NAME:
                argv += _words(_BY_NAME[name].flags[0], value)
            else:
                notes.append(f"{key}: put `{name}: {_yaml(value)}` into the file of --config")
        elif path[0] == "serve" and key not in options.BOTH.values():
            notes.append(f"{key}: no option of TensorRT-LLM sets it")
    return Command(argv=("trtllm-serve", "serve", model or "MODEL", *argv), env=env, notes=tuple(notes))


def _words(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag] if value else []
    return [flag, str(value)]


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def where(fact: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how the fact is set, defaulted and seen on TensorRT-LLM."""
    found: dict[str, str] = {}
    name = _NAME_OF.get(fact.key)
    if name is not None:
        flag = f"{_BY_NAME[name].flags[0]}, or " if name in _BY_NAME else ""
        found["set_by"] = f"{flag}{name} in the file of --config, which wins"
    found |= {"default": text} if (text := RULES.default_text(fact.key)) else {}
    for word, texts in (("seen_at", _SEEN_AT), ("unknown", _UNKNOWN)):
        if fact.key in texts:
            found[word] = texts[fact.key]
    return found


_SEEN_AT = {
    "engine.version": "GET /version; start log",
    "engine.artifact_version": "start log",
    "serve.max_num_seqs": "start log",
    "serve.max_num_batched_tokens": "start log",
}
_UNKNOWN = {
    "serve.dtype": "no endpoint shows it",
    "serve.attention_backend": "no endpoint shows it",
    "kernels.moe_backend": "neither endpoint nor log shows what AUTO chose",
}
