"""What one checkpoint, command line, or log shows, as text: facts by table, findings, and what was not seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from lockllm.facts.keys import dotted
from lockllm.facts.observation import Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import dump, position
from lockllm.output.escape import visible
from lockllm.output.layout import Page
from lockllm.output.values import show

_WORDS = {CheckStatus.FAIL: ("Findings", "bad"), CheckStatus.UNKNOWN: ("Undecided", "unsure")}
_FILES_SHOWN = 20


def best(facts: Sequence[Reading]) -> list[Reading]:
    """The reading of each fact by its best witness, in lock order."""
    chosen: dict[tuple[str, ...], Reading] = {}
    for reading in facts:
        former = chosen.get(reading.fact.path)
        if former is None or reading.by < former.by:
            chosen[reading.fact.path] = reading
    return sorted(chosen.values(), key=lambda reading: position(reading.fact.path))


def text(
    facts: Sequence[Reading],
    checks: Sequence[Check],
    unobserved: Sequence[Unobserved],
    page: Page,
    *,
    subject: str,
    full: bool,
    verbose: bool,
) -> str:
    """Findings, then facts by table with their sources; passed checks are one line."""
    readings = best(facts)
    failed = [check for check in checks if check.status is CheckStatus.FAIL]
    counted = [f"{len(readings)} facts" if len(readings) != 1 else "1 fact"]
    counted.append("1 finding" if len(failed) == 1 else f"{len(failed)} findings")
    page.head(visible(subject) or "inspected", ", ".join(counted), "strong")
    for status, (title, style) in _WORDS.items():
        chosen = [check for check in checks if check.status is status]
        if chosen:
            page.blank()
            page.line(title, style=style)
            for check in chosen:
                page.line(visible(check.name), indent=4, style="strong")
                for label, value in (("found", check.detail), ("seen at", check.source), ("fix", check.fix)):
                    if value:
                        page.field(label, visible(value), indent=6)
    for table, members in groupby(readings, key=lambda reading: _table(reading.fact.path)):
        page.blank()
        page.line(f"[{dotted(table)}]", style="strong")
        _facts(page, list(members), len(table), full, verbose)
    if unobserved:
        page.blank()
        page.line("Not seen", style="unsure")
        for each in unobserved:
            page.line(dotted(each.path), indent=4, style="strong")
            for label, value in (("reason", each.reason), ("fix", each.fix)):
                if value:
                    page.field(label, visible(value), indent=6)
    passed = sum(1 for check in checks if check.status is CheckStatus.PASS)
    if passed:
        page.blank()
        page.line(f"{passed} checks pass" if passed != 1 else "1 check passes")
    return page.text()


def _table(path: tuple[str, ...]) -> tuple[str, ...]:
    return path[:2] if path[:2] == ("checkpoint", "files") else path[:1]


def _facts(page: Page, members: Sequence[Reading], depth: int, full: bool, verbose: bool) -> None:
    shown = members if full or verbose or depth < 2 else members[:_FILES_SHOWN]
    rows = []
    for reading in shown:
        value = show(dump(reading.fact, reading.value), full=full, limit=page.width - 20)
        name = dotted(reading.fact.path[depth:]) or reading.fact.key
        rows.append((name, f"{value}  ({visible(reading.source)})" if depth < 2 and reading.source else value))
    page.table(rows, indent=2, widest=36)
    if len(shown) < len(members):
        page.line(f"and {len(members) - len(shown)} more (--full lists them)", indent=2, style="quiet")
