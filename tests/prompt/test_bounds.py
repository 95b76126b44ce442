"""A template is foreign code: it ends within its bounds, reaches nothing, and what it says stays data."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

import pytest

from lockllm.errors import UsageError, WorldError
from lockllm.prompt.render import Refused, Rendered, render, renderings, study, work
from lockllm.prompt.sandbox import Limits, run
from lockllm.prompt.tokenizer import token_ids

NOW = dt.datetime.fromisoformat("2026-01-01")
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
SOON = Limits(seconds=0.4)
LATER = Limits(seconds=30)  # on a busy machine the bound of time must not come before the one that is meant

STOPPED = {
    "a loop in a loop": ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "time"),
    "a long sum": ("{{ 1" + "+1" * 200_000 + " }}", "time"),
    "a power of powers": ("{{ 9 ** (9 ** 9) }}", "time"),
    "a text of 100 GB": ("{{ 'x' * 10 ** 11 }}", "memory"),
    "a text that doubles": (
        "{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}", "memory",
    ),
    "a wide number": ("{{ '%1000000000d' % 1 }}", "memory"),
    "much output": ("{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "output"),
    "a macro that calls itself": ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "deeply"),
    "nested conditions": ("{% if 1 %}" * 5000 + "{% endif %}" * 5000, "deeply"),
    "nested brackets": ("{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}", "deeply"),
    "nested signs": ("{{ " + "-" * 50_000 + "1 }}", "deeply"),
}  # fmt: skip
REFUSED = {
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals": "{{ raise_exception.__globals__['x'] }}",
    "the system": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "the clock's own module": "{{ strftime_now.__globals__['Clock'] }}",
    "a format": "{{ '{0.__class__.__mro__}'.format(1) }}",
    "a list's method": "{{ messages.append(1) }}",
    "a namespace": "{% set n = namespace() %}{% set n._x = 1 %}",
    "a file": "{% include '/etc/hostname' %}",
    "a module": "{% import 'os' as os %}",
    "nothing": "{{ nothing.at.all }}",
    "half a pair": "{{ '\\ud800' }}",
    "no syntax": "{% if %}",
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_template_without_end_is_stopped(name: str) -> None:
    template, word = STOPPED[name]
    (found,) = renderings(template, [ASK], {}, NOW, limits=SOON if word == "time" else LATER)
    assert isinstance(found, Refused)
    assert found.bounded
    assert word in found.reason


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_reaches_for_more_is_refused(name: str) -> None:
    (found,) = renderings(REFUSED[name], [ASK], {}, NOW)
    assert isinstance(found, Refused)
    assert not found.bounded


def test_what_a_template_must_not_see_is_empty() -> None:
    template = "[{{ ''.__class__ }}|{{ raise_exception.__globals__ }}|{{ ''|attr('__class__') }}|{{ messages|attr('__len__') }}]"
    (found,) = renderings(template, [ASK], {}, NOW)
    assert isinstance(found, Rendered)
    assert found.text == "[|||]"


def test_one_job_without_end_leaves_the_answers_before_it() -> None:
    template = "{% if messages|length > 1 %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}ok"
    several = {"messages": ASK["messages"] * 2}
    first, second, third = renderings(template, [ASK, several, ASK], {}, NOW, limits=SOON)
    assert isinstance(first, Rendered)
    assert isinstance(second, Refused)
    assert isinstance(third, Refused)
    assert third.bounded


def test_the_message_of_a_template_is_told_and_cut() -> None:
    with pytest.raises(UsageError, match="refuses this conversation: no tools here"):
        render("{{ raise_exception('no tools here') }}", ASK, {}, NOW)
    (found,) = renderings("{{ raise_exception('x' * 5000000) }}", [ASK], {}, NOW)
    assert isinstance(found, Refused)
    assert len(found.reason) < 3_000


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"messages": None},
        {"messages": "x"},
        {"messages": {"role": "user"}},
        {"messages": [1]},
        {"messages": [None]},
        {"messages": []},
        {"messages": ASK["messages"], "tools": "x"},
        {"messages": ASK["messages"], "tools": [1]},
        {"messages": ASK["messages"], "documents": [1]},
        {"messages": ASK["messages"], "chat_template_kwargs": []},
        {"messages": ASK["messages"], "chat_template_kwargs": {"messages": []}},
        {"messages": ASK["messages"], "chat_template_kwargs": {"self": 1}},
    ],
)
def test_a_request_of_the_wrong_shape_is_refused(odd: dict[str, Any]) -> None:
    (found,) = renderings("{{ messages }}", [odd], {}, NOW)
    assert isinstance(found, Refused)
    assert not found.bounded


@pytest.mark.parametrize("text", ["a\0b", "\u2028\u2029\x85", "\U0001f5fc", "\ufeff", "{{ x }}", "x" * 2_000_000])
def test_any_text_of_a_message_arrives_as_it_is(text: str) -> None:
    (found,) = renderings("{{ messages[0].content }}", [{"messages": [{"role": "user", "content": text}]}], {}, NOW)
    assert isinstance(found, Rendered)
    assert found.text == text


def test_half_a_surrogate_pair_and_a_deep_request_are_refused() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    for content in ("\ud800", deep):
        (found,) = renderings(
            "{{ messages[0].content }}", [{"messages": [{"role": "user", "content": content}]}], {}, NOW
        )
        assert isinstance(found, Refused)
    while isinstance(deep, list):  # taken apart by hand: freeing it at once would recurse
        deep = deep[0]


def test_the_child_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    outcome = run(work("x", {}, None, analyze=False), (), ("jinja2", "markupsafe"), SOON)
    assert outcome.ended == ""
    from lockllm.prompt import sandbox

    assert "hf_secret" not in str(sandbox._environment())
    assert not any("TOKEN" in name and "TOKENIZERS" not in name for name in sandbox._environment())


def test_a_missing_library_is_this_machine_and_not_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run({"kind": "template"}, (), ("no_such_library_of_ours",), SOON)
    assert outcome.world
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(WorldError, match="cannot be rendered here"):
        render("x", ASK, {}, NOW)


def test_a_hostile_template_is_no_obstacle_to_reading_another() -> None:
    broken, _ = study("{% if %}", [ASK], {}, NOW)
    assert isinstance(broken, Refused)
    found, (text,) = study("{{ messages[0].content }}", [ASK], {}, NOW)
    assert not isinstance(found, Refused)
    assert isinstance(text, Rendered)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff", b'{"model": {"type": "BPE"}}', b"[" * 100_000])
def test_a_tokenizer_that_is_none_is_told(raw: bytes, tmp_path: Any) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(raw)
    assert "tokenizer.json cannot be used" in token_ids(str(path), ["x"]).reason  # type: ignore[union-attr]


def test_a_tokenizer_that_is_no_plain_file_is_not_opened(tmp_path: Any) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    assert "no plain file" in token_ids(str(tmp_path / "tokenizer.json"), ["x"]).reason  # type: ignore[union-attr]
    assert "need a tokenizer.json" in token_ids(str(tmp_path / "none.json"), ["x"]).reason  # type: ignore[union-attr]
