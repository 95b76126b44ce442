"""The command line that puts facts in force on TGI, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Command, Context
from lockllm.engines.tgi import options
from lockllm.engines.tgi.rules import RULES
from lockllm.facts.fact import Fact, Path
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Raw

_FLAG_OF = {key: name for name, key in options.FACTS.items()}
_VARIABLE_OF = {
    "serve.attention_backend": "ATTENTION",
    "serve.enable_prefix_caching": "PREFIX_CACHING",
    "serve.enable_chunked_prefill": "PREFILL_CHUNKING",
}


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """The command line of a set of facts."""
    argv, env, notes = ["text-generation-launcher"], {}, []
    for path, value in facts.items():
        key = dotted(path)
        if value is ABSENT or isinstance(value, Raw):
            continue
        if path[0] == "env":
            env[path[1]] = str(value)
        elif key in _VARIABLE_OF:
            env[_VARIABLE_OF[key]] = ("1" if value else "0") if isinstance(value, bool) else str(value)
        elif path in (("checkpoint", "repo"), ("checkpoint", "path")):
            argv += ["--model-id", str(value)]
        elif path == ("checkpoint", "commit") or (
            path == ("checkpoint", "revision") and ("checkpoint", "commit") not in facts
        ):
            argv += ["--revision", str(value)] if ("checkpoint", "repo") in facts else []
        elif key in _FLAG_OF:
            argv += _words(_FLAG_OF[key], value)
        elif path[:2] == ("serve", "args"):
            argv += _words(path[2], value)
        elif key in options.BOTH.values():
            name = next(name for name, told in options.BOTH.items() if told == key)
            if ("serve", "args", name) not in facts:
                argv += _words(name, value)
        elif key == "serve.enforce_eager":
            argv += ["--cuda-graphs", "0"] if value and ("serve", "args", "cuda_graphs") not in facts else []
        elif path[0] in ("serve", "sampling"):
            notes.append(f"{key}: no option of TGI sets it")
    return Command(argv=tuple(argv), env=env, notes=tuple(notes))


def _words(name: str, value: Any) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, (list, tuple)):
        return [flag, ",".join(map(str, value))]
    return [flag, str(value)]


def where(fact: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how the fact is set, defaulted and seen on TGI."""
    found: dict[str, str] = {}
    key = fact.key
    if key in _FLAG_OF:
        flag = _FLAG_OF[key]
        found["set_by"] = f"--{flag.replace('_', '-')}, or the variable {flag.upper()}"
    elif key in _VARIABLE_OF:
        found["set_by"] = f"the variable {_VARIABLE_OF[key]}"
    elif key in _SET_BY:
        found["set_by"] = _SET_BY[key]
    if text := RULES.default_text(key):
        found["default"] = text
    if key in _SEEN_AT:
        found["seen_at"] = _SEEN_AT[key]
    if key in _UNKNOWN:
        found["unknown"] = _UNKNOWN[key]
    return found


_SET_BY = {
    "checkpoint.repo": "--model-id",
    "checkpoint.revision": "--revision",
    "serve.gpu_memory_share": "--cuda-memory-fraction",
    "serve.enforce_eager": "--cuda-graphs 0",
}
_SEEN_AT = {
    "engine.build": "GET /info: sha",
    "engine.version": "GET /info: version, where it is no -dev",
    "checkpoint.repo": "GET /info: model_id",
    "checkpoint.commit": "GET /info: model_sha (what the Hub said at start)",
    "serve.max_model_len": "GET /info: max_total_tokens; start log",
    "serve.attention_backend": "variable ATTENTION of a shard; start log",
    "serve.enable_prefix_caching": "variable PREFIX_CACHING of a shard; start log",
    "serve.tensor_parallel_size": "variable WORLD_SIZE of a shard; start log",
    "serve.quantization": "arguments of a shard; start log",
    "kernels.quant_kernel": "start log",
}
_UNKNOWN = {
    "serve.dtype": "where it is not given only the shard's own socket tells it",
    "kernels.attention": "no endpoint shows it",
}
