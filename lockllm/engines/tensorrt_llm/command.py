"""The command line that puts facts in force on TensorRT-LLM, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Command, Context
from lockllm.engines.kernel.command import Gathered, gather, words
from lockllm.engines.tensorrt_llm import options
from lockllm.engines.tensorrt_llm.rules import RULES
from lockllm.facts.fact import Fact, Path

_BY_NAME = {option.name: option for option in options.TABLE.options}
_NAME_OF: dict[str, str] = {}
for _name, _key in options.FACTS.items():
    _NAME_OF.setdefault(_key, _name)
_NAME_OF["serve.expert_parallel_size"] = "ep_size"


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """The command line of a set of facts; keys without a flag are told as lines of the YAML file."""
    told = gather(facts, "TensorRT-LLM", _NAME_OF, _special)
    typed = [word for name, value in told.args.items() for word in words(name, value, _BY_NAME[name])]
    return Command(argv=("trtllm-serve", "serve", told.model or "MODEL", *typed), env=told.env, notes=tuple(told.notes))


def _special(path: Path, key: str, value: Any, into: Gathered) -> bool:
    name = _NAME_OF.get(key) or (".".join(path[2:]) if path[:2] == ("serve", "args") else "")
    if name and name not in _BY_NAME:
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        into.notes.append(f"{key}: put `{name}: {shown}` into the file of --config")
        return True
    return key in options.BOTH.values()


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
