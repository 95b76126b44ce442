"""What an SGLang command line, its YAML file and its environment give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lockllm.engines import Form, Given, Model
from lockllm.engines._argparse import Parsed, Take, Word, parse
from lockllm.engines._collect import Collect, is_path, pairs, source_of
from lockllm.engines._releases import beyond
from lockllm.engines._values import leaves, secret_name
from lockllm.engines._yaml import YamlError, read
from lockllm.engines.sglang import options
from lockllm.engines.sglang.variables import variables
from lockllm.facts.observation import CheckStatus

NAME = "sglang"


def wants_files(form: Form) -> Iterable[str]:
    """The YAML file of `--config FILE` (0.5.3 and newer)."""
    name = _config(form.args)
    return (name,) if name else ()


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """What the command says. Without a version it is read as the newest release that takes all of it."""
    told = Collect(NAME, live)
    words = _positional(form)
    config = _config(words)
    spans = {0: "argument"}
    if config and config in files:
        added = _from_yaml(config, files[config], version, told)
        spans = {0: config, len(added): "argument"}
        words = (*added, *words)
    elif any(word.startswith("--config=") for word in words):
        told.finding(
            "check.settings_take_effect", CheckStatus.FAIL,
            "--config=FILE is accepted and ignored: the file is read where --config and its name are two arguments",
            "argument --config", "write --config FILE",
        )  # fmt: skip
    parsed, used = _read(words, version)
    told.refuse(
        parsed.problems, not beyond(version, options.NEWEST), f"sglang {used}" if version else "every release read"
    )
    for word in parsed.words:
        _word(told, word, source_of(word) if len(spans) == 1 else _where(word, words, spans))
    for extra in parsed.positionals:
        status = CheckStatus.UNKNOWN if "$" in extra or "{" in extra else CheckStatus.FAIL
        told.finding("check.flags_accepted", status, f"{_shown(extra)} belongs to no option", "", "remove it")
    variables(told, env, version)
    return told.given()


def _shown(word: str) -> str:
    return word if len(word) < 40 and word.isprintable() and not secret_name(word) else "an argument"


def _positional(form: Form) -> tuple[str, ...]:
    """`sglang serve MODEL …` is `--model-path MODEL`; `--model-type` is the command's own."""
    words = form.args
    if form.program and form.program[-1] == "serve":
        if words and not words[0].startswith("-"):
            words = ("--model-path", *words)
        kept: list[str] = []
        skip = False
        for word in words:
            if skip or word == "--model-type":
                skip = not skip
                continue
            if not word.startswith("--model-type="):
                kept.append(word)
        return tuple(kept)
    return words


def _config(words: Sequence[str]) -> str | None:
    for at, word in enumerate(words[:-1]):
        if word == "--config":
            return words[at + 1]
    return None


def _read(words: Sequence[str], version: str | None) -> tuple[Parsed, str]:
    """The line as its release reads it; without one, as the newest release that refuses least."""
    if version:
        return parse(words, options.of(version)), version
    found: tuple[int, Parsed, str] | None = None
    for candidate in reversed(options.VERSIONS):
        parsed = parse(words, options.of(candidate))
        if found is None or len(parsed.problems) < found[0]:
            found = len(parsed.problems), parsed, candidate
        if not parsed.problems:
            break
    assert found is not None
    return found[1], found[2]


def _from_yaml(name: str, text: str, version: str | None, told: Collect) -> tuple[str, ...]:
    """The file as arguments: placed before the command line, which therefore wins."""
    try:
        value = read(text)
    except YamlError as why:
        told.warnings.append(f"{name} cannot be read as YAML ({why}): what it sets is unknown")
        return ()
    if not isinstance(value, dict):
        told.warnings.append(f"{name} holds no mapping: what it sets is unknown")
        return ()
    table = options.of(version or options.NEWEST)
    words: list[str] = []
    for key, inner in value.items():
        flag = "--" + str(key).replace("_", "-")
        option, _ = table.flags.get(flag, (None, True))
        if inner is None or key == "config":
            continue
        if isinstance(inner, bool):
            if inner:
                words.append(flag)
            elif option is None or option.take is not Take.SWITCH:
                words += [flag, "false"]
            else:
                told.finding(
                    "check.settings_take_effect", CheckStatus.FAIL,
                    f"{key}: false is dropped: the option can only be switched on", name, f"remove {key} from {name}",
                )  # fmt: skip
        elif isinstance(inner, list):
            words += [flag, *(json.dumps(each) if isinstance(each, dict) else str(each) for each in inner)]
        elif isinstance(inner, dict):
            words += [flag, json.dumps(inner)]
        else:
            words += [flag, str(inner)]
    return tuple(words)


def _where(word: Word, words: Sequence[str], spans: Mapping[int, str]) -> str:
    """The file or the argument that an option stands in: the last place that spells it."""
    at = max((at for at, each in enumerate(words) if each.partition("=")[0] == word.flag), default=0)
    begin = max(start for start in spans if start <= at)
    return source_of(word) if spans[begin] == "argument" else f"{spans[begin]}: {word.flag.lstrip('-')}"


def _word(told: Collect, word: Word, source: str) -> None:
    name, value = word.name, word.value
    if name in options.SECRETS or secret_name(name):
        told.secret(value)
    elif not word.known:
        told.kept(name, value, source)
    elif name in options.PER_NODE:
        told.per_node[name] = value
    elif name == "nnodes":
        told.per_node[name] = value
        told.kept(name, value, source)
    elif _model(told, name, value, source) or _prompt(told, name, value, source):
        return
    elif name in options.FACTS:
        told.set(options.FACTS[name], value, source)
    elif name == "disable_radix_cache":
        told.set("serve.enable_prefix_caching", not value, source)
    elif name == "sampling_defaults":
        told.set(("serve", "generation_config"), options.SAMPLING_SOURCES.get(str(value), value), source)
        told.auto.discard(("serve", "generation_config"))
        if value == "model":
            told.readings[("serve", "generation_config")] = _plain(told, "auto", source)
    elif name == "chunked_prefill_size":
        told.set("serve.chunked_prefill_size", value, source)
        if isinstance(value, int):
            told.set("serve.enable_chunked_prefill", value > 0, source)
    elif name == "mem_fraction_static":
        told.kept(name, value, source)
        told.set("serve.gpu_memory_share", value, source)
    elif options.operational(name):
        told.operational.append(name)
        if name == "port" and isinstance(value, int):
            told.port = value
    elif name in options.PATHS and isinstance(value, str) and is_path(value):
        told.path(f"serve.args.{name}", value, source)
    else:
        told.kept(name, value, source)


def _plain(told: Collect, value: str, source: str) -> Any:
    from lockllm.facts.registry import seen

    return seen("serve.generation_config", value, source, told.by)


def _model(told: Collect, name: str, value: Any, source: str) -> bool:
    """Options that name checkpoints."""
    if name == "model_path":
        told.model = Model(text=str(value), source=source, revision=told.model.revision if told.model else None)
    elif name == "revision":
        text, where = (told.model.text, told.model.source) if told.model else ("", source)
        told.model = Model(text=text, source=where, revision=str(value))
    elif name == "tokenizer_path":
        told.tokenizer = Model(text=str(value), source=source)
    elif name == "speculative_draft_model_path":
        told.draft = Model(text=str(value), source=source, revision=told.draft.revision if told.draft else None)
    elif name == "speculative_draft_model_revision":
        told.draft = Model(text=told.draft.text if told.draft else "", source=source, revision=str(value))
    elif name == "lora_paths":
        told.adapters.clear()
        for each in value if isinstance(value, (list, tuple)) else (value,):
            _adapter(told, each, source)
    else:
        return False
    return True


def _adapter(told: Collect, each: Any, source: str) -> None:
    """`name=path`, a path, or JSON with `lora_name` and `lora_path`."""
    if isinstance(each, str) and each.lstrip().startswith("{"):
        try:
            each = json.loads(each)
        except ValueError:
            return
    if isinstance(each, dict):
        name, path = str(each.get("lora_name", "")), str(each.get("lora_path", ""))
        if name and path:
            told.adapters[name] = Model(text=path, source=source)
        return
    for name, path in pairs([each]):
        told.adapters[name] = Model(text=path, source=source)


def _prompt(told: Collect, name: str, value: Any, source: str) -> bool:
    """Options that move the prompt."""
    if name == "chat_template":
        text = str(value)
        if (
            is_path(text)
            or text.endswith((".jinja", ".json"))
            or (text not in options.BUILTIN_TEMPLATES and "/" in text)
        ):
            told.path("serve.chat_template", text, source)
        else:
            told.paths.pop(("serve", "chat_template"), None)
            told.set("serve.chat_template", text, source)
    elif name == "grammar_backend":
        told.kept(name, value, source)
        told.set("serve.structured_output", value, source)
    elif name == "default_chat_template_kwargs":
        told.kept(name, value, source)
        told.forget(("serve", "chat_template_kwargs"))
        for path, leaf in leaves(value, ("serve", "chat_template_kwargs")):
            if len(path) > 2:
                told.set(path, leaf, source)
    elif name == "json_model_override_args":
        told.kept(name, value, source)
        scaling = value.get("rope_scaling") if isinstance(value, dict) else None
        if isinstance(scaling, dict):
            told.set("serve.rope_scaling", scaling, source)
    else:
        return False
    return True
