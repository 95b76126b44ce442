"""A report as GitHub workflow commands: annotations on the lock, the verdict first."""

from __future__ import annotations

from collections.abc import Iterator

from lockllm.facts.observation import Check, CheckStatus
from lockllm.judge.report import Report, Result, Status
from lockllm.output.escape import command_data, command_property
from lockllm.output.order import nothing_checked, tally
from lockllm.output.values import show_pair

_LEVEL = {"match": "notice", "mismatch": "error", "unknown": "error"}


def report(report: Report) -> Iterator[str]:
    """One command a line, in pieces. What raises the exit code is an error; informational differences are warnings."""
    counts = nothing_checked(report) or f"{tally(report)}; {report.counts['unpinned']} not pinned"
    looked_at = report.subject or "this host"
    level = _LEVEL.get(report.status, "error")
    summary = f"{report.lock} against {looked_at} (stage {report.stage.value}): {counts}"
    if report.gate != "enforce":
        summary += f"; the gate is disabled ({report.gate}): nothing is refused"
    yield _command(level, report.lock, f"lockllm {report.status}", summary)
    for result in report.results:
        if result.status is not Status.MATCH:
            yield _result(result, report)
    for check in report.checks:
        if check.status is not CheckStatus.PASS:
            yield _check(check, report)
    for warning in report.warnings:
        yield _command("warning", report.lock, "lockllm", warning)


def _result(result: Result, report: Report) -> str:
    key = result.fact.key
    if result.status in (Status.UNKNOWN, Status.NOT_DUE):
        level = "error" if result.blocking else "notice"
        words = "is not due" if result.status is Status.NOT_DUE else "was not seen"
        return _command(
            level, report.lock, f"{key} {words}", _sentences(result.reason, result.fix and f"fix: {result.fix}")
        )
    expected, found = show_pair(result.expected, result.found)
    text = _sentences(
        f"expected {expected}, found {found}" + (f" at {result.source}" if result.source else ""),
        result.reason,
        result.because and f"follows from {result.because}",
        f"{result.fact.kind.value}: {result.fact.effect}",
        result.fix and f"fix: {result.fix}",
    )
    if result.status is Status.MISMATCH:
        return _command("error" if result.blocking else "warning", report.lock, f"{key} differs", text)
    return _command("notice", report.lock, f"{key} is {result.status.value}", text)


def _check(check: Check, report: Report) -> str:
    failed = check.status is CheckStatus.FAIL
    blocks = failed and check.name not in report.informational
    level = "error" if blocks else "warning" if failed else "notice"
    words = "fails" if failed else "is undecided"
    text = _sentences(check.detail, check.source and f"seen at {check.source}", check.fix and f"fix: {check.fix}")
    return _command(level, report.lock, f"{check.name} {words}", text)


def _sentences(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)


def _command(level: str, file: str, title: str, text: str) -> str:
    return f"::{level} file={command_property(file)},title={command_property(title)}::{command_data(text)}\n"
