"""What a server answered to one probe, reduced to what can be compared, and how far two answers are apart."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_DIGITS = 4  # of a log probability: a step of 1e-4 is far below any noise that was measured


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer. Two answers with equal fields are one state.

    `prompt_tokens`: what the server counted; `first`: token text -> log probability at the first position; `prompt`: the log
    probability of each prompt token but the first; `status`: HTTP status of a refusal, 0 for an answer.
    """

    prompt_tokens: int | None = None
    text: str = ""
    finish: str = ""
    first: Mapping[str, float] = {}
    prompt: tuple[float, ...] = ()
    status: int = 0


def rounded(number: float) -> float:
    """A log probability as a baseline keeps it."""
    return round(max(number, -999.0), _DIGITS)  # minus infinity is no JSON


def distance(one: Answer, other: Answer, group: str) -> float:
    """How far apart two answers to one probe are; 0 for answers that this group of probes cannot tell apart.

    count: 0 or 1. sampled: 0 for the same text. raw, chat, long: the mean of absolute differences of log probabilities, in nats; a
    token that one side does not list counts as that side's smallest. Without log probabilities: 0 for the same text.
    """
    if bool(one.status) != bool(other.status):
        return 1.0
    if group in ("count", "long") and one.prompt_tokens != other.prompt_tokens:
        return 1.0
    if group == "count":
        return 0.0
    if group == "sampled":
        return float((one.text, one.finish) != (other.text, other.finish))
    if one.prompt and len(one.prompt) == len(other.prompt):
        return sum(abs(a - b) for a, b in zip(one.prompt, other.prompt, strict=True)) / len(one.prompt)
    if one.first and other.first:
        return _apart(one.first, other.first)
    return float(one.text != other.text)


def _apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    least_one, least_other = min(one.values()), min(other.values())
    tokens = one.keys() | other.keys()
    return sum(abs(one.get(each, least_one) - other.get(each, least_other)) for each in tokens) / len(tokens)
