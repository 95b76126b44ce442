"""A report as SARIF 2.1.0: one result for each difference, one rule for each kind of fact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lockllm import __version__
from lockllm.facts import check as checks
from lockllm.facts.keys import dotted
from lockllm.facts.observation import Check, CheckStatus
from lockllm.facts.registry import family
from lockllm.judge.report import Report, Result, Status
from lockllm.output.escape import line
from lockllm.output.json import pieces
from lockllm.output.order import nothing_checked
from lockllm.output.values import show_pair

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://pypi.org/project/lockllm-cli/"
_VERDICT = "lockllm.verdict"
_ABOUT = {row.name: row.about for row in checks.CHECKS}


def report(report: Report) -> Iterator[str]:
    """What raises the exit code has level error, an informational difference warning, what is tolerated note. In pieces."""
    listed = [(_rule_of(each), each) for each in report.results if each.status not in (Status.MATCH, Status.NOT_DUE)]
    failed = [check for check in report.checks if check.status is not CheckStatus.PASS]
    rules = _rules(report, listed, failed)
    at = {name: number for number, name in enumerate(rules)}
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
        "results": _results(report, listed, failed, at),
        "properties": {
            "stage": report.stage.value,
            "subject": report.subject,
            "gate": report.gate,
            "counts": dict(report.counts),
            "notDue": [each.fact.key for each in report.results if each.status is Status.NOT_DUE],
        },
    }
    yield f'{{\n  "$schema": "{_SCHEMA}",\n  "version": "2.1.0",\n  "runs": [\n    '
    yield from pieces(run, 4)
    yield "\n  ]\n}\n"


def _rules(report: Report, listed: Sequence[tuple[str, Result]], failed: Sequence[Check]) -> dict[str, dict[str, Any]]:
    rules: dict[str, dict[str, Any]] = {}
    for name, each in listed:
        if name not in rules:
            rules[name] = _rule(name, each.fact.about, each.fact.effect, each.fact.fix)
    for check in failed:
        if check.name not in rules:
            rules[check.name] = _rule(check.name, _ABOUT.get(check.name, check.name), checks.effect(check.name))
    if nothing_checked(report):
        rules[_VERDICT] = _rule(_VERDICT, "Something was checked.", "the gate saw nothing")
    return rules


def _results(
    report: Report, listed: Sequence[tuple[str, Result]], failed: Sequence[Check], at: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    lock = _uri(report.lock)
    for rule, each in listed:
        yield _result(each, rule, at[rule], lock)
    for check in failed:
        yield _check(check, at[check.name], check.name in report.informational, lock)
    if nothing := nothing_checked(report):
        yield _entry(_VERDICT, at[_VERDICT], "error", nothing, "verdict", lock)


def _rule_of(result: Result) -> str:
    held = family(result.fact.path)
    return dotted(held.path) if held else result.fact.key


def _rule(name: str, about: str, effect: str, fix: str = "") -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": line(name),
        "shortDescription": {"text": _message(about or name)},
        "fullDescription": {"text": _message(f"{about or name} If it differs: {effect or 'not known'}.")},
    }
    if fix:
        rule["help"] = {"text": _message(fix)}
    return rule


def _result(result: Result, rule: str, at: int, lock: str) -> dict[str, Any]:
    key = result.fact.key
    if result.status is Status.UNKNOWN:
        text = f"{key} was not seen: {result.reason}; fix: {result.fix}"
        return _entry(rule, at, "error" if result.blocking else "note", text, key, lock)
    expected, found = show_pair(result.expected, result.found)
    text = f"{key}: expected {expected}, found {found}"
    for label, value in (
        ("at", result.source),
        ("because", result.reason),
        ("follows from", result.because or ""),
        (result.fact.kind.value, result.fact.effect),
        ("fix", result.fix),
    ):
        text += f"; {label}: {value}" if value else ""
    level = "error" if result.blocking else "warning" if result.status is Status.MISMATCH else "note"
    entry = _entry(rule, at, level, text, key, lock)
    if result.status in (Status.WAIVED, Status.IGNORED):
        entry["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": line(result.reason or result.status.value)}
        ]
    return entry


def _check(check: Check, at: int, informational: bool, lock: str) -> dict[str, Any]:
    failed = check.status is CheckStatus.FAIL
    level = "note" if not failed else "warning" if informational else "error"
    text = f"{check.name} {'fails' if failed else 'is undecided'}: {check.detail}"
    for label, value in (("at", check.source), ("fix", check.fix)):
        text += f"; {label}: {value}" if value else ""
    return _entry(check.name, at, level, text, check.name, lock)


def _entry(rule: str, at: int, level: str, text: str, key: str, lock: str) -> dict[str, Any]:
    name = line(key)
    return {
        "ruleId": line(rule),
        "ruleIndex": at,
        "level": level,
        "message": {"text": _message(text)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": lock}, "region": {"startLine": 1}},
                "logicalLocations": [{"fullyQualifiedName": name, "kind": "member"}],
            }
        ],
        "partialFingerprints": {"lockllmFact/v1": name},
    }


@lru_cache(maxsize=512)
def _message(text: str) -> str:
    """Plain text of a message: no link and no placeholder can be made of it."""
    text = line(text).replace("{", "{{").replace("}", "}}")
    return text.replace("[", "\\[").replace("]", "\\]")


def _uri(path: str) -> str:
    """A file name as a URI reference."""
    kept = re.compile(rb"[A-Za-z0-9._~/-]")
    encoded = path.encode("utf-8", "surrogateescape" if _from_bytes(path) else "replace")
    text = "".join(chr(byte) if kept.match(bytes([byte])) else f"%{byte:02X}" for byte in encoded)
    return text.replace("//", "/%2F") if text.startswith("//") else text or "llm.lock"


def _from_bytes(path: str) -> bool:
    return all(not 0xD800 <= ord(char) <= 0xDFFF or 0xDC80 <= ord(char) <= 0xDCFF for char in path)
