"""What all formats share: causes before their consequences, and counts in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from lockllm.facts.fact import Fact, Path, Policy
from lockllm.facts.keys import dotted, segment
from lockllm.facts.observation import Check, CheckStatus
from lockllm.judge.report import Report, Result, Status

SETTLED = (Status.ALLOWED, Status.WAIVED, Status.IGNORED)
"""Differs, and the lock tolerates it."""


def circular(key: str, because: Mapping[str, str | None]) -> bool:
    """Whether a key is, through its causes, its own cause."""
    seen = {key}
    at = because.get(key)
    while at is not None and at not in seen:
        seen.add(at)
        at = because.get(at)
    return at == key


def split(differing: Sequence[Result]) -> tuple[list[Result], dict[str, list[Result]]]:
    """The causes, and the consequences of each key."""
    if all(each.because is None for each in differing):
        return list(differing), {}
    because = {each.fact.key: each.because for each in differing}
    causes: list[Result] = []
    followers: dict[str, list[Result]] = {}
    for each in differing:
        if each.because is None or each.because not in because or circular(each.fact.key, because):
            causes.append(each)
        else:
            followers.setdefault(each.because, []).append(each)
    return causes, followers


def causes_first(differing: Sequence[Result]) -> list[tuple[int, Result]]:
    """Every result once, with its depth below its cause."""
    causes, followers = split(differing)

    def below(result: Result, depth: int) -> list[tuple[int, Result]]:
        found = [(depth, result)]
        for each in followers.get(result.fact.key, ()):
            found += below(each, depth + 1)
        return found

    return [each for cause in causes for each in below(cause, 0)]


def tally(report: Report) -> str:
    """`3 differ from 1 cause, 2 not seen, 41 match`."""
    blocking = [each for each in report.results if each.status is Status.MISMATCH and each.blocking]
    informational = sum(1 for each in report.results if each.status is Status.MISMATCH and not each.blocking)
    causes, _ = split([each for each in report.results if each.status is Status.MISMATCH])
    ahead = sum(1 for each in causes if each.blocking)
    counted = []
    if blocking:
        counted.append(f"{len(blocking)} {'differs' if len(blocking) == 1 else 'differ'}")
        if ahead < len(blocking):
            counted[0] += " from 1 cause" if ahead == 1 else f" from {ahead} causes"
    failed = sum(1 for check in report.checks if check.status is CheckStatus.FAIL)
    matching = sum(1 for each in report.results if each.status is Status.MATCH)
    for count, words in (
        (informational, "informational"),
        (sum(1 for each in report.results if each.status is Status.UNKNOWN), "not seen"),
        (failed, "finding" if failed == 1 else "findings"),
        (sum(1 for each in report.results if each.status in SETTLED), "tolerated"),
    ):
        if count:
            counted.append(f"{count} {words}")
    return ", ".join([*counted, "1 matches" if matching == 1 else f"{matching} match"])


def nothing_checked(report: Report) -> str:
    """Why a report without differences is no match: nothing was checked. Empty if something was."""
    results = report.results
    if report.status != "unknown" or any(each.status is Status.UNKNOWN and each.blocking for each in results):
        return ""
    if unanswered(report) is not None and any(each.status is Status.MATCH for each in results):
        return ""
    if not results:
        return "nothing was checked: no locked fact was selected, or the lock has none"
    counted = (
        (sum(1 for each in results if each.status is Status.NOT_DUE), "not due at this stage"),
        (sum(1 for each in results if each.policy is Policy.IGNORE), "ignored by policy"),
    )
    why = ", ".join(f"{count} {words}" for count, words in counted if count)
    return f"nothing was checked: of {facts(len(results))}, {why or 'none was due and seen'}"


def facts(count: int) -> str:
    """`1 fact`, `2 facts`."""
    return "1 fact" if count == 1 else f"{count} facts"


def by_group(facts: Sequence[Fact[Any]]) -> list[str]:
    """The keys; more than three of one group are counted: `sampling.* (17)`."""
    groups: dict[str, list[Fact[Any]]] = {}
    for fact in facts:
        groups.setdefault(fact.group, []).append(fact)
    named: list[str] = []
    for group, members in groups.items():
        named += [each.key for each in members] if len(members) <= 3 else [f"{group}.* ({len(members)})"]
    return named


def unanswered(report: Report) -> Check | None:
    """The finding that the server did not answer, if the verdict rests on it."""
    if report.status != "unknown":
        return None
    return next(
        (each for each in report.checks if each.name == "check.server_answers" and each.status is CheckStatus.UNKNOWN),
        None,
    )


def folded(rows: Sequence[tuple[Path, str, bool]]) -> list[tuple[str, str]]:
    """Neighbors below one key on one line: `prompt_probes.user  text, token_count 41 -> 42, token_ids`.

    A row is a fact's path, its change in words, and whether the values are digests: those are left out.
    """
    lines: list[tuple[str, str]] = []
    for parent, group in groupby(rows, key=lambda row: row[0][:-1] if len(row[0]) > 2 else row[0]):
        members = list(group)
        if len(members) == 1 or len(parent) < 2:
            lines += [(dotted(path), text) for path, text, _ in members]
        else:
            parts = [segment(path[-1]) + ("" if digest else f" {text}") for path, text, digest in members]
            lines.append((dotted(parent), ", ".join(parts)))
    return lines


def is_digest(*values: object) -> bool:
    """Whether all values that are given are digests."""
    given = [value for value in values if value is not None]
    return bool(given) and all(isinstance(value, str) and len(value) == 64 and value.isalnum() for value in given)
