"""Text, as somebody on call reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lockllm.facts.observation import Unobserved
from lockllm.judge.report import Status
from lockllm.output import DIFF_FORMATS, FORMATS, render_diff, render_report, text
from tests.output.samples import CHECKS, DIFFS, DISAGREE, INSPECTED, REPORTS

GOLDEN = Path(__file__).parent / "golden"
SUFFIX = {"text": "txt", "json": "json", "junit": "xml", "sarif": "sarif", "github": "github", "markdown": "md"}
LOOKED_AT = [(name, "text") for name in REPORTS] + [("gpu", format_) for format_ in FORMATS if format_ != "text"]


@pytest.mark.parametrize("name,format_", LOOKED_AT)
def test_a_report_looks_as_it_did(name: str, format_: str, golden: Callable[[Path, str], None]) -> None:
    written = render_report(REPORTS[name], format_).replace('"version": "0.1.0"', '"version": "VERSION"')
    golden(GOLDEN / f"{name}.{SUFFIX[format_]}", written)


@pytest.mark.parametrize("format_", DIFF_FORMATS)
@pytest.mark.parametrize("name", DIFFS)
def test_a_diff_looks_as_it_did(name: str, format_: str, golden: Callable[[Path, str], None]) -> None:
    golden(GOLDEN / f"diff-{name}.{SUFFIX[format_]}", render_diff(DIFFS[name], format_))


def test_an_inspection_looks_as_it_did(golden: Callable[[Path, str], None]) -> None:
    unseen = (Unobserved(("tokenizer", "mode"), "no engine is named", "name one with --engine"),)
    golden(GOLDEN / "inspected.txt", text.inspection(INSPECTED, (*CHECKS, DISAGREE), unseen, subject="models/qwen"))


@pytest.mark.parametrize("name", REPORTS)
def test_a_verbose_report_names_every_fact_and_stays_within_80_columns_where_it_can(name: str) -> None:
    written = text.report(REPORTS[name], verbose=True)
    assert all(each.fact.path[-1] in written for each in REPORTS[name].results)
    wide = [line for line in written.splitlines() if len(line) > 80]
    assert all(" " not in line.strip() or "->" in line for line in wide)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", REPORTS)
def test_every_output_names_every_result_that_is_not_a_match(name: str, format_: str) -> None:
    written = render_report(REPORTS[name], format_)
    for each in REPORTS[name].results:
        if each.status is not Status.MATCH:
            assert each.fact.path[-1] in written


@pytest.mark.parametrize("format_", DIFF_FORMATS)
def test_every_diff_names_every_change(format_: str) -> None:
    for diff in DIFFS.values():
        written = render_diff(diff, format_)
        assert all(each.fact.path[-1] in written for each in diff.changes)


@pytest.mark.parametrize("name", REPORTS)
def test_color_adds_nothing_but_color(name: str) -> None:
    import re

    colored = text.report(REPORTS[name], color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text.report(REPORTS[name])


def test_quiet_says_nothing_where_all_is_well_and_the_verdict_where_not() -> None:
    assert text.report(REPORTS["match"], quiet=True) == ""
    written = text.report(REPORTS["template"], quiet=True)
    assert written.startswith("MISMATCH  llm.lock against server at")
    assert "not pinned" not in written


def test_quiet_still_says_that_the_gate_is_off() -> None:
    off = msgspec.structs.replace(REPORTS["match"], gate="off")
    assert (
        text.report(off, quiet=True).splitlines()[-1]
        == "6 facts pinned, 2 not; the gate is disabled (off): nothing would be refused"
    )


def test_full_shows_whole_digests() -> None:
    short, full = text.report(REPORTS["template"]), text.report(REPORTS["template"], full=True)
    digest = REPORTS["template"].results[6].expected
    assert digest not in short
    assert digest[:12] in short
    assert digest in full


def test_a_circle_of_causes_hides_nothing() -> None:
    one, other, *_ = (each for each in REPORTS["long"].results if each.status is Status.MISMATCH)
    circle = (
        msgspec.structs.replace(one, because=other.fact.key),
        msgspec.structs.replace(other, because=one.fact.key),
    )
    written = text.report(msgspec.structs.replace(REPORTS["long"], results=circle))
    assert one.fact.key in written
    assert other.fact.key in written


def test_an_empty_lock_is_said_to_check_nothing() -> None:
    empty = msgspec.structs.replace(REPORTS["nothing"], results=())
    assert "nothing was checked: no locked fact was selected, or the lock has none" in text.report(empty)
    for format_ in FORMATS:
        assert "nothing was checked" in render_report(empty, format_) or format_ == "json"


def test_a_format_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'yaml' is none of text, json"):
        render_report(REPORTS["match"], "yaml")
    with pytest.raises(TypeError, match="colour is no option"):
        render_report(REPORTS["match"], "text", colour=True)
