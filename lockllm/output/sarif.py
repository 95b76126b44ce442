"""A report as SARIF 2.1.0: one result for each difference, one rule for each kind of fact."""

from __future__ import annotations

import re
from typing import Any

from lockllm import __version__
from lockllm.facts import check as checks
from lockllm.facts.keys import dotted
from lockllm.facts.observation import Check, CheckStatus
from lockllm.facts.registry import family
from lockllm.judge.report import Report, Result, Status
from lockllm.output.escape import line
from lockllm.output.json import write
from lockllm.output.order import nothing_checked
from lockllm.output.values import show_pair

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://pypi.org/project/lockllm-cli/"
_ABOUT = {row.name: row.about for row in checks.CHECKS}


def report(report: Report) -> str:
    """What raises the exit code has level error, what is only told warning, what is tolerated note."""
    results, rules = [], dict[str, dict[str, Any]]()
    for each in report.results:
        if each.status not in (Status.MATCH, Status.NOT_DUE):
            rule = _rule_of(each, rules)
            results.append(_result(each, rule, list(rules).index(rule), report))
    for check in report.checks:
        if check.status is not CheckStatus.PASS:
            rules.setdefault(
                check.name, _rule(check.name, _ABOUT.get(check.name, check.name), checks.effect(check.name))
            )
            results.append(_check(check, list(rules).index(check.name), report))
    if nothing := nothing_checked(report):
        rules["lockllm.verdict"] = _rule("lockllm.verdict", "Something was checked.", "a gate that saw nothing")
        results.append(_entry("lockllm.verdict", len(rules) - 1, "error", nothing, "verdict", report))
    driver = {"name": "lockllm", "version": __version__, "informationUri": _HOME, "rules": list(rules.values())}
    invocation = {
        "executionSuccessful": True,
        "exitCode": report.exit_code,
        "exitCodeDescription": report.status,
        "toolExecutionNotifications": [
            {"level": "warning", "message": {"text": _message(text)}} for text in report.warnings
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
        "properties": {
            "stage": report.stage.value, "subject": report.subject, "gate": report.gate, "counts": dict(report.counts),
            "notDue": [each.fact.key for each in report.results if each.status is Status.NOT_DUE],
        },
    }  # fmt: skip
    return write({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule_of(result: Result, rules: dict[str, dict[str, Any]]) -> str:
    fact = result.fact
    held = family(fact.path)
    name = dotted(held.path) if held else fact.key
    rules.setdefault(name, _rule(name, fact.about, fact.effect, fact.mend))
    return name


def _rule(name: str, about: str, effect: str, mend: str = "") -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": line(name),
        "shortDescription": {"text": _message(about or name)},
        "fullDescription": {"text": _message(f"{about or name} When it moves: {effect or 'not known'}.")},
    }
    if mend:
        rule["help"] = {"text": _message(mend)}
    return rule


def _result(result: Result, rule: str, at: int, report: Report) -> dict[str, Any]:
    key = result.fact.key
    if result.status is Status.UNKNOWN:
        text = f"{key} could not be seen: {result.reason}; mend: {result.mend}"
        return _entry(rule, at, "error" if result.blocking else "note", text, key, report)
    expected, found = show_pair(result.expected, result.found)
    text = f"{key}: expected {expected}, found {found}"
    for label, value in (
        ("at", result.source), ("because", result.reason), ("follows from", result.because or ""),
        (result.fact.kind.value, result.fact.effect), ("mend", result.mend),
    ):  # fmt: skip
        text += f"; {label}: {value}" if value else ""
    level = "error" if result.blocking else "warning" if result.status is Status.MISMATCH else "note"
    entry = _entry(rule, at, level, text, key, report)
    if result.status in (Status.WAIVED, Status.IGNORED):
        entry["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": line(result.reason or result.status.value)}
        ]
    return entry


def _check(check: Check, at: int, report: Report) -> dict[str, Any]:
    failed = check.status is CheckStatus.FAIL
    level = "note" if not failed else "warning" if check.name in report.told_only else "error"
    text = f"{check.name} {'fails' if failed else 'cannot tell'}: {check.detail}"
    for label, value in (("at", check.source), ("mend", check.mend)):
        text += f"; {label}: {value}" if value else ""
    return _entry(check.name, at, level, text, check.name, report)


def _entry(rule: str, at: int, level: str, text: str, key: str, report: Report) -> dict[str, Any]:
    return {
        "ruleId": line(rule),
        "ruleIndex": at,
        "level": level,
        "message": {"text": _message(text)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": _uri(report.lock)}, "region": {"startLine": 1}},
                "logicalLocations": [{"fullyQualifiedName": line(key), "kind": "member"}],
            }
        ],
        "partialFingerprints": {"lockllmFact/v1": line(key)},
    }


def _message(text: str) -> str:
    """Plain text of a message: no link and no placeholder can be made of it."""
    text = line(text).replace("{", "{{").replace("}", "}}")
    return re.sub(r"(?=[\[\]])", r"\\", text)


def _uri(path: str) -> str:
    """A file name as a URI reference."""
    kept = re.compile(rb"[A-Za-z0-9._~/-]")
    encoded = path.encode("utf-8", "surrogateescape" if _from_bytes(path) else "replace")
    text = "".join(chr(byte) if kept.match(bytes([byte])) else f"%{byte:02X}" for byte in encoded)
    return text.replace("//", "/%2F") if text.startswith("//") else text or "llm.lock"


def _from_bytes(path: str) -> bool:
    return all(not 0xD800 <= ord(char) <= 0xDFFF or 0xDC80 <= ord(char) <= 0xDCFF for char in path)
