"""The probes asked of a running server: harmless requests that render or tokenize, and what their answers say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm import engines
from lockllm.engines import Answer, Probe, Prompts
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.prompt import probes
from lockllm.prompt.render import digest

_PLAIN = ("user", "system", "turns", "whitespace", "characters", "code", "control")
"""Probes whose content every engine hands to the template unchanged: parts, tools and past calls are converted by each."""
_SHOWN = 4

Ids = Callable[[Sequence[str]], "Sequence[tuple[int, ...]] | Unobserved"]
"""Gives the token ids of texts, or says why there are none."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answered to the probes, by name, and when it was asked."""

    engine: str
    began: dt.datetime  # aware
    ended: dt.datetime
    answers: Mapping[str, Answer] = {}
    silence: str = ""  # why it did not answer, where it did not


def requests(engine: str) -> Mapping[str, Probe]:
    """Name of a probe -> the request that shows how the server renders it; none where the engine has no such endpoint.

    They compute and generate nothing. Where an engine renders by itself nothing is rendered beside it, so that how it
    converts parts, tools and past calls does not matter.
    """
    prompts = engines.identity(engine).prompts
    if not prompts.endpoint:
        return {}
    answered = (name for name in probes.PROBES if name != "finished")
    return {
        name: Probe(path=prompts.endpoint, method="POST", body=_body(probes.PROBES[name].request, prompts))
        for name in (answered if prompts.asks is None else (*_PLAIN, *prompts.asks))
    }


def readings(served: Served, clock: bool | None) -> Iterator[Reading | Unobserved]:
    """What the answers say of each probe. `clock`: whether the template reads it; today's ids are then never the locked ones."""
    if not served.answers:
        reason = served.silence or "the server does not show its prompts"
        yield Unobserved(("prompt_probes",), reason)
        return
    if clock is not False:
        reason = "the template reads the clock: today's prompts are not the locked ones"
        if clock is None:
            reason = "whether the server's template reads the clock is not known"
        yield Unobserved(("prompt_probes",), reason, "name the checkpoint with --checkpoint")
        return
    found = False
    for name, answer in served.answers.items():
        text, ids = told(answer)
        sha256 = None if text is None else _digest(text)
        if sha256 is not None:
            found = True
            yield seen(("prompt_probes", name, "text"), sha256, answer.source, By.ENDPOINT)
        if ids is not None:
            found = True
            yield seen(("prompt_probes", name, "token_count"), len(ids), answer.source, By.ENDPOINT)
            yield seen(("prompt_probes", name, "token_ids"), probes.token_ids_sha256(ids), answer.source, By.ENDPOINT)
    if found:
        yield seen(("prompt_probes", "version"), probes.VERSION, "this release of lockllm", By.ENDPOINT)
    else:
        first = next(iter(served.answers.values()))
        yield Unobserved(("prompt_probes",), f"{first.source} shows neither a text nor token ids")


def moments(served: Served, zone: str | None) -> tuple[dt.datetime, ...]:
    """What a clock on the server's wall may have shown while it was asked: in its own zone, in ours, in UTC."""
    zones: list[dt.tzinfo | None] = [None, dt.timezone.utc]
    if zone:
        from zoneinfo import ZoneInfo

        try:
            zones.insert(0, ZoneInfo(zone))
        except (OSError, ValueError, KeyError):  # a name that this machine does not know
            zones = zones[:]
    shown = (each.astimezone(at).replace(tzinfo=None) for at in zones for each in (served.began, served.ended))
    return tuple(dict.fromkeys(each.replace(microsecond=0) for each in shown))


def as_served(served: Served, rendered: Sequence[Mapping[str, str]], bos: str, ids: Ids, *, clock: bool) -> Check:
    """Whether the server renders as its template does here. `rendered`: the texts by name, at each moment that may be meant.

    llama.cpp prints no beginning token (`bos`). Where an engine has a renderer of its own, a difference proves nothing.
    """
    name = "check.prompt_as_served"
    own = bool(engines.identity(served.engine).prompts.own_renderer)
    names = [each for each in served.answers if each in (_PLAIN if own else served.answers)]
    shown = {each: told(served.answers[each]) for each in names}
    shown = {each: said for each, said in shown.items() if said != (None, None)}
    if not shown:
        reason = served.silence or "the server does not show its prompts"
        return Check(name, CheckStatus.UNKNOWN, reason)
    source = served.answers[next(iter(shown))].source
    texts = {each: list(dict.fromkeys(held[each] for held in rendered if each in held)) for each in shown}
    counted = _counted(shown, texts, ids)
    if isinstance(counted, Unobserved):
        return Check(name, CheckStatus.UNKNOWN, counted.reason, source, counted.fix)
    differ = [each for each, said in shown.items() if texts[each] and not _matches(said, texts[each], bos, counted)]
    today = " today" if clock else ""
    compared = [each for each in shown if texts[each]]
    if not compared:
        return Check(name, CheckStatus.UNKNOWN, "the template renders none of these conversations here", source)
    if not differ:
        detail = f"the server's prompts are those that its template gives{today}: {len(compared)} compared"
        return Check(name, CheckStatus.PASS, detail, source)
    more = f" and {len(differ) - _SHOWN} more" if len(differ) > _SHOWN else ""
    which = ", ".join(differ[:_SHOWN]) + more
    if own:
        return Check(name, CheckStatus.UNKNOWN, f"{served.engine} renders otherwise than Jinja does: {which}", source)
    detail = f"the server's prompts are not those that its template gives{today}: {which}"
    return Check(name, CheckStatus.FAIL, detail, source, "restart the server from the locked files")


def told(answer: Answer) -> tuple[str | None, list[int] | None]:
    """The rendered text and the token ids that an answer holds; None for each that it does not."""
    body = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
    text = next((body[key] for key in ("prompt", "templated_text") if isinstance(body.get(key), str)), None)
    listed = body.get("tokens", body.get("tokenize_response"))
    if not isinstance(listed, list) or not listed:
        return text, None
    ids = [each.get("id") if isinstance(each, dict) else each for each in listed]
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in ids)
    return text, [int(each) for each in ids if each is not None] if whole else None


def _counted(
    shown: Mapping[str, tuple[str | None, list[int] | None]], texts: Mapping[str, Sequence[str]], ids: Ids
) -> Mapping[str, tuple[int, ...]] | Unobserved:
    """The ids of every text that is compared by its ids."""
    wanted = list(dict.fromkeys(one for name, (text, _) in shown.items() if text is None for one in texts[name]))
    if not wanted:
        return {}
    made = ids(wanted)
    return made if isinstance(made, Unobserved) else dict(zip(wanted, made, strict=True))


def _matches(
    said: tuple[str | None, list[int] | None], texts: Sequence[str], bos: str, counted: Mapping[str, tuple[int, ...]]
) -> bool:
    text, ids = said
    if text is not None:
        return any(text in (one, one.removeprefix(bos)) for one in texts)
    return any(tuple(ids or ()) == counted[one] for one in texts)


def _body(request: Mapping[str, Any], prompts: Prompts) -> dict[str, Any]:
    body = {**request, **prompts.request}
    if prompts.own_renderer:  # it always asks for an answer
        body.pop("add_generation_prompt", None)
    return body


def _digest(text: str) -> str | None:
    try:
        return digest(text)
    except UnicodeEncodeError:
        return None
