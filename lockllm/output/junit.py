"""A report as JUnit XML: one test case for each locked fact and each check, so that a CI system lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lockllm.facts.observation import Check, CheckStatus
from lockllm.judge.report import Report, Result, Status
from lockllm.output.escape import xml
from lockllm.output.order import nothing_checked
from lockllm.output.values import show, show_pair

_SETTLED = (Status.ALLOWED, Status.WAIVED, Status.IGNORED, Status.NOT_DUE)


def report(report: Report) -> Iterator[str]:
    """A mismatch is a failure, an unknown an error, what is tolerated or not due is skipped. In pieces."""
    nothing = nothing_checked(report)
    kinds = Counter(map(_kind, report.results))
    kinds.update(_kind_of_check(each, report) for each in report.checks)
    kinds["error"] += bool(nothing)
    numbers = f'tests="{sum(kinds.values())}" failures="{kinds["failure"]}" errors="{kinds["error"]}"'
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="lockllm verify" {numbers}>\n'
    suite = f'name="{xml(report.lock)}" hostname="{xml(report.host)}" {numbers} skipped="{kinds["skipped"]}"'
    yield f"  <testsuite {suite}>\n    <properties>\n"
    for name, value in _properties(report):
        yield f'      <property name="{name}" value="{xml(value)}"/>\n'
    yield "    </properties>\n"
    for result in report.results:
        yield _result(result) + "\n"
    for check in report.checks:
        yield _check(check, _kind_of_check(check, report)) + "\n"
    if nothing:
        yield _case("lockllm", "verdict", _outcome("error", nothing)) + "\n"
    yield "  </testsuite>\n</testsuites>\n"


def _properties(report: Report) -> list[tuple[str, str]]:
    return [
        ("status", report.status),
        ("exit_code", str(report.exit_code)),
        ("stage", report.stage.value),
        ("subject", report.subject),
        ("engine", report.engine),
        ("gate", report.gate),
        ("unpinned", str(report.counts["unpinned"])),
    ]


def _result(result: Result) -> str:
    kind = _kind(result)
    message, detail = _judged(result)
    return _case(result.fact.group, result.fact.key, _outcome(kind, message, detail))


def _kind(result: Result) -> str:
    """The kind of outcome; empty where it passed."""
    if result.status is Status.MATCH:
        return ""
    if not result.blocking or result.status in _SETTLED:
        return "skipped"
    return "error" if result.status is Status.UNKNOWN else "failure"


def _judged(result: Result) -> tuple[str, list[str]]:
    """The message of an outcome, and lines of detail."""
    if result.status is Status.MATCH:
        return "", []
    if result.status in (Status.UNKNOWN, Status.NOT_DUE):
        words = f"{result.status.value}: {result.reason or 'not seen'}"
        return words, [f"fix: {result.fix}"] if result.fix else []
    expected, found = show_pair(result.expected, result.found)
    if result.status in _SETTLED:
        words = f"{result.status.value}: expected {expected}, found {found}"
        return words, [result.reason] if result.reason else []
    prefix = "" if result.blocking else "informational: "
    detail = [f"expected: {show(result.expected, full=True)}", f"found: {show(result.found, full=True)}"]
    labels = (
        ("seen at", result.source),
        ("why", result.reason),
        ("follows from", result.because or ""),
        ("effect", f"{result.fact.kind.value}: {result.fact.effect}"),
        ("fix", result.fix),
    )
    return f"{prefix}expected {expected}, found {found}", detail + [
        f"{label}: {text}" for label, text in labels if text
    ]


def _kind_of_check(check: Check, report: Report) -> str:
    kind = {CheckStatus.PASS: "", CheckStatus.UNKNOWN: "skipped", CheckStatus.FAIL: "failure"}[check.status]
    return "skipped" if kind and check.name in report.informational else kind


def _check(check: Check, kind: str) -> str:
    detail = [f"{label}: {text}" for label, text in (("seen at", check.source), ("fix", check.fix)) if text]
    return _case("check", check.name, _outcome(kind, check.detail, detail))


def _case(group: str, name: str, outcome: list[str]) -> str:
    opening = f'    <testcase classname="{xml(group)}" name="{xml(name)}"'
    return "\n".join([f"{opening}>", *outcome, "    </testcase>"]) if outcome else f"{opening}/>"


def _outcome(kind: str, message: str, detail: list[str] | None = None) -> list[str]:
    if not kind:
        return []
    opening = f'      <{kind} message="{xml(message)}"' + (f' type="{kind}"' if kind != "skipped" else "")
    lines = [xml(line) for line in detail or []]
    return [f"{opening}/>"] if not lines else [f"{opening}>" + "\n".join(lines) + f"</{kind}>"]
