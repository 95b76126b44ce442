"""A chat template by chance from its text to an observation: what is rendered, what is refused, and what must never be seen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from lockllm.prompt import probes, readings
from lockllm.prompt.render import Analysis, Refused, Rendered, job, told, work
from lockllm.prompt.rules import Rules
from lockllm.prompt.sandbox import Limits
from tests.abuse import material
from tests.fuzz import forked, grammar

HERE = Path(__file__).parent
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "\x00"}
_ANYWHERE = re.compile(r" at 0x[0-9a-f]+")
_AGAIN = 3
"""How many probes are rendered a second time, after all others: no rendering may leave a trace in the next."""

Answers = tuple["Analysis | Refused", tuple["Rendered | Refused", ...]]


def run(raw: bytes) -> None:
    """A template that is given as bytes is rendered or refused, in every way that an engine asks for."""
    text = raw.decode("utf-8", "replace")
    random = Random(len(raw))
    engine = random.choice((None, "vllm", "sglang", "transformers"))
    setup = readings.Setup(engine=engine, version=None)
    held = {"chat_template.jinja": text.encode()}
    found = readings.observe(held.get, tuple(held), setup, gguf_tokens=TOKENS, examine=examine)
    material.told((*found.readings, *found.unobserved, *found.checks))


def examine(template: str, tokens: Mapping[str, Any], given: readings.Setup, applied: Rules | None) -> Answers:
    """As the readings do it, in a fork, and some probes twice."""
    asked = [each.request for each in probes.PROBES.values()]
    asked += asked[:_AGAIN]
    jobs = [job(probes.as_served(each, given.engine, "string"), probes.NOW) for each in asked]
    answers = ask(template, tokens, applied, jobs, given.engine)
    return answers[0], answers[1][: len(probes.PROBES)]


def ask(
    template: str, tokens: Mapping[str, Any], applied: Rules | None, jobs: list[dict[str, Any]], engine: str | None = None,
    limits: Limits = forked.SOON,
) -> Answers:  # fmt: skip
    """The answers of a fork, looked at."""
    done = forked.run(work(template, tokens, applied, analyze=True, engine=engine), jobs, limits)
    assert done.release, done
    assert not done.world, done
    analysis, texts = told(done, len(jobs), analyzed=True)
    for each in (analysis, *texts):
        looked_at(each)
    same(analysis, texts)
    return analysis, texts


def looked_at(answer: Analysis | Rendered | Refused) -> None:
    """No answer holds the secret, none is without words, and none blames this machine."""
    assert forked.SECRET not in repr(answer)
    if isinstance(answer, Refused):
        assert answer.reason
        assert not answer.world, answer
    elif isinstance(answer, Rendered):
        answer.text.encode()


def same(analysis: Analysis | Refused, texts: tuple[Rendered | Refused, ...]) -> None:
    """The probes that are rendered twice give one text, unless the template asks for chance."""
    if isinstance(analysis, Refused) or analysis.chance or len(texts) <= len(probes.PROBES):
        return
    for first, again in zip(texts, texts[len(probes.PROBES) :], strict=False):
        if isinstance(first, Rendered) and isinstance(again, Rendered):
            assert _ANYWHERE.sub("", first.text) == _ANYWHERE.sub("", again.text)
        elif not any(isinstance(each, Refused) and each.bounded for each in (first, again)):
            assert type(first) is type(again), (first, again)


def spoil(raw: bytes, random: Random) -> bytes:
    """Another template: out of nothing, or out of this one."""
    if random.random() < 0.6:
        return grammar.template(random).encode("utf-8", "replace")
    return grammar.spoiled(raw.decode("utf-8", "replace"), random).encode("utf-8", "replace")


def starts() -> list[bytes]:
    """Real templates, and every one that once was a bug."""
    return [
        *(text.encode() for text in grammar.REAL),
        *(path.read_bytes() for path in sorted((HERE / "corpus/template").glob("*"))),
    ]
