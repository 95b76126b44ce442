"""Facts -> the `vllm serve` command that puts them in force."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from lockllm.engines import Command, Context
from lockllm.engines.kernel.argparse import Option, Take
from lockllm.engines.kernel.command import nest
from lockllm.engines.kernel.releases import at_least, below
from lockllm.engines.kernel.values import Kind
from lockllm.engines.vllm import options
from lockllm.engines.vllm.spread import SAMPLING_KEYS
from lockllm.facts.fact import Path
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Raw
from lockllm.facts.registry import dump, find

RENAMED: dict[Path, str] = {
    ("serve", "gpu_memory_share"): "gpu_memory_utilization",
    ("tokenizer", "mode"): "tokenizer_mode",
    ("chat_template", "content_format"): "chat_template_content_format",
}
GATHERED: dict[Path, str] = {
    ("serve", "chat_template_kwargs"): "default_chat_template_kwargs",
    ("serve", "default_chat_template_kwargs"): "default_chat_template_kwargs",
    ("serve", "speculative"): "speculative_config",
    ("serve", "rope_scaling"): "rope_scaling",
}
_ALIASES = {("serve", "gpu_memory_utilization")}
_FOLDER = "name the checkpoint's own folder in place of MODEL"


class _Build(msgspec.Struct, kw_only=True):
    """What is being put together: values by option, variables, and what no option can do."""

    version: str
    table: dict[str, Option]
    values: dict[str, Any] = {}
    env: dict[str, str] = {}
    notes: list[str] = []


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """The command line of a set of facts: no option that they do not name."""
    read = options.nearest(context.version) or options.NEWEST
    build = _Build(
        version=context.version or options.NEWEST,
        table={option.name: option for option in options.options(read).options},
        values={}, env={}, notes=[],
    )  # fmt: skip
    held = {
        path: dump(find(path), value)
        for path, value in facts.items()
        if value is not ABSENT and not isinstance(value, Raw)
    }
    model = _model(held, build)
    for path, value in held.items():
        _place(path, value, held, build)
    _draft(held, build)
    _adapters(held, build)
    argv = ["vllm", "serve", model]
    for name, value in build.values.items():
        argv += _words(name, value, build)
    return Command(argv=tuple(argv), env=build.env, notes=tuple(build.notes))


def _model(held: Mapping[Path, Any], build: _Build) -> str:
    repo, commit = held.get(("checkpoint", "repo")), held.get(("checkpoint", "commit"))
    if ("tokenizer", "path") in held:
        build.values["tokenizer"] = held[("tokenizer", "path")]
    if repo is None:
        path = held.get(("checkpoint", "path"))
        if path is None:
            build.notes.append(_FOLDER)
        return str(path) if path is not None else "MODEL"
    if commit is not None:
        build.values["revision"] = commit
        if held.get(("serve", "trust_remote_code")):
            build.values["code_revision"] = held.get(("checkpoint", "code_commit"), commit)
    for key, name in (("repo", "tokenizer"), ("commit", "tokenizer_revision")):
        if ("tokenizer", key) in held:
            build.values[name] = held[("tokenizer", key)]
    return str(repo)


def _place(path: Path, value: Any, held: Mapping[Path, Any], build: _Build) -> None:
    """Where a fact goes: an option's value, a leaf of one, a variable, or a note."""
    if path[0] == "env" and len(path) == 2:
        build.env[path[1]] = str(value)
    elif path[0] == "sampling":
        _sampling(path, value, build)
    elif path[:2] == ("serve", "args") and len(path) > 2:
        nest(build.values, path[2:], value)
    elif path[:2] in GATHERED and len(path) > 2:
        nest(build.values, (GATHERED[path[:2]], *path[2:]), value)
    elif path in RENAMED:
        build.values[RENAMED[path]] = value
    elif path in _ALIASES:
        build.values.setdefault(path[1], value)
    elif path in _SPECIAL:
        _SPECIAL[path](value, held, build)
    elif path[0] == "serve" and len(path) == 2 and path[1] in options.SAME_TAIL:
        build.values[path[1]] = value
    elif path[0] == "serve" and len(path) == 2:
        build.notes.append(f"no option of vLLM sets {dotted(path)}")


def _sampling(path: Path, value: Any, build: _Build) -> None:
    name = "max_new_tokens" if path == ("sampling", "max_tokens") else path[-1]
    if len(path) == 2 and at_least(build.version, SAMPLING_KEYS.get(name, "999")) and at_least(build.version, "0.7.1"):
        nest(build.values, ("override_generation_config", name), value)
    elif path[1:] not in (("stop_token_ids",), ("completions", "max_tokens")):
        build.notes.append(f"vLLM {build.version} keeps no default for {dotted(path)}: send it with each request")


def _quantization(value: Any, held: Mapping[Path, Any], build: _Build) -> None:
    if value != "none":
        build.values["quantization"] = value


def _kv_cache_dtype(value: Any, held: Mapping[Path, Any], build: _Build) -> None:
    if value != held.get(("serve", "dtype")):
        build.values["kv_cache_dtype"] = value


def _batch_invariant(value: Any, held: Mapping[Path, Any], build: _Build) -> None:
    if value:
        build.env["VLLM_BATCH_INVARIANT"] = "1"
        if below(build.version, "0.11.1"):
            build.notes.append(f"vLLM {build.version} has no batch-invariant mode")


def _attention_backend(value: Any, held: Mapping[Path, Any], build: _Build) -> None:
    if at_least(build.version, "0.13.0"):
        build.values["attention_backend"] = value
    else:
        build.env["VLLM_ATTENTION_BACKEND"] = str(value)


def _chat_template(value: Any, held: Mapping[Path, Any], build: _Build) -> None:
    if len(str(value)) == 64 and not set(str(value)) - set("0123456789abcdef"):
        build.notes.append(f"pass --chat-template FILE, where the text of FILE has the sha256 {value}")
    else:
        build.values["chat_template"] = value


def _generation_config(value: Any, held: Mapping[Path, Any], build: _Build) -> None:
    if value in ("auto", "vllm") or len(str(value)) != 64:
        build.values["generation_config"] = value
    else:
        build.notes.append(f"pass --generation-config FOLDER, where its generation_config.json has the sha256 {value}")


_SPECIAL: dict[Path, Callable[[Any, Mapping[Path, Any], _Build], None]] = {
    ("serve", "quantization"): _quantization,
    ("serve", "kv_cache_dtype"): _kv_cache_dtype,
    ("serve", "batch_invariant"): _batch_invariant,
    ("serve", "attention_backend"): _attention_backend,
    ("serve", "chat_template"): _chat_template,
    ("serve", "generation_config"): _generation_config,
}


def _draft(held: Mapping[Path, Any], build: _Build) -> None:
    repo = held.get(("draft", "repo"), held.get(("draft", "path")))
    if repo is not None:
        nest(build.values, ("speculative_config", "model"), repo)
        if ("draft", "commit") in held:
            nest(build.values, ("speculative_config", "revision"), held[("draft", "commit")])
    told = build.values.get("speculative_config")
    if isinstance(told, dict) and not at_least(build.version, "0.8.2"):
        del build.values["speculative_config"]
        old = {"model": "speculative_model", "num_speculative_tokens": "num_speculative_tokens"}
        for name, value in told.items():
            if name in old:
                build.values[old[name]] = value
            elif not (name == "method" and value == "ngram"):
                build.notes.append(f"vLLM {build.version} takes no {name} for speculative decoding")
        if told.get("method") == "ngram":
            build.values["speculative_model"] = "[ngram]"


def _adapters(held: Mapping[Path, Any], build: _Build) -> None:
    names = dict.fromkeys(path[1] for path in held if path[0] == "adapters" and len(path) > 2)
    words = []
    for name in names:
        where = held.get(("adapters", name, "repo"), held.get(("adapters", name, "path")))
        if where is None:
            build.notes.append(f"pass --lora-modules {name}=FOLDER")
        else:
            words.append(f"{name}={where}")
    if words:
        build.values.setdefault("enable_lora", True)
        build.values["lora_modules"] = words


def _words(name: str, value: Any, build: _Build) -> Iterator[str]:
    """An option as arguments, spelled as its release takes it."""
    option = build.table.get(name)
    if option is None:
        build.notes.append(f"vLLM {build.version} has no option --{name.replace('_', '-')}")
        return
    flag = option.flags[0]
    if option.take is Take.SWITCH:
        if value:
            yield flag
    elif option.take is Take.BOTH:
        yield flag if value else option.off[0]
    elif option.take is Take.BOOLEAN:
        yield flag if value is True else f"{flag}={_text(value)}"
    elif option.take in (Take.MANY, Take.ANY):
        yield flag
        yield from (_text(each) for each in (value if isinstance(value, (list, tuple)) else [value]))
    elif option.take is Take.APPEND:
        for each in value if isinstance(value, (list, tuple)) else [value]:
            yield from (flag, _text(each))
    elif value is True and option.take is Take.MAYBE:
        yield flag
    else:
        text = _text(value, json_wanted=option.kind in (Kind.JSON, Kind.JSON_OR_TEXT, Kind.LOOSE))
        if text.startswith("-"):
            yield f"{flag}={text}"
        else:
            yield from (flag, text)


def _text(value: Any, json_wanted: bool = False) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list, tuple)) or (json_wanted and not isinstance(value, str)):
        return json.dumps(_unfolded(value), ensure_ascii=True, separators=(",", ":"))
    return str(value)


def _unfolded(value: Any) -> Any:
    """Empty objects stand as `{}` among facts."""
    if isinstance(value, dict):
        return {key: _unfolded(inner) for key, inner in value.items()}
    return {} if value == "{}" else value
