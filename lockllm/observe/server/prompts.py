"""The prompt of a server: its template, explicit or from the checkpoint, resolved and probed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.checkpoint import Look
from lockllm.engines import Context, Engine
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import ABSENT, By, Check, Reading, Unobserved
from lockllm.observe.python import interpreter
from lockllm.observe.request import Request
from lockllm.observe.server.endpoints import Replies
from lockllm.observe.server.locate import Target
from lockllm.prompt import live, readings
from lockllm.prompt.probes import NOW
from lockllm.prompt.render import Analysis, study
from lockllm.prompt.sandbox import Program
from lockllm.prompt.templates import Candidate

_GGUF = "tokenizer.chat_template"
_CHOOSING: Mapping[str, Path] = {
    "tool_call_parser": ("serve", "tool_call_parser"),
    "custom_tokenizer": ("serve", "args", "custom_tokenizer"),
}
_CHOOSING_VARIABLES = ("DISABLE_HARMONY_ADAPTER", "VLLM_SYSTEM_START_DATE")


def observe(
    target: Target,
    engine: Engine | None,
    look: Look,
    context: Context,
    held: Mapping[Path, Any],
    request: Request,
    replies: Replies | None = None,
    main: Look | None = None,
) -> Iterator[Reading | Unobserved | Check]:
    """Template, context, and probes, beside what the server reports about them. The request keeps the text in force.

    `look` is at the tokenizer's files, `main` at the model's where they lie elsewhere.
    """
    if look.format == "gguf" and not look.gguf:
        for group in ("chat_template", "prompt_probes"):
            yield Unobserved((group,), "no GGUF header was read", "name one GGUF file on this host")
        return
    if (gap := _elsewhere(target)) is not None:
        if replies is not None and replies.prompts is not None:
            yield from served(replies, request)
        yield from (msgspec.structs.replace(gap, path=(group,)) for group in ("chat_template", "prompt_probes"))
        return
    name = engine.name if engine else None
    setup = readings.Setup(
        engine=name,
        version=context.version,
        explicit=_explicit(target, held),
        transformers=context.packages.get("transformers"),
        tokenizer_mode=_text(held.get(("tokenizer", "mode"))),
        content_format=_text(held.get(("chat_template", "content_format"))),
        arguments=_arguments(held),
        model=_model(target) or (request.named if request.edition >= 2 else ""),
        options=_options(target, held),
        edition=request.edition,
        served=replies.prompts if replies else None,
        clock=request.clock,
        zone=target.env.get("TZ"),
        brief=request.quick and target.stage is Stage.LIVE,
        program=Program(*named) if (named := interpreter.allowed(request.python)) else None,
    )
    keys = {key: str(value) for key, value in look.gguf.items() if key.startswith(_GGUF) and isinstance(value, str)}
    found = readings.observe(
        lambda name: (main if name == "config.json" and main is not None else look).read(name),
        look.names,
        setup,
        gguf=keys if look.gguf else None,
        gguf_tokens=dict(look.special_tokens) or None,
        tokenizer_json=look.place("tokenizer.json"),
        by=By.FILE,
    )
    winner = found.resolution.winner
    if request.keep_template is not None and winner is not None and winner.text is not None:
        request.keep_template(winner.text)
    yield from found.readings
    yield from found.unobserved
    yield from found.checks


def served(replies: Replies, request: Request) -> Iterator[Reading | Unobserved]:
    """The probes of a server whose checkpoint is not available."""
    if replies.prompts is not None:
        clock = request.clock
        text = _shown(replies)
        if text is not None:
            if request.keep_template is not None:
                request.keep_template(text)
            analysis = study(text, (), {}, NOW)[0]
            if isinstance(analysis, Analysis):
                clock = readings.reads_clock(analysis, replies.prompts.engine)
        yield from live.readings(replies.prompts, clock)


def _shown(replies: Replies) -> str | None:
    """The template's own text, where the server shows it: `GET /props` of llama.cpp."""
    for answer in replies.answers:
        if answer.probe.path == "/props" and isinstance(answer.json, dict):
            text = answer.json.get("chat_template")
            return text if isinstance(text, str) else None
    return None


def _explicit(target: Target, held: Mapping[Path, Any]) -> Candidate | None:
    """The text that a flag puts in force, as the engine keeps it; else one of the command's words, by its digest."""
    plan = target.plan
    given = plan.given if plan is not None else None
    if given is not None and given.template is not None:
        return Candidate(given.template, str(held.get(("chat_template", "source"))))
    source, digest = held.get(("chat_template", "source")), held.get(("chat_template", "sha256"))
    if plan is None or not isinstance(source, str) or not source.startswith("-") or not isinstance(digest, str):
        return None
    for text in (*plan.files.values(), *(plan.form.args if plan.form else ()), *plan.env.values()):
        for plain in (text, text.replace("\r\n", "\n").replace("\r", "\n"), text.rstrip("\n")):
            if hashlib.sha256(plain.encode("utf-8", "surrogateescape")).hexdigest() == digest:
                return Candidate(plain, source)
    return None


def _elsewhere(target: Target) -> Unobserved | None:
    """Why the template is unknown: an option puts one in force that was not read. The checkpoint's own says nothing then."""
    given = target.plan.given if target.plan else None
    return next((gap for gap in given.unread if gap.path == ("chat_template",)), None) if given else None


def _arguments(held: Mapping[Path, Any]) -> dict[str, Any]:
    """The server's default `chat_template_kwargs`: one leaf a fact, put together again."""
    base = ("serve", "chat_template_kwargs")
    found: dict[str, Any] = {}
    for path, value in held.items():
        if path[: len(base)] != base or value is ABSENT:
            continue
        if len(path) == len(base) and isinstance(value, Mapping):
            found.update(value)
            continue
        at = found
        for part in path[len(base) : -1]:
            at = at.setdefault(part, {})
        if len(path) > len(base):
            at[path[-1]] = value
    return found


def _model(target: Target) -> str:
    given = target.plan.given if target.plan else None
    return given.model.text if given and given.model else ""


def _options(target: Target, held: Mapping[Path, Any]) -> dict[str, str]:
    """The options and variables that choose who renders, as far as they are given."""
    paths = {name: path for name, path in _CHOOSING.items() if isinstance(held.get(path), str)}
    variables = {name: target.env[name] for name in _CHOOSING_VARIABLES if name in target.env}
    planned = {name: held[("env", name)] for name in _CHOOSING_VARIABLES if isinstance(held.get(("env", name)), str)}
    return {**variables, **planned, **{name: str(held[path]) for name, path in paths.items()}}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
