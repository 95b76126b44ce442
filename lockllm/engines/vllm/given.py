"""What a vLLM command line, its environment and its YAML file say, by the grammar of that release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lockllm.engines import Form, Given, Installed, Model
from lockllm.engines.kernel.argparse import Parsed, Table, Word, canonical, parse
from lockllm.engines.kernel.collect import Collect
from lockllm.engines.kernel.releases import at_least, order
from lockllm.engines.kernel.values import secret_name, unresolved
from lockllm.engines.kernel.variables import contents
from lockllm.engines.vllm import findings, named_files, options, refusals, variables
from lockllm.engines.vllm.levels import spelled_out
from lockllm.engines.vllm.spread import SPREADERS, spread
from lockllm.engines.vllm.yaml_config import Config, config
from lockllm.facts.observation import CheckStatus

_NOT_AUTO = frozenset({"generation_config", "load_format"})
"""Options whose `auto` is a value of its own: it names a place to look, and nothing replaces it."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A command line, read by the table of one release."""

    release: str  # the release by whose table it was read
    table: Table
    sure: bool  # whether that is the release that runs, or the newest that takes the command
    parsed: Parsed
    config: Config
    typed: frozenset[str]  # options that stand on the command line itself, not in the YAML file
    repeated: tuple[str, ...] = ()  # those that stand there more than once


def given(
    form: Form,
    env: Mapping[str, str],
    files: Mapping[str, str],
    version: str | None,
    live: bool,
    installed: Installed | None = None,
) -> Given:
    """What the command says. A YAML file is read where the engine would read it, and the command line outranks it."""
    found = Collect("vllm", live)
    found.secrets += variables.secrets(env)
    said = read(form, files, version, installed)
    _refused(found, form, said, version, installed)
    found.repeated(said.repeated)
    _model(found, form, said)
    words = refusals.in_force(said.parsed)
    for word in words.values():
        _word(found, word, _source(said, word), words, version)
    if (template := words.get("chat_template")) is not None:
        named_files.chat_template(found, template, _source(said, template), files)
    if (folder := words.get("generation_config")) is not None and _is_folder(folder.value):
        over = words["override_generation_config"].value if "override_generation_config" in words else {}
        typed = over if isinstance(over, dict) else {}
        named_files.generation_config(found, folder.value, _source(said, folder), files, typed)
    _config_findings(found, said)
    for reading in variables.readings(env, version, found.by):
        if reading.fact.path[0] == "env":
            found.env.append(reading)
        elif reading.fact.path not in found.readings:
            found.readings[reading.fact.path] = reading
    held = {path: reading.value for path, reading in found.readings.items()}
    findings.tell(found, held, env, version, {})
    if live and findings.chunks_anyway(held, env, version):
        found.forget(("serve", "enable_chunked_prefill"))
    for name, path in contents(env, "vllm"):
        found.path(f"env.{name}", path, f"variable {name}")
    return found.given()


def read(form: Form, files: Mapping[str, str], version: str | None, installed: Installed | None = None) -> Reading:
    """The words in force. Without a version: by the newest release that takes the whole command, else the best one.

    `installed`: the options of that very version by its own source.
    """
    if installed is not None and installed.table is not None:
        return _by(form, files, installed.version, installed.table, sure=True)
    known = options.nearest(version)
    newest = known or options.NEWEST
    best = _by(form, files, newest, options.options(newest), sure=known is not None)
    if known is not None:
        return _or_after(form, files, version, best)
    if not _refusals(form, best):
        return best
    pending, tried = _older(form, best), {newest}
    while pending and _refusals(form, best):
        release = pending.pop(0)
        if release in tried:
            continue
        tried.add(release)
        said = _by(form, files, release, options.options(release), sure=False)
        if _refusals(form, said) < _refusals(form, best):
            best = said
            pending = sorted({*pending, *_older(form, best)}, key=order, reverse=True)
    return best


def _or_after(form: Form, files: Mapping[str, str], version: str | None, best: Reading) -> Reading:
    """A version between two that were read is like either: it is read by the one that takes more."""
    after = options.following(version)
    if after is None or not _refusals(form, best):
        return best
    other = _by(form, files, after, options.options(after), sure=True)
    return other if _refusals(form, other) < _refusals(form, best) else best


def _by(form: Form, files: Mapping[str, str], release: str, table: Table, *, sure: bool) -> Reading:
    settings = config(form, files, release)
    dotted = at_least(release, "0.9.0")
    parsed = parse(_rewritten(form, settings.arguments, release), table, underscores=True, dotted=dotted)
    typed = parsed
    if settings.arguments:
        typed = parse(_rewritten(form, (), release), table, underscores=True, dotted=dotted)
    names = frozenset(word.name for word in typed.words)
    repeated = typed.repeated
    return Reading(
        release=release, table=table, sure=sure, parsed=parsed, config=settings, typed=names, repeated=repeated
    )


def _older(form: Form, said: Reading) -> list[str]:
    """The last releases that have an option which this one refuses or takes for another, newest first."""
    refused = [word.flag for word in said.parsed.words if not word.known or word.flag not in said.table.flags]
    refused += [problem.flag for problem in said.parsed.problems]
    if _strays(form, said) or _swallowed(form, said):  # an option took another number of values: `--api-key K MODEL`
        refused += [word.flag for word in said.parsed.words]
    last = {
        release
        for flag in refused
        for name, steps in options.DATA.options.items()
        for release, short in options.last_spelled(name, steps)
        if (_begins(name, flag) if flag.startswith("--") else {flag, flag[:2]} & short)
    }
    last.update(refusals.last_releases_that_take(said.parsed, _lists(said, None, None)))
    return sorted(last, key=order, reverse=True)


def _begins(name: str, flag: str) -> bool:
    return name.startswith((canonical(flag), canonical(flag).removeprefix("no_")))


def is_module(form: Form) -> bool:
    """Whether the server is started by its module, which takes no positional model."""
    return any("api_server" in word for word in form.program) or form.subcommand == "api_server"


def _strays(form: Form, said: Reading) -> bool:
    return len(said.parsed.positionals) > (0 if is_module(form) else 1)


def _swallowed(form: Form, said: Reading) -> bool:
    """Whether no model is named, and an option of several values may hold it."""
    if is_module(form) or said.parsed.positionals or "model" in said.parsed.last() or said.config.name:
        return False
    return any(len(word.typed) > 1 for word in said.parsed.words)


def _refusals(form: Form, said: Reading) -> int:
    """How many words the release refuses, or takes as short for an option that another one has."""
    unlike = sum(
        word.flag not in said.table.flags and canonical(word.flag) in options.history() for word in said.parsed.words
    )
    lists = _lists(said, None, None)
    problems = refusals.problems(form, is_module(form), said.parsed, lists, None)
    return unlike + len(problems) + _swallowed(form, said)


def _rewritten(form: Form, settings: Sequence[str], release: str) -> list[str]:
    """The arguments as the parser gets them: no `--config FILE`, its settings before the typed ones."""
    argv = list(form.args)
    if "--config" in argv:
        at = argv.index("--config")
        argv = argv[:at] + argv[at + 2 :]
    short = spelled_out(argv, release)
    head = 1 if not is_module(form) and short and not short[0].startswith("-") else 0
    return [*short[:head], *settings, *short[head:]]


def _source(said: Reading, word: Word) -> str:
    return f"argument {word.flag}" if word.name in said.typed else f"{said.config.name}: {word.flag.lstrip('-')}"


def _word(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    name, value = word.name, word.value
    if name in options.SECRET or (not word.known and secret_name(name)):
        found.secret(value)
    elif name == "port":
        found.port = value if isinstance(value, int) else None
        found.operational.append(name)
    elif name in options.OPERATIONAL:
        found.operational.append(name)
    elif name == "middleware":
        _middleware(found, value, source)
    elif name == "nnodes":
        found.per_node[name] = value
        found.kept(name, value, source)
    elif name in options.PER_NODE:
        found.per_node[name] = value
    elif name in SPREADERS:
        spread(found, word, source, words, version)
    elif name in options.NEUTRAL:
        found.set(options.NEUTRAL[name], value, source)
    elif name in options.SAME_TAIL:
        _neutral(found, name, value, source)
    elif name not in options.SPREAD:
        _kept(found, word, source)


def _middleware(found: Collect, value: Any, source: str) -> None:
    """Classes that may rewrite every request, in their order; lockllm's own only adds a header."""
    listed = value if isinstance(value, tuple) else (value,)
    others = tuple(each for each in listed if not str(each).startswith("lockllm.asgi."))
    if others:
        found.kept("middleware", others, source)
    else:
        found.operational.append("middleware")


def _neutral(found: Collect, name: str, value: Any, source: str) -> None:
    if name == "generation_config" and _is_folder(value):
        return
    if name == "max_model_len" and value == -1:
        found.set(("serve", name), "auto", source)
    elif name in _NOT_AUTO and value == "auto":
        found.set(("serve", name), "", source)
        found.readings[("serve", name)] = msgspec.structs.replace(found.readings[("serve", name)], value="auto")
    else:
        found.set(("serve", name), value, source)


def _is_folder(value: Any) -> bool:
    return isinstance(value, str) and value not in ("auto", "vllm") and not unresolved(value)


def _kept(found: Collect, word: Word, source: str) -> None:
    if isinstance(word.value, str) and word.value and not unresolved(word.value):
        if word.name in options.FILES or word.name in options.FILES_OR_NAMES:
            found.path(f"serve.args.{word.name}", word.value, source, or_name=word.name in options.FILES_OR_NAMES)
            return
    if word.name in options.LISTS_OF_FILES and not unresolved(word.value):
        found.listed(f"serve.args.{word.name}", word.value, source, named=True, or_name=True)
        return
    found.kept(word.name, word.value, source)
    if word.name == "attention_config" and isinstance(word.value, dict) and word.value.get("backend"):
        found.set("serve.attention_backend", word.value["backend"], source)


def _model(found: Collect, form: Form, said: Reading) -> None:
    words = refusals.in_force(said.parsed)
    positionals = [] if is_module(form) else list(said.parsed.positionals[:1])
    if is_module(form) and said.parsed.positionals and at_least(said.release, "0.10.0"):
        detail = "the API server's module takes a model as an argument, and does not read it"
        found.finding("check.settings_take_effect", CheckStatus.FAIL, detail, "argument MODEL", "pass --model")
    revision = words.get("revision")
    text = revision.value if revision and isinstance(revision.value, str) else None
    if positionals and positionals[0].strip():
        found.model = Model(text=positionals[0], source="argument MODEL", revision=text)
    elif "model" in words and isinstance(words["model"].value, str):
        found.model = Model(text=words["model"].value, source=_source(said, words["model"]), revision=text)
    pinned = words.get("tokenizer_revision")
    own = words.get("tokenizer")
    word = own or pinned
    if word is not None:
        name = str(own.value) if own else found.model.text if found.model else ""
        at = str(pinned.value) if pinned else text
        source = _source(said, word)
        found.tokenizer = Model(text=name, source=source, revision=at) if name else None


def _refused(found: Collect, form: Form, said: Reading, version: str | None, installed: Installed | None) -> None:
    """`check.flags_accepted`: what the parser of that release refuses."""
    own = installed if installed is not None and installed.table is not None else None
    known = not own.doubts if own is not None else options.is_read(version)
    if installed is not None and own is None:
        found.warnings.append(f"{installed.problem}; its command line is read by the options of vLLM {said.release}")
    known_lists = _lists(said, version, own)
    problems = refusals.problems(form, is_module(form), said.parsed, known_lists, version if said.sure else None)
    release = f"vLLM {version or said.release}" if said.sure else f"vLLM {options.OLDEST} to {options.NEWEST}"
    release = f"{release}: {own.witness}" if own is not None else release
    if problems:
        own_parser = "dynamo.vllm" not in form.program and "--omni" not in form.args  # those add options of their own
        found.refuse(problems, own_parser and (said.sure is False or known), release)
    elif said.sure and known:
        found.finding("check.flags_accepted", CheckStatus.PASS, f"vLLM {version} takes every option", release)


def _lists(said: Reading, version: str | None, own: Installed | None) -> refusals.Lists:
    """The values and keys that the release takes: of its own source where no table has it."""
    if own is None:
        return refusals.lists(version if said.sure else None, said.release)
    return refusals.Lists(values={name: frozenset(map(str, taken)) for name, taken in own.choices.items()}, keys={})


def _config_findings(found: Collect, said: Reading) -> None:
    for detail, fix in said.config.ignored:
        found.finding("check.settings_take_effect", CheckStatus.FAIL, detail, said.config.name, fix)
    found.warnings += said.config.warnings
    if said.config.unread:
        found.config_unread(said.config.unread)
