"""Facts -> the llama-server command that puts them in force, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.engines import Command, Context
from lockllm.engines.llamacpp.http import HIDDEN
from lockllm.engines.llamacpp.options import BY_NAME, OPTIONS, TEMPLATES, Kind, Option
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import ABSENT
from lockllm.facts.registry import dump, find

_BY_ROLE: Mapping[str, Option] = {
    option.role: option for option in OPTIONS if option.role.startswith(("serve.", "sampling."))
}
_HELD_ELSEWHERE = ("ctx_size", "cache_type_k", "cache_type_v")
_SET_BY = {
    "serve.max_model_len": "-c N: all slots together, N / -np each unless they share one buffer (--kv-unified)",
    "serve.kv_cache_dtype": "-ctk TYPE and -ctv TYPE",
    "serve.chat_template": "--chat-template TEXT, --chat-template-file FILE",
    "chat_template.sha256": "--chat-template-file FILE; else the GGUF's tokenizer.chat_template",
    "serve.seed": "-s N",
    "sampling.seed": "-s N",
}
_DEFAULT = {
    "serve.max_model_len": "what the GGUF says (4096 until 2025-08); without -c, --fit shrinks it to free GPU memory",
    "serve.max_num_seqs": "4 slots (1 until 2025-08; in builds of 2025-11 -np 1 means 4 as well)",
    "serve.kv_unified": "on where -np is not given, else off",
    "serve.flash_attn": "auto: on unless a device cannot (off until 2025-08)",
    "serve.kv_cache_dtype": "f16",
    "serve.jinja": "on (off until about b7300)",
    "serve.enable_prefix_caching": "on",
    "serve.cache_ram": "8192 MiB (no such cache until 2025-08)",
    "serve.max_num_batched_tokens": "2048, clamped to the context",
    "serve.ubatch_size": "512",
    "serve.cont_batching": "on",
    "serve.cache_reuse": "0",
    "serve.split_mode": "layer",
    "sampling.temperature": "0.8, or the GGUF's general.sampling.temp",
    "sampling.top_k": "40, or the GGUF's general.sampling.top_k",
    "sampling.top_p": "0.95, or the GGUF's general.sampling.top_p",
    "sampling.min_p": "0.05, or the GGUF's general.sampling.min_p",
    "sampling.repetition_penalty": "1.0, or the GGUF's general.sampling.penalty_repeat",
}
_SEEN = {
    "serve.max_model_len": "GET /props: default_generation_settings.n_ctx",
    "serve.max_num_seqs": "GET /props: total_slots",
    "chat_template.sha256": "GET /props: chat_template",
    "engine.version": "GET /props: build_info, or the package xllamacpp",
    "engine.build": "GET /props: build_info",
    "checkpoint.path": "GET /props: model_path, as typed; the mapped file in /proc/PID/maps",
}


class _Facts(msgspec.Struct, frozen=True):
    held: Mapping[Path, Any]

    def get(self, *path: str) -> Any:
        """A value as documents hold it; None where there is none, or where it is absent."""
        value = self.held.get(path)
        return None if value is None or value is ABSENT else dump(find(path), value)


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """`llama-server …`. A context of several slots is multiplied: -c counts all of them."""
    held = _Facts(facts)
    argv = ["llama-server", *_model(held)]
    notes: list[str] = []
    argv += _beside(held)
    argv += _context(held)
    argv += _cache_types(held)
    argv += _options(held, notes)
    argv += _kept(held)
    argv += _kwargs(held)
    env = {
        path[1]: str(value)
        for path, value in facts.items()
        if path[0] == "env" and len(path) == 2 and value is not ABSENT
    }
    return Command(argv=tuple(argv), env=env, notes=tuple(notes))


def where(row: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how a fact is set, defaulted and seen."""
    key = row.key
    option = _BY_ROLE.get(key) or (
        BY_NAME.get(row.path[2]) if row.path[:2] == ("serve", "args") and len(row.path) > 2 else None
    )
    found: dict[str, str] = {}
    if key in _SET_BY:
        found["set_by"] = _SET_BY[key]
    elif option is not None:
        found["set_by"] = ", ".join((*option.flags, *option.off, *filter(None, (option.variable,))))
    if key in _DEFAULT:
        found["default"] = _DEFAULT[key]
    if key in _SEEN:
        found["seen_at"] = _SEEN[key]
    elif key.startswith("sampling."):
        found["seen_at"] = "GET /props: default_generation_settings.params, as float32"
    elif key in HIDDEN or option is not None:
        found["seen_at"] = "the process's command line, LLAMA_ARG_* and config.ini; the log with -lv 4"
        found["unknown"] = "not exposed by any endpoint"
    return found


def _model(held: _Facts) -> Iterator[str]:
    if (path := held.get("checkpoint", "path")) is not None:
        yield from ("-m", str(path))
    elif (repo := held.get("checkpoint", "repo")) is not None:
        yield from ("-hf", str(repo))


def _beside(held: _Facts) -> Iterator[str]:
    """The draft model and the adapters, where their files are named."""
    if (draft := held.get("draft", "path")) is not None:
        yield from ("-md", str(draft))
    elif (repo := held.get("draft", "repo")) is not None:
        yield from ("-hfd", str(repo))
    for name in dict.fromkeys(path[1] for path in held.held if path[0] == "adapters" and len(path) > 2):
        if (file := held.get("adapters", name, "path")) is None:
            continue
        scale = held.get("adapters", name, "scale")
        yield from ("--lora", str(file)) if scale in (None, 1) else ("--lora-scaled", f"{file}:{scale:g}")


def _context(held: _Facts) -> Iterator[str]:
    asked, each, slots = (
        held.get("serve", "ctx_size"),
        held.get("serve", "max_model_len"),
        held.get("serve", "max_num_seqs"),
    )
    unified = held.get("serve", "kv_unified")
    if slots is not None:
        yield from ("-np", str(slots))
    if asked is not None:
        yield from ("-c", str(asked))
    elif each is not None:
        shared = unified if unified is not None else slots is None
        yield from ("-c", str(each if shared else each * (slots or 1)))
    if unified is not None and (slots is not None or not unified):
        yield "--kv-unified" if unified else "--no-kv-unified"


def _cache_types(held: _Facts) -> Iterator[str]:
    whole = held.get("serve", "kv_cache_dtype")
    key, _, value = str(whole).partition("/") if whole is not None else ("", "", "")
    key = held.get("serve", "cache_type_k") or key
    value = held.get("serve", "cache_type_v") or value or key
    for flag, kind in (("-ctk", key), ("-ctv", value)):
        if kind:
            yield from (flag, _SHORT.get(kind, kind))


_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}


def _options(held: _Facts, notes: list[str]) -> Iterator[str]:
    for path in held.held:
        if path[0] not in ("serve", "sampling") or path[:2] == ("serve", "args"):
            continue
        value, option = held.get(*path), _BY_ROLE.get(".".join(path))
        if (
            path in _WRITTEN
            or value is None
            or path[1] in _HELD_ELSEWHERE
            or path[:2] == ("serve", "chat_template_kwargs")
        ):
            continue
        if path[1] == "seed":
            if path[0] == "sampling" or held.get("sampling", "seed") is None:
                yield from ("--seed", str(value))
        elif path == ("serve", "chat_template"):
            yield from _template(str(value), notes)
        elif option is None:
            notes.append(f"{find(path).key}: no option of llama-server sets it")
        else:
            yield from _spelled(option, value)


def _template(value: str, notes: list[str]) -> tuple[str, ...]:
    """A template by its name or text, or the file of one."""
    if len(value) == 64 and not set(value) - set("0123456789abcdef"):
        notes.append(f"pass --chat-template-file FILE, where the text of FILE has the sha256 {value}")
        return ()
    return ("--chat-template" if value in TEMPLATES or "{" in value else "--chat-template-file", value)


_WRITTEN = frozenset(
    (("serve", "max_model_len"), ("serve", "max_num_seqs"), ("serve", "kv_unified"), ("serve", "kv_cache_dtype"))
)


def _spelled(option: Option, value: Any) -> Iterator[str]:
    if option.kind in (Kind.FLAG, Kind.SWITCH):
        on = value is True or str(value).lower() in ("true", "on", "1")
        if on:
            yield option.long
        elif option.off:
            yield option.off[-1]
    elif option.kind is Kind.FLASH:
        yield from (option.long, "on" if str(value).lower() in ("true", "on", "1", "enabled") else "off")
    elif option.kind is Kind.LIST:
        for each in value if isinstance(value, list) else [value]:
            yield from (option.long, str(each))
    elif isinstance(value, list):
        yield from (option.long, ";".join(map(str, value)))
    elif option.kind is Kind.PAIR:
        yield from (option.long, *str(value).split(" ", 1))
    else:
        yield from (option.long, str(value))


def _kept(held: _Facts) -> Iterator[str]:
    for path in held.held:
        value = held.get(*path)
        if path[:2] != ("serve", "args") or len(path) != 3 or value is None:
            continue
        option = BY_NAME.get(path[2])
        if option is not None:
            yield from _spelled(option, value)
        elif value is True:
            yield f"--{path[2].replace('_', '-')}"
        else:
            yield from (f"--{path[2].replace('_', '-')}", str(value))


def _kwargs(held: _Facts) -> Iterator[str]:
    import json

    root: dict[str, Any] = {}
    for path in held.held:
        value = held.get(*path)
        if path[:2] != ("serve", "chat_template_kwargs") or len(path) < 3 or value is None:
            continue
        at = root
        for name in path[2:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
    if root:
        yield from ("--chat-template-kwargs", json.dumps(root, ensure_ascii=False))
