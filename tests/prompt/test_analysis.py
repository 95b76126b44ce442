"""What a template reads, told by its syntax."""

from __future__ import annotations

import datetime as dt

import pytest

from lockllm.prompt.render import Analysis, study


def analyze(template: str) -> Analysis:
    found, _ = study(template, (), {}, dt.datetime.fromisoformat("2026-01-01"))
    assert isinstance(found, Analysis), found
    return found


@pytest.mark.parametrize(
    "template, clock",
    [
        ("{{ strftime_now('%Y') }}", True),
        ("{% if strftime_now is defined %}{% endif %}", True),
        ("{# strftime_now #}{{ 'strftime_now' }}", False),
        ("{% set strftime_now = 'x' %}{{ strftime_now }}", False),
        ("{{ date_string }}", False),
    ],
)
def test_a_template_that_reads_the_clock_is_known(template: str, clock: bool) -> None:
    assert analyze(template).clock is clock


@pytest.mark.parametrize("template", ["{{ [1, 2]|random }}", "{{ lipsum() }}"])
def test_a_template_that_rolls_dice_is_known(template: str) -> None:
    assert analyze(template).chance
    assert not analyze("{{ messages|first }}").chance


@pytest.mark.parametrize(
    "template, names",
    [
        ("{% if enable_thinking %}x{% endif %}", ("enable_thinking",)),
        ("{% if not thinking is defined %}{% set thinking = false %}{% endif %}{{ thinking }}", ("thinking",)),
        ("{% set effort = effort|default('low') %}{{ effort }}", ("effort",)),
        ("{% if tools %}{% set text = 'a' %}{% endif %}{{ text }}", ()),
        ("{% for m in messages %}{{ m.x }}{{ loop.index }}{% endfor %}{{ bos_token }}{{ image_token }}", ()),
        ("{% macro f(a) %}{{ a }}{{ b }}{% endmacro %}{{ f(range(3)) }}{{ namespace(c=1).c }}", ("b",)),
    ],
)
def test_arguments_are_the_names_that_only_a_caller_can_give(template: str, names: tuple[str, ...]) -> None:
    assert analyze(template).arguments == names


@pytest.mark.parametrize(
    "template, vllm, sglang",
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "string", "string"),
        ("{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", "openai", "openai"),
        ("{% for m in messages[1:] %}{% for c in m['content']|list %}{% endfor %}{% endfor %}", "openai", "openai"),
        (
            "{% set l = messages %}{% for turn in l %}{% for c in turn.content %}{% endfor %}{% endfor %}",
            "openai",
            "string",
        ),
        ("{% for i, m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", "string", "openai"),
        ("{% for m in messages %}{{ m.image }}{% endfor %}", "string", "openai"),
    ],
)
def test_the_content_format_is_the_one_that_the_engine_takes(template: str, vllm: str, sglang: str) -> None:
    found = analyze(template)
    assert (found.vllm_format, found.sglang_format) == (vllm, sglang)
