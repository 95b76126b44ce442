"""What a `trtllm-serve` command line, its YAML file (which wins) and its environment give."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from lockllm.engines import Form, Given, Model, Template
from lockllm.engines.kernel.argparse import Word, parse
from lockllm.engines.kernel.collect import Collect, exact, source_of
from lockllm.engines.kernel.pyyaml import YamlError, read
from lockllm.engines.kernel.values import leaves, secret_name, unresolved
from lockllm.engines.kernel.variables import counts
from lockllm.engines.tensorrt_llm import options
from lockllm.facts.observation import CheckStatus

NAME = "tensorrt-llm"
FLAG = "--chat_template"
_YAML = "extra_llm_api_options"


def wants_files(form: Form) -> Iterable[str]:
    """The YAML file of `--config` or `--extra_llm_api_options`, and the file of `--chat_template`."""
    found = parse(form.args, options.TABLE).last()
    named = found.get(_YAML)
    template = found.get("chat_template")
    files = (str(named.value),) if named is not None and named.value else ()
    text = str(template.value) if template is not None else ""
    return (*files, text) if _is_template_file(text) else files


def explicit_template(text: str) -> Template:
    """The text of a template's file, with one kind of line end."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return Template(text=plain, value=f"sha256:{_digest(text)}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _is_template_file(text: str) -> bool:
    """Whether `--chat_template` names a file: all but a template in one line."""
    return bool(text) and not any(char in text for char in "{}\n") and not unresolved(text)


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """What the command says: flags first, then the file over them."""
    told = Collect(NAME, live)
    parsed = parse(form.args, options.TABLE)
    told.refuse(exact(parsed, options.TABLE), False, "trtllm-serve")
    told.repeated(parsed.repeated)
    for word in parsed.words:
        _word(told, word, files)
    if parsed.positionals:
        revision = told.model.revision if told.model else None
        told.model = Model(text=parsed.positionals[0], source="argument", revision=revision)
        for extra in parsed.positionals[1:]:
            status = CheckStatus.UNKNOWN if "$" in extra else CheckStatus.FAIL
            told.finding("check.flags_accepted", status, "more than one model is named", "trtllm-serve", "name one")
    file = parsed.last().get(_YAML)
    if file is not None and str(file.value) in files:
        _file(told, str(file.value), files[str(file.value)])
    elif file is not None:
        told.path(f"serve.args.{_YAML}", str(file.value), source_of(file))
        reason = f"{file.value} ({source_of(file)}) outranks the command line, and was not read"
        told.warnings.append(f"{file.value} outranks the command line and was not read: what it sets is unknown")
        told.overruled(("serve", "sampling"), reason, "look where that file is, or check the server's mounts")
    for name in sorted(env):
        if counts(name, "tensorrt-llm"):
            told.variable(name, env[name])
    if env.get("FORCE_DETERMINISTIC") == "1":
        told.set(
            "serve.batch_invariant", False, "variable FORCE_DETERMINISTIC: repeatable kernels, not batch invariance"
        )
    return told.given()


def _word(told: Collect, word: Word, files: Mapping[str, str]) -> None:
    name, value, source = word.name, word.value, source_of(word)
    if secret_name(name):
        told.secret(value)
    elif name == _YAML:
        return
    elif name == "revision":
        told.model = Model(text=told.model.text if told.model else "", source=source, revision=str(value))
    elif name == "tokenizer":
        told.tokenizer = Model(text=str(value), source=source)
    elif name == "chat_template":
        _template(told, str(value), source, files)
    elif name in options.FACTS:
        told.set(options.FACTS[name], value, source)
    elif name in options.FILES and isinstance(value, str) and not unresolved(value):
        told.path(f"serve.args.{name}", value, source)
    elif name in options.OPERATIONAL:
        told.operational.append(name)
        if name == "port" and isinstance(value, int):
            told.port = value
        if name == "served_model_name":
            told.called = [str(value)]
    else:
        told.kept(name, value, source)
        if name in options.BOTH:
            told.set(options.BOTH[name], value, source)


def _template(told: Collect, text: str, source: str, files: Mapping[str, str]) -> None:
    if text in files:
        told.explicit(FLAG, explicit_template(files[text]), source, text)
    elif _is_template_file(text):
        told.template_elsewhere(FLAG, text, source)
    elif unresolved(text.replace("{{", "").replace("}}", "")):
        told.set("serve.chat_template", text, source)
    else:
        told.explicit(FLAG, Template(text=text, value=f"sha256:{_digest(text)}"), source)


def _file(told: Collect, name: str, text: str) -> None:
    try:
        settings = read(text)
    except YamlError as why:
        told.warnings.append(f"{name} cannot be read as YAML ({why}): what it sets is unknown")
        return
    told.warnings += [f"{name}: {note}" for note in settings.notes]
    value = settings.value
    if not isinstance(value, dict):
        told.warnings.append(f"{name} holds no mapping: what it sets is unknown")
        return
    for key, inner in value.items():
        source = f"{name}: {key}"
        if key == "cuda_graph_config":
            told.set("serve.enforce_eager", inner is None, source)
        if isinstance(inner, dict):
            _section(told, key, inner, source)
        elif inner is not None:
            _key(told, key, inner, source)


def _section(told: Collect, key: str, value: Mapping[str, Any], source: str) -> None:
    for path, leaf in leaves(value, (key,)):
        dotted = ".".join(path)
        if any(secret_name(part) for part in path):
            told.secret(leaf)
        elif dotted in ("speculative_config.speculative_model_dir", "speculative_config.speculative_model"):
            told.draft = Model(text=str(leaf), source=source)
        elif dotted in options.FACTS:
            told.set(options.FACTS[dotted], leaf, source)
        elif leaf is not None:
            told.set(("serve", "args", *path), leaf, source)
            if dotted in options.BOTH:
                told.set(options.BOTH[dotted], leaf, source)


def _key(told: Collect, key: str, value: Any, source: str) -> None:
    if secret_name(key):
        told.secret(value)
    elif key in ("model", "tokenizer"):
        model = Model(text=str(value), source=source)
        if key == "model":
            told.model = model
        else:
            told.tokenizer = model
    elif key in options.FACTS:
        told.set(options.FACTS[key], value, source)
    elif key in options.OPERATIONAL:
        told.operational.append(key)
    else:
        told.kept(key, value, source)
