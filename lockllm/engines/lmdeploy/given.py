"""What an `lmdeploy serve api_server` command line and its environment give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Form, Given, Model
from lockllm.engines.kernel.argparse import Word, parse
from lockllm.engines.kernel.collect import Collect, is_path, pairs, source_of
from lockllm.engines.kernel.values import secret_name
from lockllm.engines.kernel.variables import counts
from lockllm.engines.lmdeploy import options
from lockllm.facts.observation import CheckStatus
from lockllm.facts.types import whole

NAME = "lmdeploy"
FLAG = "--chat-template"


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """What the command says."""
    told = Collect(NAME, live)
    parsed = parse(form.args, options.TABLE)
    told.refuse(parsed.problems, False, "lmdeploy 0.18")
    told.repeated(parsed.repeated)
    for word in parsed.words:
        _word(told, word)
    if parsed.positionals:
        revision = told.model.revision if told.model else None
        told.model = Model(text=parsed.positionals[0], source="argument", revision=revision)
    if len(parsed.positionals) > 1:
        told.finding(
            "check.flags_accepted", CheckStatus.UNKNOWN, "more than one model is named", "lmdeploy serve api_server",
            "name one",
        )  # fmt: skip
    for name in sorted(env):
        if counts(name, "lmdeploy"):
            told.variable(name, env[name])
    return told.given()


def _word(told: Collect, word: Word) -> None:
    name, value, source = word.name, word.value, source_of(word)
    if name in options.SECRETS or secret_name(name):
        told.secret(value)
    elif name == "revision":
        told.model = Model(text=told.model.text if told.model else "", source=source, revision=str(value))
    elif name in options.PER_NODE:
        told.per_node[name] = value
    elif name == "speculative_draft_model":
        told.draft = Model(text=str(value), source=source)
    elif name == "adapters":
        told.adapters.clear()
        for key, path in pairs(value if isinstance(value, tuple) else (value,)):
            told.adapters[key] = Model(text=path, source=source)
    elif name == "chat_template":
        _template(told, str(value), source)
    elif name == "quant_policy":
        _cache(told, value, source)
    elif name == "generation_config":
        _generation(told, str(value), source)
    elif name in options.FACTS:
        told.set(options.FACTS[name], value, source)
        if name in options.KEPT_TOO:
            told.kept(name, value, source)
    elif name in options.OPERATIONAL:
        told.operational.append(name)
        if name == "server_port" and isinstance(value, int):
            told.port = value
        if name == "model_name":
            told.called = [str(value)]
    else:
        _kept(told, name, value, source)


def _kept(told: Collect, name: str, value: Any, source: str) -> None:
    told.kept(name, value, source)
    if name == "nnodes":
        told.per_node[name] = value
    elif name == "cache_max_entry_count":
        told.set("serve.gpu_memory_share", value, source)
    elif name == "hf_overrides" and isinstance(value, dict) and isinstance(value.get("rope_scaling"), dict):
        told.set("serve.rope_scaling", value["rope_scaling"], source)


def _template(told: Collect, text: str, source: str) -> None:
    """A name of LMDeploy's own, or a JSON file of one: either is rendered in its own code (`model.py`)."""
    if is_path(text) or text.endswith((".json", ".jinja")):
        told.path("serve.chat_template", text, source)
        told.set("chat_template.source", FLAG, source)
        reason = f"{text} ({source}) is a template that LMDeploy renders in its own code"
        told.unreadable(("chat_template", "prompt_probes"), reason, "compare answers of the running server")
    else:
        told.path("serve.chat_template", text, source, or_name=True)


def _cache(told: Collect, value: Any, source: str) -> None:
    number = whole(str(value))
    told.kept("quant_policy", value if number is None else number, source)
    dtype = options.KV_CACHE.get(str(value).lower())
    if dtype is not None:
        told.set("serve.kv_cache_dtype", dtype, source)


def _generation(told: Collect, text: str, source: str) -> None:
    """`auto`, `lmdeploy`, or a folder or repository whose generation_config.json counts."""
    if text in ("auto", "lmdeploy"):
        told.set("serve.generation_config", text, source)
        return
    told.path("serve.generation_config", text, source, or_name=True, inside="generation_config.json")
