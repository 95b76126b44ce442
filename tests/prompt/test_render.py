"""Renderings are transformers' own, byte for byte: its answers were recorded, for its newest release and for older ones."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.prompt.render import Refused, Rendered, renderings
from lockllm.prompt.rules import Rules, rules

DATA = Path(__file__).parent / "data"
GOLDEN = json.loads((DATA / "golden.json").read_text())
DRIFT = json.loads((DATA / "drift.json").read_text())
REQUESTS = json.loads((DATA / "requests.json").read_text())


def source(name: str) -> str:
    return (DATA / "templates" / name).read_text(encoding="utf-8")


def request(case: dict[str, Any]) -> dict[str, Any]:
    named = {"template_kwargs": "chat_template_kwargs"}
    made = {named.get(key, key): value for key, value in case.items()}
    if isinstance(made.get("tools"), str):
        made["tools"] = GOLDEN["tools"][made["tools"]]
    return made


def wrong(expected: dict[str, Any], found: Rendered | Refused) -> str | None:
    if "error" in expected:
        return None if isinstance(found, Refused) and not found.bounded else f"transformers refuses, found {found}"
    if isinstance(found, Refused):
        return f"expected a text, found {found}"
    if found.text != expected["expected"] or found.sha256 != expected["sha256"]:
        return f"expected {expected['expected']!r}, found {found.text!r}"
    return None


def answers(template: str, applied: Rules | None) -> dict[str, Rendered | Refused]:
    held = GOLDEN["templates"][template]
    cases = [case for case in GOLDEN["cases"] if case["template"] == template]
    now = dt.datetime.fromisoformat(GOLDEN["now"])
    asked = [request(case) for case in cases]
    found = renderings(source(held["file"]), asked, held["special_tokens"], now, applied=applied)
    return {case["id"]: answer for case, answer in zip(cases, found, strict=True)}


@pytest.mark.parametrize("template", sorted(GOLDEN["templates"]))
def test_every_recorded_conversation_renders_as_transformers_renders_it(template: str) -> None:
    expected = {case["id"]: case for case in GOLDEN["cases"]}
    found = answers(template, None)
    assert {name: told for name, answer in found.items() if (told := wrong(expected[name], answer))} == {}


@pytest.mark.parametrize("version", ["4.44.2", "4.51.3", "5.20.2", "5.21.1", "5.22.2"])  # each rule once
def test_older_releases_render_as_they_did(version: str) -> None:
    moved = {case["id"]: case for case in DRIFT["drift"] if case["transformers"] == version}
    applied = rules(version)
    assert applied is not None
    bad = {}
    for template in {case["template"] for case in GOLDEN["cases"] if case["id"] in moved}:
        for name, answer in answers(template, applied).items():
            told = wrong(moved[name], answer) if name in moved else None
            bad.update({name: told} if told else {})
    assert bad == {}


@pytest.mark.parametrize("version", ["4.30.0", "5.25.0", "6.0.0", "main"])
def test_a_release_that_was_not_read_has_no_rules(version: str) -> None:
    assert rules(version) is None


@pytest.mark.parametrize("file", sorted({case["file"] for case in REQUESTS["cases"]}))
def test_odd_requests_are_rendered_or_refused_as_transformers_does(file: str) -> None:
    cases = [case for case in REQUESTS["cases"] if case["file"] == file]
    now = dt.datetime.fromisoformat(REQUESTS["now"])
    found = renderings(source(file), [case["request"] for case in cases], REQUESTS["special_tokens"], now)
    for case, answer in zip(cases, found, strict=True):
        if "error" in case:
            assert isinstance(answer, Refused), case["request"]
        else:
            assert isinstance(answer, Rendered), (case["request"], answer)
            assert answer.text == case["text"]


def test_the_time_a_template_is_told_is_the_given_one() -> None:
    template = "{{ strftime_now('%Y-%m-%dT%H:%M:%S %A') }}"
    ask = {"messages": [{"role": "user", "content": "x"}]}
    for now in (dt.datetime.fromisoformat("1999-12-31T23:59:59"), dt.datetime(2030, 6, 1, tzinfo=dt.timezone.utc)):
        (found,) = renderings(template, [ask], {}, now)
        assert isinstance(found, Rendered)
        assert found.text == now.strftime("%Y-%m-%dT%H:%M:%S %A")
