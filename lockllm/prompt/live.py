"""The probes asked of a running server: harmless requests that render or tokenize, and what their answers say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lockllm.engines import Answer, Probe
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.prompt import probes
from lockllm.prompt.render import Rendered, digest, renderings
from lockllm.prompt.tokenizer import token_ids

_PATHS = {
    "vllm": "/tokenize",
    "sglang": "/tokenize",
    "llama.cpp": "/apply-template",
    "tgi": "/chat_tokenize",
}
_PLAIN = ("user", "system", "turns", "whitespace", "characters", "code", "control")
"""Probes whose content every engine hands to the template unchanged: parts, tools and past calls are converted by each."""


def requests(engine: str) -> Mapping[str, Probe]:
    """Name of a probe -> the request that shows how the server renders it; none where the engine has no such endpoint.

    vLLM 0.9 to 0.33; SGLang 0.5.12 and later; llama.cpp; TGI. They compute and generate nothing.
    """
    path = _PATHS.get(engine)
    if path is None:
        return {}
    asked = (*_PLAIN, "finished") if engine == "vllm" else _PLAIN
    return {name: Probe(path=path, method="POST", body=_body(probes.PROBES[name].request, engine)) for name in asked}


def readings(answers: Mapping[str, Answer], *, clock: bool = False) -> Iterator[Reading | Unobserved]:
    """What the answers say of each probe. `clock`: the template reads it, so today's ids are never the locked ones."""
    if clock:
        yield Unobserved(("prompt_probes",), "the template reads the clock: today's prompts are not the locked ones")
        return
    found = False
    for name, answer in answers.items():
        text, ids = _told(answer)
        if text is not None:
            found = True
            yield seen(("prompt_probes", name, "text"), _digest(text), answer.source, By.ENDPOINT)
        if ids is not None:
            found = True
            yield seen(("prompt_probes", name, "token_count"), len(ids), answer.source, By.ENDPOINT)
            yield seen(("prompt_probes", name, "token_ids"), probes.token_ids_sha256(ids), answer.source, By.ENDPOINT)
    if found:
        yield seen(("prompt_probes", "version"), probes.VERSION, "this release of lockllm", By.ENDPOINT)
    elif answers:
        told = next(iter(answers.values()))
        yield Unobserved(("prompt_probes",), f"{told.source} answered {told.status}")


def as_rendered_today(
    answers: Mapping[str, Answer], template: str, special_tokens: Mapping[str, Any], tokenizer_json: str,
    moments: Sequence[dt.datetime],
) -> Check:  # fmt: skip
    """Whether a server whose template reads the clock renders as this template does at one of these moments.

    `moments`: now as the server's wall clock may show it, before and after it was asked.
    """
    name = "check.prompt_as_served"
    served = {probe: ids for probe, answer in answers.items() if (ids := _told(answer)[1]) is not None}
    if not served:
        return Check(name, CheckStatus.UNKNOWN, "the server does not show its prompts")
    for moment in moments:
        asked = [probes.PROBES[probe].request for probe in served]
        texts = [
            each.text for each in renderings(template, asked, special_tokens, moment) if isinstance(each, Rendered)
        ]
        if len(texts) < len(served):
            return Check(name, CheckStatus.UNKNOWN, "the template does not render all probes here")
        counted = token_ids(tokenizer_json, texts)
        if isinstance(counted, Unobserved):
            return Check(name, CheckStatus.UNKNOWN, counted.reason, mend=counted.mend)
        if [tuple(ids) for ids in served.values()] == list(counted.ids):
            return Check(
                name, CheckStatus.PASS, "the server's prompts are those of today's rendering", "POST /tokenize"
            )
    detail = "the server's prompts are not those that its template gives today"
    return Check(name, CheckStatus.FAIL, detail, "POST /tokenize", "restart the server from the locked files")


def _body(request: Mapping[str, Any], engine: str) -> dict[str, Any]:
    body = dict(request)
    if engine in {"llama.cpp", "tgi"}:  # both always ask for an answer
        body.pop("add_generation_prompt", None)
    if engine == "tgi":
        body["model"] = "tgi"
    return body


def _digest(text: str) -> str | None:
    try:
        return digest(text)
    except UnicodeEncodeError:
        return None


def _told(answer: Answer) -> tuple[str | None, list[int] | None]:
    """The rendered text and the token ids that an answer holds; None for each that it does not."""
    body = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
    text = next((body[key] for key in ("prompt", "templated_text") if isinstance(body.get(key), str)), None)
    listed = body.get("tokens", body.get("tokenize_response"))
    if not isinstance(listed, list) or not listed:
        return text, None
    ids = [each.get("id") if isinstance(each, dict) else each for each in listed]
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in ids)
    return text, [int(each) for each in ids if each is not None] if whole else None
