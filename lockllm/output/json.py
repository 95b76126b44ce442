"""Records as JSON for machines: the shapes that the checked-in schemas describe, in ASCII, the same bytes each time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from lockllm.documents import observation as document
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Check, CheckStatus, Observation, Raw, Reading, Unobserved
from lockllm.facts.registry import dump
from lockllm.judge.report import Change, Diff, Report, Result
from lockllm.output.escape import valid_unicode
from lockllm.output.inspected import best

_QUICK = json.JSONEncoder(ensure_ascii=True, allow_nan=False)  # with an indent it is ten times slower
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, indent=2)
_AT_ONCE = 500  # entries in one piece
_DEEPEST = 60
_WORST = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.PASS)


def report(report: Report) -> Iterator[str]:
    """A report: `report_version` 1, in pieces."""
    yield from pieces(
        {
            "report_version": 1,
            "status": report.status,
            "exit_code": report.exit_code,
            "stage": report.stage.value,
            "lock": report.lock,
            "subject": report.subject,
            "host": report.host,
            "engine": report.engine,
            "gate": report.gate,
            "fingerprint": {"locked": report.fingerprint.locked, "observed": report.fingerprint.observed},
            "counts": report.counts,
            "results": map(_result, report.results),
            "checks": map(_named_check, report.checks),
            "unpinned": report.unpinned,
            "seen_not_pinned": {
                each.fact.key: {"value": dump(each.fact, each.value), "source": each.source}
                for each in report.left_open
            },
            "others": report.others,
            "warnings": report.warnings,
        }
    )
    yield "\n"


def diff(diff: Diff) -> Iterator[str]:
    """What moved between two locks: `diff_version` 1, in pieces. A moved file is one removed and one added."""
    yield from pieces(
        {
            "diff_version": 1,
            "before": diff.before,
            "after": diff.after,
            "verdict": diff.verdict,
            "changes": (entry for change in diff.changes for entry in _change(change)),
            "warnings": diff.warnings,
        }
    )
    yield "\n"


def observation(observation: Observation) -> str:
    """An observation: `observation_version` 1, as `verify --observation` reads it."""
    return write({**document.dump(observation), "checks": _checks_by_name(observation.checks)})


def inspection(facts: Sequence[Reading], checks: Sequence[Check] = (), unobserved: Sequence[Unobserved] = ()) -> str:
    """The facts of one thing that was looked at, one value each, and the findings."""
    return write(
        {
            "facts": {reading.fact.key: dump(reading.fact, reading.value) for reading in best(facts)},
            "sources": {reading.fact.key: reading.source for reading in best(facts)},
            "unobserved": {dotted(each.path): {"reason": each.reason, "fix": each.fix} for each in unobserved},
            "checks": [_named_check(each) for each in checks],
        }
    )


def write(document: Mapping[str, Any]) -> str:
    """A document as text: ASCII alone, and nothing that a CI system would take for a command of its own."""
    return "".join(pieces(document)) + "\n"


def pieces(document: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """A document as text, a piece at a time: a report on every file of a large checkpoint is never held whole."""
    margin = "\n" + " " * (indent + 2)
    before = "{" + margin
    for key, value in document.items():
        opens = f"{before}{_text(key)}: "
        if isinstance(value, (Mapping, list, tuple, Iterator)):
            yield from _entries(opens, value, margin)
        else:
            yield _harmless(opens + _text(value, margin))
        before = "," + margin
    yield "\n" + " " * indent + "}"


def _entries(opens: str, value: Any, margin: str) -> Iterator[str]:
    """A member that holds others, some of them at a time."""
    inner = margin + "  "
    if isinstance(value, Mapping):
        brackets = "{}"
        texts = (f"{_text(str(key))}: {_text(each, inner)}" for key, each in value.items())
    else:
        brackets = "[]"
        texts = (_text(each, inner) for each in value)
    before = opens + brackets[0] + inner
    while some := list(islice(texts, _AT_ONCE)):
        yield _harmless(before + ("," + inner).join(some))
        before = "," + inner
    yield margin + brackets[1] if before != opens + brackets[0] + inner else opens + brackets


def _harmless(text: str) -> str:
    return text.replace("##", "#\\u0023")


def _text(value: Any, margin: str = "\n") -> str:
    """A value behind a margin. No string holds a line break in JSON, so each one is structure."""
    try:
        text: str = msgspec.json.format(_QUICK.encode(value), indent=2)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):  # what JSON lacks: spelled in words
        text = _ENCODER.encode(_plain(value, 2))
    return text.replace("\n", margin)


def _result(result: Result) -> dict[str, Any]:
    return {
        "fact": result.fact.key,
        "status": result.status.value,
        "policy": result.policy.value,
        "expected": result.expected,
        "found": result.found,
        "seen": result.seen,
        "readings": [document.dump_reading(each) for each in result.readings],
        "source": result.source,
        "kind": result.fact.kind.value,
        "effect": result.fact.effect,
        "fix": result.fix,
        "because": result.because,
        "reason": result.reason,
        "blocking": result.blocking,
    }


def _check(check: Check) -> dict[str, Any]:
    return {"status": check.status.value, "detail": check.detail, "source": check.source, "fix": check.fix}


def _named_check(check: Check) -> dict[str, Any]:
    return {"check": check.name, **_check(check)}


def _checks_by_name(checks: Sequence[Check]) -> dict[str, Any]:
    """One entry a name; where several findings have one name, the worst status and all details."""
    named: dict[str, list[Check]] = {}
    for check in checks:
        named.setdefault(check.name, []).append(check)
    found: dict[str, Any] = {}
    for name, same in named.items():
        worst = min((check.status for check in same), key=_WORST.index)
        chosen = [check for check in same if check.status is worst]
        found[name] = {
            "status": worst.value,
            "detail": _joined(check.detail for check in chosen),
            "source": _joined(check.source for check in chosen),
            "fix": _joined(check.fix for check in chosen),
        }
    return found


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _change(change: Change) -> list[dict[str, Any]]:
    shared = {"kind": change.kind.value, "effect": change.effect, "because": change.because}
    if change.change != "moved" or change.moved_from is None:
        return [
            {"fact": change.fact.key, "before": change.before, "after": change.after, "change": change.change, **shared}
        ]
    value = change.before if change.after is None else change.after
    return [
        {
            "fact": change.moved_from,
            "before": value,
            "after": None,
            "change": "removed",
            **shared,
            "moved_to": change.fact.key,
        },
        {
            "fact": change.fact.key,
            "before": None,
            "after": value,
            "change": "added",
            **shared,
            "moved_from": change.moved_from,
        },
    ]


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return valid_unicode(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is ABSENT:
        return None
    if isinstance(value, Raw):
        return _plain(value.value, depth)
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, dict):
        return {valid_unicode(str(key)): _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, depth + 1) for each in value]
    return valid_unicode(str(value))
