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
        ("{% if tools %}{% set text = 'a' %}{% endif %}{{ text }}", ("text",)),
        ("{% if tools %}{% set a = 1 %}{% elif b %}{% set a = 2 %}{% endif %}{{ a }}", ("a", "b")),
        ("{% if tools %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", ()),
        ("{% if tools %}{% set a = 1 %}{% else %}{{ raise_exception('no') }}{% endif %}{{ a }}", ()),
        ("{% if tools %}{% set a = 1 %}{% endif %}{% if a is defined %}x{% endif %}", ("a",)),
        ("{% for m in messages %}{% set a = m %}{% endfor %}{{ a }}", ("a",)),
        ("{% for m in messages %}{% if m %}{% set a = 1 %}{% else %}{% continue %}{% endif %}{{ a }}{% endfor %}", ()),
        ("{% for m in messages if m.x == role %}{% else %}{{ m }}{% endfor %}", ("m", "role")),
        ("{% macro f(a, b=c) %}{{ a }}{{ b }}{{ caller() }}{{ d }}{% endmacro %}{% set d = 1 %}{{ f(1) }}", ("c",)),
        ("{% macro f(a) %}{{ a }}{% endmacro %}{% for m in messages %}{% set a = f(m) %}{{ a }}{% endfor %}", ()),
        ("{% macro f(a) %}{{ a }}{% endmacro %}{{ a }}", ("a",)),
        ("{% set ns = namespace(x=1) %}{% set ns.x = y %}{{ ns.x }}", ("y",)),
        ("{% set a %}{{ b }}{% endset %}{{ a }}", ("b",)),
        ("{% set a, b = c %}{{ a }}{{ b }}", ("c",)),
        ("{% with a = b %}{{ a }}{% endwith %}{{ a }}", ("a", "b")),
        ("{% call(x) f() %}{{ x }}{{ y }}{% endcall %}", ("f", "y")),
        ("{% filter replace(a, 'b') %}{{ c }}{% endfilter %}", ("a", "c")),
        ("{% generation %}{% set a = 1 %}{{ a }}{{ b }}{% endgeneration %}", ("b",)),
        ("{{ 'x' if a else b }}{{ {'k': c}[d] }}{{ [e][:f] }}", ("a", "b", "c", "d", "e", "f")),
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
    assert (found.format_by_loops, found.format_by_names) == (vllm, sglang)


def test_locks_of_edition_1_keep_the_rule_that_they_were_made_with() -> None:
    assert analyze("{% if tools %}{% set text = 'a' %}{% endif %}{{ text }}").arguments_once == ()
