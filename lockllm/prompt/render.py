"""Rendering a conversation as transformers' `apply_chat_template` does: `render`, and `renderings` for many at once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from lockllm import engines
from lockllm.errors import UsageError, WorldError
from lockllm.prompt.rules import Rules
from lockllm.prompt.sandbox import BOUNDS, TEMPLATE_LIMITS, Limits, Outcome, run

_LONGEST_TEMPLATE = 2**20
_LONGEST_TOKENS = 2**20
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
    arguments_once: tuple[str, ...]  # by the rule of locks of edition 1
    reads: tuple[str, ...]
    format_by_loops: str
    format_by_names: str


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
            f"the chat template is stopped: {found.reason}",
            where=where,
            fix="use a smaller template, or one that comes to an end",
        )
    what = f"the chat template refuses this conversation: {found.reason}"
    raise UsageError(what, where=where, fix="change the request or the template")


def renderings(
    template: str, requests: Sequence[Mapping[str, Any]], special_tokens: Mapping[str, Any], now: datetime, *,
    applied: Rules | None = None, limits: Limits = TEMPLATE_LIMITS,
) -> tuple[Rendered | Refused, ...]:  # fmt: skip
    """One answer for each request, from one child."""
    return renderings_at(template, requests, special_tokens, (now,), applied=applied, limits=limits)[0]


def renderings_at(
    template: str, requests: Sequence[Mapping[str, Any]], special_tokens: Mapping[str, Any],
    moments: Sequence[datetime], *, applied: Rules | None = None, limits: Limits = TEMPLATE_LIMITS,
) -> tuple[tuple[Rendered | Refused, ...], ...]:  # fmt: skip
    """For each moment one answer for each request, all from one child."""
    jobs = [job(request, moment) for moment in moments for request in requests]
    task = work(template, special_tokens, applied, analyze=False)
    texts = _done(task, jobs, len(jobs), limits)[1]
    each = len(requests)
    return tuple(texts[at * each : (at + 1) * each] for at in range(len(moments)))


def study(
    template: str, requests: Sequence[Mapping[str, Any]], special_tokens: Mapping[str, Any], now: datetime, *,
    applied: Rules | None = None, limits: Limits = TEMPLATE_LIMITS,
) -> tuple[Analysis | Refused, tuple[Rendered | Refused, ...]]:  # fmt: skip
    """What the template reads, and one answer for each request, from one child."""
    jobs = [job(request, now) for request in requests]
    return _done(work(template, special_tokens, applied, analyze=True), jobs, len(jobs), limits)


def study_as(
    engine: str, template: str, requests: Mapping[str, Sequence[Mapping[str, Any]]], special_tokens: Mapping[str, Any],
    now: datetime, *, applied: Rules | None = None, limits: Limits = TEMPLATE_LIMITS,
) -> tuple[Analysis | Refused, tuple[Rendered | Refused, ...]]:  # fmt: skip
    """As `study`, where an engine takes the content format from the syntax: `string` or `openai` -> the requests in it."""
    jobs = [job(request, now, form) for form, listed in requests.items() for request in listed]
    task = work(template, special_tokens, applied, analyze=True, engine=engine)
    return _done(task, jobs, max(map(len, requests.values()), default=0), limits)


def format_of(analysis: Analysis, engine: str | None) -> str:
    """How that engine hands content to the template: string or openai."""
    return str(getattr(analysis, _form_of(engine)))


def work(
    template: str, special_tokens: Mapping[str, Any], applied: Rules | None, *, analyze: bool, engine: str | None = None
) -> dict[str, Any]:
    """What a child is told of a template, besides its jobs."""
    return {
        "kind": "template", "template": template, "rules": (applied or Rules())._asdict(), "analyze": analyze,
        "tokens": dict(special_tokens), "form_of": _form_of(engine),
    }  # fmt: skip


def job(request: Mapping[str, Any], now: datetime, form: str = "") -> dict[str, Any]:
    """One rendering, done where the engine's content format is `form`, or whatever it is."""
    kept = {name: request[name] for name in REQUEST_KEYS if name in request}
    return {"request": kept, "now": now.replace(tzinfo=None).isoformat(), "form": form}


def told(
    outcome: Outcome, expected: int, *, analyzed: bool
) -> tuple[Analysis | Refused, tuple[Rendered | Refused, ...]]:  # fmt: skip
    """What a child's answers say; where there are fewer than expected, the rest is refused with the reason."""
    answers = list(outcome.answers)
    analysis: Analysis | Refused = _refused({}, outcome)
    if analyzed and answers:
        first = answers.pop(0)
        analysis = msgspec.convert(first, Analysis) if "format_by_loops" in first else _refused(first, outcome)
    texts = [_answer(each, outcome) for each in answers[:expected]]
    texts += [_refused({}, outcome)] * (expected - len(texts))
    return analysis, tuple(texts)


def digest(text: str) -> str:
    """The sha256 of a text's UTF-8 bytes. Raises UnicodeEncodeError for a text that has none."""
    return hashlib.sha256(text.encode()).hexdigest()


def _done(
    task: Mapping[str, Any], jobs: Sequence[Any], expected: int, limits: Limits
) -> tuple[Analysis | Refused, tuple[Rendered | Refused, ...]]:
    if (reason := _too_long(task)) is not None:
        return reason, (reason,) * expected
    return told(run(task, jobs, ("jinja2", "markupsafe"), limits), expected, analyzed=task["analyze"])


def _too_long(task: Mapping[str, Any]) -> Refused | None:
    """Why the child is not even asked: what it would be told is no template that a model ever had."""
    if len(task["template"]) > _LONGEST_TEMPLATE:
        return Refused(f"it is longer than {_LONGEST_TEMPLATE:,} characters", bounded=True)
    if sum(len(name) + len(text) for name, text in task["tokens"].items()) > _LONGEST_TOKENS:
        return Refused(f"its special tokens are longer than {_LONGEST_TOKENS:,} characters", bounded=True)
    return None


def _form_of(engine: str | None) -> str:
    return "format_by_names" if engines.identity(engine).prompts.content_format == "names" else "format_by_loops"


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
        return Refused(BOUNDS[found["bound"]], bounded=True)
    if "refused" in found:
        words = str(found["refused"]).strip() or str(found.get("type", "no reason given"))
        named = found.get("type") in {"TypeError", "ValueError", "KeyError", "AttributeError", "ZeroDivisionError"}
        return Refused(f"{found['type']}: {words}" if named else words)
    if "lost" in found:
        return Refused(f"{found['type']}: {found['lost']}", world=True)
    if outcome.world:
        return Refused(outcome.ended, world=True)
    return Refused(outcome.ended or "its process ended without an answer", bounded=True)
