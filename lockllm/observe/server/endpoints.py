"""Which engine answers at an address, and what it says."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm import engines
from lockllm.engines import Answer, Engine, Probe
from lockllm.facts.observation import Check, CheckStatus, Raw, Reading, Unobserved
from lockllm.observe.web import http
from lockllm.observe.web.http import Address, Silence
from lockllm.prompt import live
from lockllm.prompt.live import Served

_TOLD = ("key", "loading", "timeout", "redirect", "nonsense", "refused", "unreachable", "error", "forbidden", "missing")
"""Kinds of silence, those first that say most about the whole server."""
_STATUS = {"key": 401, "forbidden": 403, "loading": 503}
"""The status of an answer that is a refusal."""
_NOBODY = ("refused", "unreachable", "timeout", "loading")
"""Kinds that no other question would get past."""
_MOST_READ = 1 << 18


class Replies(msgspec.Struct, frozen=True, kw_only=True):
    """What a server replied: the engine, its answers, and the probes it did not answer."""

    address: Address
    engine: Engine | None = None
    answers: tuple[Answer, ...] = ()
    silences: tuple[Silence, ...] = ()
    again: bool = False  # whether all is asked more than once
    rounds: tuple[tuple[Answer, ...], ...] = ()  # the answers to the same questions, asked again, where all came
    generated: str = ""  # what --probe-generate sent, or why nothing
    prompts: Served | None = None  # the fixed conversations as it renders them, where it has an endpoint that does

    @property
    def worst(self) -> Silence | None:
        """The silence that explains most; a path that a server does not serve explains nothing."""
        told = [each for each in self.silences if not (each.kind in ("missing", "forbidden") and self.answers)]
        return min(told, key=lambda each: _TOLD.index(each.kind)) if told else None

    @property
    def with_refusals(self) -> tuple[Answer, ...]:
        """The answers, and those without a body that refused: their status is all that they say."""
        refused = (
            Answer(probe=each.probe, status=_STATUS[each.kind], headers={}, text="")
            for each in self.silences
            if each.kind in _STATUS
        )
        return (*self.answers, *refused)

    @property
    def check(self) -> Check:
        """Whether the running server answers."""
        name, where = "check.server_answers", self.address.url
        if self.engine is not None:
            count = f"{len(self.answers)} of {len(self.answers) + len(self.silences)} questions answered"
            return Check(name, CheckStatus.PASS, f"{self.engine.name} answers: {count}", where)
        worst = self.worst
        if worst is not None and (not self.answers or worst.kind in ("key", "loading", "timeout")):
            status = CheckStatus.FAIL if worst.kind in ("nonsense", "missing") else CheckStatus.UNKNOWN
            return Check(name, status, worst.reason, where, worst.fix)
        detail = "something answers, but it is not an engine that this release knows"
        return Check(name, CheckStatus.FAIL, detail, where, "check the host and port")


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """How one server is asked: with which headers, and until when."""

    address: Address
    headers: Mapping[str, str]
    until: float

    def ask(self, probes: Sequence[Probe]) -> tuple[Answer | Silence, ...]:
        """What it says to each probe."""
        return http.ask(self.address, probes, self.headers, max(0.1, self.until - time.monotonic()))


def kept(read: Iterable[Reading | Unobserved]) -> Iterator[Reading | Unobserved]:
    """What an engine reads in answers, within bounds: nobody sets a value of many megabytes."""
    left = _MOST_READ
    for item in read:
        if isinstance(item, Reading):
            size = _size(item.value) + sum(map(len, item.fact.path)) + len(item.source)
            if size > left:
                yield Unobserved(item.fact.path, f"{item.source[:80]}: its value is too long for a setting of a server")
                continue
            left -= size
        yield item


def ask(
    address: Address,
    engine: Engine | None,
    headers: Mapping[str, str],
    seconds: float,
    *,
    likely: str | None = None,
    rounds: int = 1,
    generate: bool = False,
) -> Replies:
    """Send the probes of an engine; where none is known, those of all engines, and recognize the engine by its answers.

    `likely` is the engine that was locked: asked before the others. `rounds` is how often all is asked; `seconds` is the
    time for everything. `generate`: the probes that make a token are asked too, once, of an engine that is known by then.
    """
    line = _Line(address=address, headers=headers, until=time.monotonic() + seconds)
    replies = _first_round(line, engine, likely)
    probes = [answer.probe for answer in replies.answers]
    if generate:
        replies = _generated(line, replies)
    if replies.engine is None or rounds < 2:
        return replies
    more = (_asked(line, probes)[0] for _ in range(rounds - 1) if time.monotonic() < line.until)
    whole = tuple(each for each in more if len(each) == len(probes))
    return msgspec.structs.replace(replies, rounds=whole, again=True)


def _generated(line: _Line, replies: Replies) -> Replies:
    """The same with the answers that cost the server a token each, and a word on what was sent."""
    if replies.engine is None:
        return msgspec.structs.replace(replies, generated="no known engine answered: nothing was generated")
    probes = [probe for probe in replies.engine.probes if probe.generates]
    if not probes:
        word = f"no request that generates shows more of {replies.engine.name} than the others: none was sent"
        return msgspec.structs.replace(replies, generated=word)
    several = line.ask(probes)
    answers = tuple(each for each in several if isinstance(each, Answer))
    sent = ", ".join(f"{probe.method} {probe.path}" for probe in probes)
    refused = "".join(f"; {each.reason}" for each in several if isinstance(each, Silence))
    word = f"the server was asked to generate {len(probes)} tokens: {sent}{refused}"
    return msgspec.structs.replace(replies, answers=(*replies.answers, *answers), generated=word)


def ask_again(replies: Replies, headers: Mapping[str, str], seconds: float) -> tuple[Answer | Silence, ...]:
    """What a server says now to each probe that it answered; nothing that generates is asked twice."""
    line = _Line(address=replies.address, headers=headers, until=time.monotonic() + seconds)
    return line.ask([answer.probe for answer in replies.answers if not answer.probe.generates])


def _size(value: Any) -> int:
    """About how many characters a value has."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Raw):
        return _size(value.value)
    if isinstance(value, (list, tuple)):
        return 2 + sum(map(_size, value))
    if isinstance(value, dict):
        return 2 + sum(len(str(name)) + _size(held) for name, held in value.items())
    return 8


def _first_round(line: _Line, engine: Engine | None, likely: str | None) -> Replies:
    if engine is not None:
        return _known(line, engine)
    names = [name for name in engines.available() if name != likely]
    if engines.known(likely) and likely is not None:
        said = _known(line, engines.load(likely))
        if said.engine is not None or (not said.answers and said.worst is not None and said.worst.kind in _NOBODY):
            return said
    known = [engines.load(name) for name in names]
    probes = tuple({(probe.method, probe.path): probe for each in known for probe in _harmless(each)}.values())
    answers, silences = _asked(line, probes)
    for each in known:
        own = _of(each, answers)
        if own and each.detect(own):
            return _rest(line, each, answers, silences)
    return Replies(address=line.address, answers=answers, silences=silences)


def _known(line: _Line, engine: Engine) -> Replies:
    """The answers to all probes and prompts of an engine, sent at once."""
    answers, silences, prompts = _with_prompts(line, engine, engine.probes)
    told = bool(answers) and engine.detect(answers)
    return Replies(
        address=line.address,
        engine=engine if told else None,
        answers=answers,
        silences=silences,
        prompts=prompts if told else None,
    )


def _with_prompts(
    line: _Line, engine: Engine, probes: Sequence[Probe]
) -> tuple[tuple[Answer, ...], tuple[Silence, ...], Served | None]:
    """The answers to probes, and to the fixed conversations of an engine that has an endpoint for them."""
    asked = live.requests(engine.name)
    fixed = [probe for probe in probes if not probe.generates]
    began = dt.datetime.now(dt.timezone.utc)
    said = line.ask([*fixed, *asked.values()])
    ended = dt.datetime.now(dt.timezone.utc)
    own, shown = said[: len(fixed)], dict(zip(asked, said[len(fixed) :], strict=True))
    prompts = Served(
        engine=engine.name,
        answers={name: each for name, each in shown.items() if isinstance(each, Answer)},
        silence=next((each.reason for each in shown.values() if isinstance(each, Silence)), ""),
        began=began,
        ended=ended,
    )
    answers = tuple(each for each in own if isinstance(each, Answer))
    return answers, tuple(each for each in own if isinstance(each, Silence)), prompts if asked else None


def _asked(line: _Line, probes: Sequence[Probe]) -> tuple[tuple[Answer, ...], tuple[Silence, ...]]:
    fixed = [probe for probe in probes if not probe.generates]
    said = line.ask(fixed)
    answers = tuple(each for each in said if isinstance(each, Answer))
    return answers, tuple(each for each in said if isinstance(each, Silence))


def _harmless(engine: Engine) -> tuple[Probe, ...]:
    """What may be asked of a server before it is known which engine it is."""
    return tuple(probe for probe in engine.probes if probe.method == "GET" and not probe.generates)


def _of(engine: Engine, answers: Sequence[Answer]) -> tuple[Answer, ...]:
    asked = {(probe.method, probe.path) for probe in engine.probes}
    return tuple(each for each in answers if (each.probe.method, each.probe.path) in asked)


def _rest(line: _Line, engine: Engine, answers: Sequence[Answer], silences: Sequence[Silence]) -> Replies:
    """The answers to all of an engine's probes: those given already, and the rest."""
    probed = [*(each.probe for each in answers), *(each.probe for each in silences)]
    done = {(probe.method, probe.path) for probe in probed}
    rest = [probe for probe in engine.probes if (probe.method, probe.path) not in done]
    more, quiet, prompts = _with_prompts(line, engine, rest)
    asked = {(probe.method, probe.path) for probe in engine.probes}
    own = tuple(each for each in silences if (each.probe.method, each.probe.path) in asked)
    return Replies(
        address=line.address,
        engine=engine,
        answers=(*_of(engine, answers), *more),
        silences=(*own, *quiet),
        prompts=prompts,
    )
