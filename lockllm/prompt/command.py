"""What `lockllm render` reads, renders and shows."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lockllm import engines
from lockllm.errors import UsageError
from lockllm.prompt.probes import PROBES, as_served
from lockllm.prompt.render import Analysis, Rendered, format_of, render, study
from lockllm.prompt.resolve import resolve
from lockllm.prompt.rules import NEWEST, Rules, rules
from lockllm.prompt.templates import Candidate, Read
from lockllm.prompt.tokens import held_tokens, special_tokens

_MOST = 64 * 2**20


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint holds of its prompt: files by name, or the template keys and special tokens of a GGUF."""

    path: str
    read: Read
    names: Sequence[str]
    gguf: Mapping[str, str] | None = None
    gguf_tokens: Mapping[str, str] = {}


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    template: str | None = None
    request: str | Mapping[str, Any] | None = None  # a file, `-`, or the body itself
    tokens: str | None = None
    now: str | None = None
    engine: str | None = None
    version: str | None = None


def compose(held: Material | None, given: Given) -> tuple[Candidate, Rendered]:
    """The template that was meant, and the text it renders. Raises UsageError for anything that is amiss."""
    if held is None and given.template is None:
        raise UsageError("no template is named", fix="name a checkpoint, or give --template FILE")
    at = moment(given.now)
    body = _with_defaults(request(given.request), given.engine)
    if given.template is not None:
        chosen = template(given.template)
    else:
        assert held is not None
        chosen = _winner(held, given, body.get("tools") is not None)
    visible = tokens(given.tokens) if given.tokens is not None else _held_tokens(held)
    applied = _rules(given)
    body = _as_engine(chosen.text or "", body, visible, at, given.engine)
    return chosen, render(chosen.text or "", body, visible, at, where=chosen.source, applied=applied)


def _with_defaults(body: dict[str, Any], engine: str | None) -> dict[str, Any]:
    """The body as an engine's chat completions read it: `add_generation_prompt` is true where it is left out.

    vLLM `entrypoints/openai/chat_completion/protocol.py`, SGLang `entrypoints/openai/protocol.py`, transformers serve and
    the others alike. `apply_chat_template` itself leaves it out, and so it stays where no engine is named.
    """
    if engine is None or body.get("continue_final_message"):
        return body
    return {"add_generation_prompt": True, **body}


def caveat(engine: str | None) -> str:
    """Why the text may not be that of the engine; empty where it is."""
    prompts = engines.identity(engine).prompts
    if not prompts.own_renderer:
        return ""
    return f"{prompts.own_renderer}, so this text may differ from the server's: {prompts.compare}"


def shown(text: str, terminal: bool) -> str:
    """The text as it is, or with its control characters spelled out where a terminal would obey them."""
    if not terminal:
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else ascii(char)[1:-1] for char in text)


def template(path: str) -> Candidate:
    """A template in a file of its own: UTF-8, every kind of line end read as one, as transformers reads it."""
    raw = _read(path, "the template")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError("the template is no UTF-8", where=path, fix="save it as UTF-8") from error
    return Candidate(text.replace("\r\n", "\n").replace("\r", "\n"), path)


def request(given: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The body of a chat completion: given, in a file, or on standard input (`-`); the first probe where there is none."""
    if given is None:
        return dict(PROBES["user"].request)
    found = _object(_read(given, "the request"), given, "the request") if isinstance(given, str) else dict(given)
    if "messages" not in found:
        fix = 'give it as {"messages": [{"role": "user", "content": "…"}]}'
        raise UsageError("the request holds no messages", where=given if isinstance(given, str) else "request", fix=fix)
    return found


def tokens(path: str) -> dict[str, Any]:
    """Special tokens by name, or a whole `tokenizer_config.json`."""
    return special_tokens(_object(_read(path, "the special tokens"), path, "the special tokens"))


def moment(text: str | None) -> dt.datetime:
    """The time that a template is told: ISO 8601, as the server's wall clock shows it; now where none is given."""
    if text is None:
        return dt.datetime.now()  # noqa: DTZ005 - a server's templates read naive local time
    plain = text.strip()
    if plain.endswith(("Z", "z")):
        plain = plain[:-1] + "+00:00"
    try:
        return dt.datetime.fromisoformat(plain).replace(tzinfo=None)
    except ValueError as error:
        fix = "write it as 2026-03-05T14:30:07"
        raise UsageError(f"--now must be a date and time in ISO 8601, found {text!r}", fix=fix) from error


def _winner(held: Material, given: Given, with_tools: bool) -> Candidate:
    """The template that the request meets. Raises UsageError where the checkpoint has none for it."""
    resolution = resolve(held.read, held.names, given.engine, given.version, gguf=held.gguf, model=held.path)
    found = resolution.with_tools if with_tools else resolution.winner
    if found is not None and found.text is not None:
        return found
    built_in = f"the engine takes a template of its own ({found.source})" if found is not None else ""
    reason = "; ".join(each for each in dict.fromkeys((built_in, *resolution.problems, resolution.unknown)) if each)
    reason = reason or "none of its files holds one"
    raise UsageError(
        f"the checkpoint has no chat template for this request: {reason}",
        where=held.path,
        fix="give one with --template FILE",
    )


def _held_tokens(held: Material | None) -> Mapping[str, Any]:
    """The special tokens of the checkpoint, if one is named."""
    if held is None:
        return {}
    found = held.gguf_tokens or held_tokens(held.read, held.names if held.gguf is None else ())
    if isinstance(found, str):
        raise UsageError(found, where=held.path, fix="give them with --special-tokens FILE")
    return found


def _rules(given: Given) -> Rules | None:
    if not engines.identity(given.engine).prompts.is_library or given.version is None:
        return None
    applied = rules(given.version)
    if applied is None:
        what = f"what transformers {given.version} does to a conversation was not read (newest read: {NEWEST})"
        raise UsageError(what, where="--engine-version", fix="name a release from 4.43 on, or leave the option out")
    return applied


def _as_engine(
    text: str, body: dict[str, Any], visible: Mapping[str, Any], at: dt.datetime, engine: str | None
) -> dict[str, Any]:
    """The request as the engine hands it to the template. Raises UsageError where the engine would refuse it."""
    if not engines.identity(engine).prompts.content_format:
        return body
    analysis = study(text, (), visible, at)[0]
    form = format_of(analysis, engine) if isinstance(analysis, Analysis) else "string"
    try:
        return as_served(body, engine, form)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{engine} cannot read the messages of this request: {error}"
        raise UsageError(what, where="the request", fix="give the body of a chat completion") from error


def _object(raw: bytes, where: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except RecursionError as error:
        raise UsageError(f"{what} is nested too deeply", where=where, fix="flatten it") from error
    except ValueError as error:
        words = error.msg if isinstance(error, json.JSONDecodeError) else "it is no UTF-8 or holds a number too long"
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"{what} is no JSON: {words}", where=where + line, fix="correct the file") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a JSON object", where=where, fix="correct the file")
    return value


def _read(path: str, what: str) -> bytes:
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(_MOST + 1)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    fix = "name a file, or give the text on standard input: -"
                    raise UsageError(f"{what} is not a regular file", where=path, fix=fix)
                raw = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "its name contains a NUL"
        raise UsageError(f"{what} cannot be read: {words}", where=path, fix="name a file that can be read") from error
    if len(raw) > _MOST:
        raise UsageError(f"{what} is longer than {_MOST >> 20} MiB", where=path, fix="name a shorter file")
    return raw
