"""The command line that puts facts in force on TGI, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Command, Context
from lockllm.engines.kernel.command import Gathered, gather, words
from lockllm.engines.tgi import options
from lockllm.engines.tgi.rules import RULES
from lockllm.facts.fact import Fact, Path

_FLAG_OF = {key: name for name, key in options.FACTS.items()}
_KEPT_OF = {key: name for name, key in options.BOTH.items()}
_VARIABLE_OF = {
    "serve.attention_backend": "ATTENTION",
    "serve.enable_prefix_caching": "PREFIX_CACHING",
    "serve.enable_chunked_prefill": "PREFILL_CHUNKING",
}


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """The command line of a set of facts."""
    told = gather(facts, "TGI", _FLAG_OF, _special, noted=("serve", "sampling"))
    typed = [word for name, value in told.args.items() for word in words(name, _listed(value))]
    return Command(argv=("text-generation-launcher", *typed), env=told.env, notes=tuple(told.notes))


def _special(path: Path, key: str, value: Any, into: Gathered) -> bool:
    kept = _KEPT_OF.get(key)
    if key in _VARIABLE_OF:
        into.env[_VARIABLE_OF[key]] = ("1" if value else "0") if isinstance(value, bool) else str(value)
    elif path in (("checkpoint", "repo"), ("checkpoint", "path")):
        into.args["model_id"] = value
    elif path == ("checkpoint", "revision") and ("checkpoint", "commit") not in into.facts:
        into.args |= {"revision": value} if ("checkpoint", "repo") in into.facts else {}
    elif kept is not None and key not in _FLAG_OF:
        into.args |= {kept: value} if ("serve", "args", kept) not in into.facts else {}
    elif key == "serve.enforce_eager":
        into.args |= {"cuda_graphs": "0"} if value and ("serve", "args", "cuda_graphs") not in into.facts else {}
    else:
        return False
    return True


def _listed(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


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
