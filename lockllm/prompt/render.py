"""Rendering a conversation as transformers' `apply_chat_template` does: `render`, and `renderings` for many at once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from lockllm.errors import UsageError, WorldError
from lockllm.prompt.rules import Rules
from lockllm.prompt.sandbox import TEMPLATE_LIMITS, Limits, Outcome, run

_BOUNDS = {
    "memory": "it needs more memory than a template may take",
    "depth": "it is nested or calls itself too deeply",
    "size": "its output is too long",
}
REQUEST_KEYS = (
    "messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template_kwargs",
)  # fmt: skip
"""What a rendering takes from the body of a chat completion; the rest of a body moves no prompt."""


class Rendered(msgspec.Struct, frozen=True):
    """The text of one conversation and the sha256 of its UTF-8 bytes."""

    text: str
    sha256: str


class Refused(msgspec.Struct, frozen=True):
    """No text: the template, or the bounds it runs in, refused this conversation. `bounded`: it was the bounds."""

    reason: str
    bounded: bool = False
    world: bool = False  # the reason lies with this machine, not with the template


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What a template looks up outside itself, and the content format that engines take from its syntax tree."""

    clock: bool
    chance: bool
    tokens: tuple[str, ...]
    arguments: tuple[str, ...]
    reads: tuple[str, ...]
    vllm_format: str
    sglang_format: str


def render(
    template: str, request: Mapping[str, Any], special_tokens: Mapping[str, Any], now: datetime, *,
    where: str = "the template", applied: Rules | None = None,
) -> Rendered:  # fmt: skip
    """The text that transformers 5.24.0 would render, or as `applied` says. Raises UsageError where template or bounds refuse."""
    found = renderings(template, [request], special_tokens, now, applied=applied)[0]
    if isinstance(found, Rendered):
        return found
    if found.world:
        raise WorldError(f"the chat template cannot be rendered here: {found.reason}", where=where)
    if found.bounded:
        raise UsageError(
            f"the chat template is stopped: {found.reason}", where=where, mend="use a template that comes to an end"
        )
    what = f"the chat template refuses this conversation: {found.reason}"
    raise UsageError(what, where=where, mend="change the request or the template")


def renderings(
    template: str, requests: Sequence[Mapping[str, Any]], special_tokens: Mapping[str, Any], now: datetime, *,
    applied: Rules | None = None, limits: Limits = TEMPLATE_LIMITS,
) -> tuple[Rendered | Refused, ...]:  # fmt: skip
    """One answer for each request, from one child."""
    return study(template, requests, special_tokens, now, applied=applied, limits=limits, analyze=False)[1]


def study(
    template: str, requests: Sequence[Mapping[str, Any]], special_tokens: Mapping[str, Any], now: datetime, *,
    applied: Rules | None = None, limits: Limits = TEMPLATE_LIMITS, analyze: bool = True,
) -> tuple[Analysis | Refused, tuple[Rendered | Refused, ...]]:  # fmt: skip
    """What the template reads, and one answer for each request, from one child."""
    jobs = [
        {
            "request": {name: request[name] for name in REQUEST_KEYS if name in request},
            "tokens": dict(special_tokens), "now": now.replace(tzinfo=None).isoformat(),
        }
        for request in requests
    ]  # fmt: skip
    rules = (applied or Rules())._asdict()
    task = {"kind": "template", "template": template, "rules": rules, "analyze": analyze, "jobs": jobs}
    outcome = run(task, ("jinja2", "markupsafe"), limits)
    answers = list(outcome.answers)
    if answers and "stale" in answers[0]:
        stale = f"{answers[0]['stale']} has known escapes from its sandbox: 3.1.6 is needed"
        outcome, answers = Outcome((), stale, world=True), []
    analysis: Analysis | Refused = _refused({}, outcome)
    if analyze and answers:
        first = answers.pop(0)
        analysis = msgspec.convert(first, Analysis) if "vllm_format" in first else _refused(first, outcome)
    texts = [_answer(each, outcome) for each in answers[: len(jobs)]]
    texts += [_refused({}, outcome)] * (len(jobs) - len(texts))
    return analysis, tuple(texts)


def digest(text: str) -> str:
    """The sha256 of a text's UTF-8 bytes. Raises UnicodeEncodeError for a text that has none."""
    return hashlib.sha256(text.encode()).hexdigest()


def _answer(found: Mapping[str, Any], outcome: Outcome) -> Rendered | Refused:
    text = found.get("text")
    if not isinstance(text, str):
        return _refused(found, outcome)
    try:
        return Rendered(text, digest(text))
    except UnicodeEncodeError:
        return Refused("the text holds half a surrogate pair, which no tokenizer takes")


def _refused(found: Mapping[str, Any], outcome: Outcome) -> Refused:
    if "bound" in found:
        return Refused(_BOUNDS[found["bound"]], bounded=True)
    if "refused" in found:
        words = str(found["refused"]).strip() or str(found.get("type", "no reason given"))
        named = found.get("type") in {"TypeError", "ValueError", "KeyError", "AttributeError", "ZeroDivisionError"}
        return Refused(f"{found['type']}: {words}" if named else words)
    if outcome.world:
        return Refused(outcome.ended, world=True)
    return Refused(outcome.ended or "its process ended without an answer", bounded=True)
