"""One hostile string in every place that a host, a lock or a server fills: no output changes its structure."""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from lockllm.facts import registry
from lockllm.facts.fact import Stage
from lockllm.facts.observation import By, Check, CheckStatus, Observation, Raw, Reading, Unobserved
from lockllm.judge.report import Diff, Fingerprints, Report, Status
from lockllm.output import json as as_json
from lockllm.output import render_diff, render_report, text
from lockllm.output.escape import prose
from tests.output.samples import change, report, result

FRAGMENTS = [
    "\n", "\r", "\r\n", "\t", "\x0b", "\x0c", "\x00", "\x1b[31m", "\x1b]8;;http://x\x07", "\x85", "\x7f",
    "\u2028", "\u2029", "\u202e", "\u2066", "\u200b", "\ufeff", "\ud800", "\udcff", "\U000e0041",
    "::error::x", "::error file=a,title=b::c", "##[error]x", "##vso[task.complete]", "##teamcity[x]",
    "::stop-commands::t",
    "%0A", "%", "%25", "|", "||", "\\|", "\\", "`", "``", "```", "~~~", "@name", "#1", "owner/repo#1",
    "https://example.org", "www.example.org", "a@example.org", "<script>", "</details>", "<!--", "-->", "]]>",
    "<![CDATA[",
    "&lt;", "&#10;", "&quot;", '"', "'", "[x](http://y)", "![x](y)", "[x]: y", "{0}", "{", "}", "[", "]",
    "* x", "- x", "1. x", "# x", "> x", "---", "===", "    x", "**", "__", "~~", ":tada:", " ", "  ",
    "$(reboot)", "${x}", ";", "{{ x }}", "{% x %}", "# via x\n[policy]", "expected", "Differences", "matches     5 facts",
    "a" * 200, "\u0430", "e\u0301", "\u6a21\u578b",
]  # fmt: skip
HOSTILE = (
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), min_size=1, max_size=6).map("".join).filter(str.strip)
)
CALM = "calm"


def planted(bad: str) -> Report:
    """A report with that string wherever a string can come from outside."""
    file = ("checkpoint", "files", bad)
    row = registry.find(("serve", "args", bad))
    found = [
        result(file, Status.MISMATCH, {"size": 1, "sha256": bad}, {"size": 2, "sha256": bad + "x"}, bad, fix=bad,
               reason=bad),
        result(("packages", bad), Status.MISMATCH, bad, None, bad, fix=bad, because=registry.keys.dotted(file)),
        result(row.path, Status.MISMATCH, {"k": [bad]}, {"k": [bad, bad]}, bad, fix=bad, blocking=False,
               readings=(Reading(row, bad, bad, By.PLAN), Reading(row, Raw(bad), bad, By.FILE))),
        result("serve.dtype", Status.ALLOWED, bad, bad + "x", bad, reason=bad),
        result("serve.kv_cache_dtype", Status.WAIVED, bad, bad + "x", bad, reason=bad),
        result("serve.seed", Status.IGNORED, bad, bad + "x", bad, reason=bad),
        result("host.gpu", Status.UNKNOWN, bad, seen=False, reason=bad, fix=bad),
        result("host.driver", Status.UNKNOWN, bad, seen=False, reason=bad, fix=bad, blocking=False),
        result("kernels.attention", Status.NOT_DUE, bad, seen=False, reason=bad, fix=bad),
        result("engine.version", Status.MATCH, bad, bad, bad),
    ]  # fmt: skip
    checks = tuple(Check(f"check.{number}{bad}", status, bad, bad, bad) for number, status in enumerate(CheckStatus))
    return report(
        found, lock=bad, host=bad, engine=bad, subject=bad, fingerprint=Fingerprints(bad, bad), checks=checks,
        unpinned={bad: bad}, warnings=(bad,), others=(bad,),
    )  # fmt: skip


def planted_diff(bad: str) -> Diff:
    cause = ("checkpoint", "files", bad)
    key = registry.keys.dotted(cause)
    return Diff(
        before=bad, after=bad, verdict="step", warnings=(bad,),
        template_before="one\ntwo\n", template_after=f"one\n{bad}two\n",
        changes=(
            change(cause, {"sha256": bad}, {"sha256": bad + "x"}, effect=bad),
            change("chat_template.sha256", bad, bad + "x", key, effect=bad),
            change(("packages", bad), None, bad, effect=bad),
            change(("packages", bad, "x"), bad, None, effect=bad),
            change(("checkpoint", "files", bad + "y"), {"sha256": bad}, {"sha256": bad}, change="moved",
                   moved_from=bad, effect=bad),
        ),
    )  # fmt: skip


def planted_observation(bad: str) -> Observation:
    paths = [("serve", "args", bad), ("checkpoint", "files", bad), ("packages", bad)]
    readings = tuple(
        Reading(registry.find(path), registry.read(registry.find(path), bad), bad, By.FILE) for path in paths
    )
    return Observation(
        readings=readings, unobserved=(Unobserved(("env", bad), bad, bad),),
        checks=tuple(Check(bad, status, bad, bad, bad) for status in CheckStatus), complete=frozenset({("serve", bad)}),
        stage=Stage.ALL, observed_at=bad, host=bad, warnings=(bad,),
    )  # fmt: skip


def harmless_log(written: str) -> None:
    """What no terminal and no CI system obeys."""
    assert all(char == "\n" or " " <= char <= "~" for char in written)
    assert not re.search(r"##[A-Za-z]*\[", written)
    assert not any(line.lstrip().startswith("::") for line in written.splitlines())


def texts_of(bad: str) -> list[str]:
    shown = planted(bad)
    facts = planted_observation(bad)
    return [
        text.report(shown, width=10**9), text.report(shown, width=10**9, verbose=True, full=True),
        text.inspection(facts.readings, facts.checks, facts.unobserved, subject=bad, width=10**9),
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
@example("::error::x\n##[error]x\x1b[31m|`@name`]]><script>\u202e%0A")
def test_text_keeps_its_lines(bad: str) -> None:
    tail = "x" * 50  # so that every name is too long for its column
    for hostile, calm in zip(texts_of(bad + tail), texts_of(CALM + tail), strict=True):
        harmless_log(hostile)
        assert len(hostile.splitlines()) == len(calm.splitlines())
    for width in (40, 80):
        harmless_log(text.report(planted(bad), width=width))


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
def test_a_diff_as_text_keeps_its_lines(bad: str) -> None:
    def written(each: str) -> str:
        return render_diff(msgspec.structs.replace(planted_diff(each), template_before=None), "text", width=10**9)

    hostile, calm = written(bad + "x" * 90), written(CALM + "x" * 90)
    harmless_log(hostile)
    assert len(hostile.splitlines()) == len(calm.splitlines())


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
def test_a_template_diff_shows_each_line_of_the_template_as_one_line(bad: str) -> None:
    for format_ in ("text", "markdown"):
        written = render_diff(planted_diff(bad), format_)
        assert not any(
            unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for char in written.replace("\n", "")
        )
        assert not any(one.lstrip().startswith("::") for one in written.split("\n"))
        assert not re.search(r"##[A-Za-z]*\[", written)
        if re.match(r"\s*[+-]", bad):
            continue  # the names alone begin like lines of a diff
        shown = [one for one in written.split("\n") if re.match(r" *[+-]", one)]
        assert len(shown) <= 2 * (bad.count("\n") + 2) + bad.count("}")  # a long line is broken after each tag


def shape(value: Any) -> Any:
    """A JSON value without its strings."""
    if isinstance(value, dict):
        return sorted((shape(each) for each in value.values()), key=str)
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
def test_json_keeps_its_shape(bad: str) -> None:
    def written(each: str) -> list[str]:
        facts = planted_observation(each)
        return [
            render_report(planted(each), "json"), render_report(planted(each), "sarif"),
            render_diff(planted_diff(each), "json"),
            as_json.observation(facts), as_json.inspection(facts.readings, facts.checks, facts.unobserved),
        ]  # fmt: skip

    for hostile, calm in zip(written(bad), written(CALM), strict=True):
        harmless_log(hostile)
        assert shape(json.loads(hostile)) == shape(json.loads(calm))


@given(HOSTILE)
def test_json_gives_a_string_back_as_it_was(bad: str) -> None:
    given_back = json.loads(render_report(planted(bad), "json"))["subject"]
    assert given_back == "".join(
        f"\\x{ord(char) - 0xDC00:02x}" if 0xDC80 <= ord(char) <= 0xDCFF
        else f"\\u{ord(char):04x}" if 0xD800 <= ord(char) <= 0xDFFF
        else char
        for char in bad
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
def test_junit_keeps_its_elements(bad: str) -> None:
    def elements(each: str) -> list[tuple[str, list[str]]]:
        written = render_report(planted(each), "junit")
        harmless_log(written)
        return [(one.tag, sorted(one.attrib)) for one in ET.fromstring(written).iter()]

    assert elements(bad) == elements(CALM)


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
def test_workflow_commands_stay_as_many_as_they_are(bad: str) -> None:
    written = render_report(planted(bad), "github")
    lines = written.rstrip("\n").split("\n")
    assert len(lines) == len(render_report(planted(CALM), "github").rstrip("\n").split("\n"))
    for line in lines:
        assert re.fullmatch(r"::(error|warning|notice) file=[^:,\n]*,title=[^:,\n]*::[ -~]*", line)
        assert not re.search(r"##[A-Za-z]*\[", line)
        assert not re.search(r"%(?!25|3A|2C)", line)


MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OURS = re.compile(r"<(/?)(code|br|details|summary)>")


def skeleton(written: str) -> list[str]:
    """The kinds of Markdown tokens, text merged; our own ways of setting code count as one."""
    kinds: list[str] = []

    def walk(tokens: list[Token]) -> None:
        within_code = False
        for token in tokens:
            kind = "text" if token.type in ("text_special", "softbreak") else token.type
            if kind in ("html_inline", "html_block"):
                assert not OURS.sub("", token.content).strip().startswith("<")
                kind = "".join(OURS.findall(token.content)[0]) if kind == "html_inline" else kind
                within_code = kind == "code" if kind.endswith("code") else within_code
            if kind == "fence":
                assert token.info == "diff"
            if kind == "text" and not within_code:
                assert not re.search(r"@\w|(?<!\w)#\d", token.content)
            kinds.append(kind)
            walk(token.children or [])

    walk(MARKDOWN.parse(written))
    joined = " ".join(kinds)
    joined = re.sub(r"code_inline|code (text )*/code", "CODE", joined)
    return re.sub(r"(text ?)+", "text ", joined).split()


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
@example("```\n# x")
@example("| x |\n|---|")
@example("@name #1 https://example.org")
def test_markdown_keeps_its_structure(bad: str) -> None:
    assert skeleton(render_report(planted(bad), "markdown")) == skeleton(render_report(planted(CALM), "markdown"))
    hostile, calm = render_diff(planted_diff(bad), "markdown"), render_diff(planted_diff("other"), "markdown")
    assert skeleton(hostile) == skeleton(calm)


@pytest.mark.parametrize("format_", ["text", "json", "junit", "sarif", "github", "markdown"])
def test_a_marker_of_a_ci_system_is_broken_wherever_it_stands(format_: str) -> None:
    for bad in ("##[error]x", "##vso[task.setvariable]x", "x ##[endgroup]"):
        assert not re.search(r"##[A-Za-z]*\[", render_report(planted(bad), format_))
        assert not re.search(r"##[A-Za-z]*\[", render_diff(planted_diff(bad), "markdown"))


def test_a_sentence_in_markdown_holds_no_link_and_calls_nobody() -> None:
    assert "://" not in prose("see https://example.org")
    assert "www." not in prose("see WWW.example.org")
    assert prose("@team #12") == "&#64;&#8203;team &#35;&#8203;12"


def test_every_record_that_is_planted_has_no_text_field_left_out() -> None:
    calm: Callable[[Any], set[str]] = lambda record: {  # noqa: E731
        name for name in record.__struct_fields__ if isinstance(getattr(record, name), str)
    }
    fixed = {"status", "gate", "verdict", "template_before"}
    for record in (planted("bad"), planted_diff("bad"), planted_observation("bad")):
        assert all("bad" in getattr(record, name) for name in calm(record) - fixed)
    assert msgspec.structs.asdict(planted("bad").results[0])["source"] == "bad"
