"""Templates by chance, the same in every run, and those that once were a bug: from their text to an observation."""

from __future__ import annotations

import contextlib
from random import Random

import jinja2
import pytest

from lockllm.prompt import probes
from lockllm.prompt.render import Refused, Rendered, job
from lockllm.prompt.sandbox import Limits
from tests.fuzz import grammar, templates

LATER = Limits(seconds=20)
JOB = job(probes.PROBES["user"].request, probes.NOW)
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def test_real_templates_and_what_once_was_found_are_rendered_or_refused() -> None:
    for raw in templates.starts():
        templates.run(raw)


def test_three_hundred_templates_by_chance_are_rendered_or_refused() -> None:
    random = Random(11)
    held = templates.starts()
    for _ in range(300):
        templates.run(templates.spoil(random.choice(held), random))


def test_templates_by_chance_reach_the_renderer_and_are_not_all_refused() -> None:
    random = Random(3)
    answers = [templates.ask(grammar.template(random), templates.TOKENS, None, [JOB])[1][0] for _ in range(150)]
    assert sum(isinstance(each, Rendered) for each in answers) > 30
    assert len({each.reason for each in answers if isinstance(each, Refused)}) > 30


def test_the_watch_notices_a_secret_that_is_seen_and_a_probe_that_changes() -> None:
    with pytest.raises(AssertionError):
        templates.looked_at(Rendered(templates.forked.SECRET, ""))
    analysis, texts = templates.ask("{{ messages|length }}", {}, None, [JOB] * (len(probes.PROBES) + 1))
    templates.same(analysis, texts)
    with pytest.raises(AssertionError):
        templates.same(analysis, (*texts[:-1], Rendered("other", "")))


def test_the_ways_out_lead_to_the_secret_where_there_is_no_sandbox_and_nowhere_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", templates.forked.SECRET)
    open_, found = jinja2.Environment(), 0
    for each in grammar.ESCAPES:
        with contextlib.suppress(Exception):
            found += templates.forked.SECRET in open_.from_string("{{ " + each + " }}").render(
                messages=[{"role": "user"}]
            )
        analysis, _ = templates.ask("{{ " + each + " }}", {}, None, [JOB])
        assert not isinstance(analysis, Refused)
    assert found > 10


@pytest.mark.parametrize(
    ("template", "reason"), [(ENDLESS, "time"), ("{{ 'x' * 10 ** 10 }}", "memory"), ("{{ 'x' * 2 ** 21 }}", "too long")],
    ids=["time", "memory", "output"],
)  # fmt: skip
def test_a_fork_keeps_the_bounds_and_the_next_template_is_answered(template: str, reason: str) -> None:
    (found,) = templates.ask(template, {}, None, [JOB], limits=templates.forked.SOON if reason == "time" else LATER)[1]
    assert isinstance(found, Refused)
    assert reason in found.reason
    (after,) = templates.ask("ok", {}, None, [JOB], limits=LATER)[1]
    assert isinstance(after, Rendered)
    assert after.text == "ok"
