"""What an SGLang command line, its YAML file and its environment give."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lockllm.engines import Form, Given, Installed, Model, Template
from lockllm.engines.kernel.argparse import Parsed, Word, parse
from lockllm.engines.kernel.collect import Collect, is_path, pairs, source_of
from lockllm.engines.kernel.releases import below, beyond
from lockllm.engines.kernel.values import leaves, secret_name, stray, unresolved
from lockllm.engines.sglang import config_file, options
from lockllm.engines.sglang.options import Release
from lockllm.engines.sglang.reading import read, without_effect
from lockllm.engines.sglang.variables import variables
from lockllm.facts.observation import CheckStatus

NAME = "sglang"
FLAG = "--chat-template"


def wants_files(form: Form) -> Iterable[str]:
    """The YAML file of `--config FILE` (0.5.3 and newer)."""
    path = config_file.named(form.args).path
    return (path,) if path else ()


def wants_more(form: Form, files: Mapping[str, str]) -> Iterable[str]:
    """The file of `--chat-template`, which may be named on the line or in the YAML file."""
    words, _ = _with_file(
        _without_router(form, _positional(form)), files, options.release(options.NEWEST), None, Collect(NAME, False)
    )
    named = parse(words, options.of(options.NEWEST)).last().get("chat_template")
    text = str(named.value) if named is not None else ""
    return (text,) if _is_template_file(text) else ()


def explicit_template(text: str) -> Template:
    """A `.jinja` file as SGLang keeps it: no line ends around it, and a written `\\n` is one (`template_manager.py`)."""
    kept = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").replace("\\n", "\n")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return Template(text=kept, value=f"sha256:{digest}")


def _is_template_file(text: str) -> bool:
    """Whether `--chat-template` names a file: what is no name of a built-in conversation."""
    if not text or unresolved(text) or text in options.BUILTIN_TEMPLATES:
        return False
    return is_path(text) or text.endswith((".jinja", ".json")) or "/" in text


def given(
    form: Form,
    env: Mapping[str, str],
    files: Mapping[str, str],
    version: str | None,
    live: bool,
    installed: Installed | None = None,
) -> Given:
    """What the command says. Without a version it is read as the newest release that takes all of it."""
    told = Collect(NAME, live)
    typed = _without_router(form, _positional(form))
    words, spans = _with_file(typed, files, options.release(version or options.NEWEST, installed), version, told)
    parsed, used = read(words, version, installed)
    _refuse(told, parsed, used, version, installed)
    told.repeated(parse(typed, used.table).repeated)
    for flag in without_effect(parsed, used):
        told.finding(
            "check.settings_take_effect", CheckStatus.FAIL,
            f"{flag} is accepted, and sglang {used.version} does nothing with it", f"argument {flag}", "remove it",
        )  # fmt: skip
    idle = {name for name, standing in used.standing.items() if standing == "idle"}
    for word in parsed.words:
        if word.name not in idle:
            _word(told, word, source_of(word) if len(spans) == 1 else _where(word, words, spans), files)
    for extra in parsed.positionals:
        status = CheckStatus.UNKNOWN if "$" in extra or "{" in extra else CheckStatus.FAIL
        told.finding("check.flags_accepted", status, f"{stray(extra, words)} belongs to no option", "", "remove it")
    variables(told, env, version)
    return told.given()


def _refuse(told: Collect, parsed: Parsed, used: Release, version: str | None, installed: Installed | None) -> None:
    """`check.flags_accepted`: what the parser of that release refuses."""
    sure, by = not beyond(version, options.NEWEST), f"sglang {used.version}" if version else "every release read"
    if installed is not None and installed.table is not None:
        sure, by = not installed.doubts, f"{by}: {installed.witness}"
    elif installed is not None:
        told.warnings.append(f"{installed.problem}; its command line is read by the options of older releases")
    told.refuse(parsed.problems, sure, by)


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


def _within(form: Form, *launchers: str) -> bool:
    """Whether another program takes the command line first, and has options of its own."""
    return any(word.partition(".")[0] in launchers for word in form.program)


def _without_router(form: Form, words: tuple[str, ...]) -> tuple[str, ...]:
    """The servers' own arguments: `sglang_router.launch_server` keeps every `--router-…` for itself."""
    if not _within(form, "sglang_router"):
        return words
    kept: list[str] = []
    own = False
    for word in words:
        if word.startswith("-"):
            own = word.startswith("--router-")
        if not own:
            kept.append(word)
    return tuple(kept)


def _with_file(
    words: tuple[str, ...], files: Mapping[str, str], release: Release, version: str | None, told: Collect
) -> tuple[tuple[str, ...], Mapping[int, str]]:
    """The line with the file of `--config` before it, and which words come from where."""
    named = config_file.named(words)
    if named.problem:
        told.finding(
            "check.settings_take_effect",
            CheckStatus.FAIL,
            named.problem,
            "argument --config",
            "write --config FILE.yaml",
        )
    if named.path is None or below(version, config_file.SINCE):
        return words, {0: "argument"}
    if named.path not in files:
        told.config_unread(f"{named.path} (argument --config) was not read")
        return words, {0: "argument"}
    told.operational.append("config")
    added = config_file.arguments(named.path, files[named.path], release, told)
    return (*added, *config_file.without_config(words)), {0: named.path, len(added): "argument"}


def _where(word: Word, words: Sequence[str], spans: Mapping[int, str]) -> str:
    """The file or the argument that an option stands in: the last place that spells it."""
    at = max((at for at, each in enumerate(words) if each.partition("=")[0] == word.flag), default=0)
    begin = max(start for start in spans if start <= at)
    return source_of(word) if spans[begin] == "argument" else f"{spans[begin]}: {word.flag.lstrip('-')}"


def _word(told: Collect, word: Word, source: str, files: Mapping[str, str]) -> None:
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
    elif _model(told, name, value, source) or _prompt(told, name, value, source, files):
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
    elif name in options.FILES and isinstance(value, str) and not unresolved(value):
        told.path(f"serve.args.{name}", value, source)
    elif name in options.FILES_OR_NAMES and isinstance(value, str) and value and not unresolved(value):
        told.path(f"serve.args.{name}", value.removeprefix("@"), source, or_name=not value.startswith("@"))
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


def _template(told: Collect, text: str, source: str, files: Mapping[str, str]) -> None:
    """A `.jinja` file is the template in force; a `.json` file is a conversation that SGLang's own code renders."""
    if text.endswith(".json"):
        told.path("serve.chat_template", text, source)
        told.set("chat_template.source", FLAG, source)
        reason = f"{text} ({source}) is a conversation that SGLang renders in its own code"
        told.unreadable(("chat_template", "prompt_probes"), reason, "ask the running server")
    elif text in files:
        told.explicit(FLAG, explicit_template(files[text]), source, text)
    else:
        told.template_elsewhere(FLAG, text, source)


def _prompt(told: Collect, name: str, value: Any, source: str, files: Mapping[str, str]) -> bool:
    """Options that move the prompt."""
    if name == "chat_template":
        text = str(value)
        if _is_template_file(text):
            _template(told, text, source, files)
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
