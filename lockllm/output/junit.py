"""A report as JUnit XML: one test case for each locked fact and each check, so that a CI system lists them."""

from __future__ import annotations

from lockllm.facts.observation import Check, CheckStatus
from lockllm.judge.report import Report, Result, Status
from lockllm.output.escape import xml
from lockllm.output.order import nothing_checked
from lockllm.output.values import show, show_pair

_SETTLED = (Status.ALLOWED, Status.WAIVED, Status.IGNORED, Status.NOT_DUE)


def report(report: Report) -> str:
    """A mismatch is a failure, an unknown an error, what is tolerated or not due is skipped."""
    cases = [_result(each) for each in report.results]
    cases += [_check(each, each.name in report.told_only) for each in report.checks]
    if nothing := nothing_checked(report):
        cases.append(("error", _case("lockllm", "verdict", _outcome("error", nothing))))
    kinds = [kind for kind, _ in cases]
    numbers = f'tests="{len(cases)}" failures="{kinds.count("failure")}" errors="{kinds.count("error")}"'
    skipped = f'skipped="{kinds.count("skipped")}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="lockllm verify" {numbers}>',
        f'  <testsuite name="{xml(report.lock)}" hostname="{xml(report.host)}" {numbers} {skipped}>',
        "    <properties>",
        *(f'      <property name="{name}" value="{xml(value)}"/>' for name, value in _properties(report)),
        "    </properties>",
        *(text for _, text in cases),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _properties(report: Report) -> list[tuple[str, str]]:
    return [
        ("status", report.status),
        ("exit_code", str(report.exit_code)),
        ("stage", report.stage.value),
        ("subject", report.subject),
        ("engine", report.engine),
        ("gate", report.gate),
        ("unpinned", str(report.counts.get("unpinned", 0))),
    ]


def _result(result: Result) -> tuple[str, str]:
    kind, message, detail = _judged(result)
    return kind, _case(result.fact.group, result.fact.key, _outcome(kind, message, detail))


def _judged(result: Result) -> tuple[str, str, list[str]]:
    """The kind of outcome (empty where it passed), its message, and lines of detail."""
    if result.status is Status.MATCH:
        return "", "", []
    if result.status in (Status.UNKNOWN, Status.NOT_DUE):
        kind = "error" if result.blocking else "skipped"
        return (
            kind,
            f"{result.status.value}: {result.reason or 'not seen'}",
            [f"mend: {result.mend}"] if result.mend else [],
        )
    expected, found = show_pair(result.expected, result.found)
    if result.status in _SETTLED:
        return (
            "skipped",
            f"{result.status.value}: expected {expected}, found {found}",
            [result.reason] if result.reason else [],
        )
    kind = "failure" if result.blocking else "skipped"
    told = "" if result.blocking else "only told: "
    detail = [f"expected: {show(result.expected, full=True)}", f"found: {show(result.found, full=True)}"]
    labels = (
        ("seen at", result.source),
        ("why", result.reason),
        ("follows from", result.because or ""),
        ("effect", f"{result.fact.kind.value}: {result.fact.effect}"),
        ("mend", result.mend),
    )
    return (
        kind,
        f"{told}expected {expected}, found {found}",
        detail + [f"{label}: {text}" for label, text in labels if text],
    )


def _check(check: Check, told_only: bool) -> tuple[str, str]:
    kind = {CheckStatus.PASS: "", CheckStatus.UNKNOWN: "skipped", CheckStatus.FAIL: "failure"}[check.status]
    if kind == "failure" and told_only:
        kind = "skipped"
    detail = [f"{label}: {text}" for label, text in (("seen at", check.source), ("mend", check.mend)) if text]
    return kind, _case("check", check.name, _outcome(kind, check.detail, detail))


def _case(group: str, name: str, outcome: list[str]) -> str:
    opening = f'    <testcase classname="{xml(group)}" name="{xml(name)}"'
    return "\n".join([f"{opening}>", *outcome, "    </testcase>"]) if outcome else f"{opening}/>"


def _outcome(kind: str, message: str, detail: list[str] | None = None) -> list[str]:
    if not kind:
        return []
    opening = f'      <{kind} message="{xml(message)}"' + (f' type="{kind}"' if kind != "skipped" else "")
    lines = [xml(line) for line in detail or []]
    return [f"{opening}/>"] if not lines else [f"{opening}>" + "\n".join(lines) + f"</{kind}>"]
