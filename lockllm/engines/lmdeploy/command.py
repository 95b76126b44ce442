"""The command line that puts facts in force on LMDeploy, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Command, Context
from lockllm.engines.kernel.command import Gathered, gather, words
from lockllm.engines.lmdeploy import options
from lockllm.engines.lmdeploy.rules import RULES
from lockllm.facts.fact import Fact, Path

_NAME_OF = {key: name for name, key in options.FACTS.items()}


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """The command line of a set of facts."""
    told = gather(facts, "LMDeploy", _NAME_OF, _special)
    typed = [word for name, value in told.args.items() for word in words(name, value)]
    argv = ("lmdeploy", "serve", "api_server", told.model or "MODEL", *typed)
    return Command(argv=argv, env=told.env, notes=tuple(told.notes))


def _special(path: Path, key: str, value: Any, into: Gathered) -> bool:
    args = into.args
    if path in (("draft", "repo"), ("draft", "path")):
        args["speculative_draft_model"] = value
    elif path[0] == "adapters" and path[2:] in (("repo",), ("path",)):
        args.setdefault("adapters", []).append(f"{path[1]}={value}")
    elif key == "serve.gpu_memory_share":
        args.setdefault("cache_max_entry_count", value)
    elif key == "serve.kv_cache_dtype":
        policies = (name for name, dtype in options.KV_CACHE.items() if dtype == value and not name.isdigit())
        if (policy := next(policies, None)) is not None:
            args.setdefault("quant_policy", policy)
    elif key == "serve.chat_template":
        args["chat_template"] = value
    else:
        return False
    return True


def where(fact: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how the fact is set, defaulted and seen on LMDeploy."""
    found: dict[str, str] = {}
    if fact.key in _NAME_OF:
        found["set_by"] = "--" + _NAME_OF[fact.key].replace("_", "-")
    elif fact.key in _SET_BY:
        found["set_by"] = _SET_BY[fact.key]
    found |= {"default": text} if (text := RULES.default_text(fact.key)) else {}
    for word, texts in (("seen_at", _SEEN_AT), ("unknown", _UNKNOWN)):
        if fact.key in texts:
            found[word] = texts[fact.key]
    return found


_LOG = "start log with --log-level INFO"
_SET_BY = {
    "serve.kv_cache_dtype": "--quant-policy",
    "serve.gpu_memory_share": "--cache-max-entry-count (of free memory)",
    "serve.chat_template": "--chat-template NAME or FILE",
    "engine.backend": "--backend; only pytorch is final",
}
_SEEN_AT = {
    "engine.backend": f"mapped _turbomind library; {_LOG}",
    "serve.dtype": _LOG,
    "serve.tensor_parallel_size": _LOG,
    "serve.max_num_seqs": _LOG,
    "serve.max_model_len": _LOG,
    "serve.enable_prefix_caching": _LOG,
}
_UNKNOWN = {
    "engine.version": "no endpoint shows it",
    "chat_template.sha256": "some families use a built-in Python template chosen by the model's path",
}
