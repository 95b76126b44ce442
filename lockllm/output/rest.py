"""The end of a text report: what matches, is tolerated, not due, or not locked, in a line each."""

from __future__ import annotations

from lockllm.facts.observation import CheckStatus
from lockllm.facts.registry import dump
from lockllm.judge.report import Report, Status
from lockllm.output.escape import visible
from lockllm.output.layout import Page, columns
from lockllm.output.order import by_group
from lockllm.output.values import show, show_pair

_FEW = 6
_WIDTH = 12


def rest(page: Page, report: Report, *, full: bool, verbose: bool) -> None:
    """Everything that needs no action; `verbose` lists each fact with its source."""
    _tolerated(page, report, full)
    _matching(page, report, full, verbose)
    _checks(page, report, verbose)
    _not_due(page, report)
    _unpinned(page, report, verbose)
    _left_open(page, report, full)
    _identity(page, report, verbose)
    for other in report.others:
        page.field("also tried", visible(other), label_width=_WIDTH)
    for warning in report.warnings:
        if not warning.startswith("nothing was checked"):  # the verdict's own lines say it
            page.field("warning", visible(warning), label_width=_WIDTH)


def _tolerated(page: Page, report: Report, full: bool) -> None:
    for status in (Status.ALLOWED, Status.WAIVED, Status.IGNORED):
        for each in report.results:
            if each.status is status:
                pair = show_pair(each.expected, each.found, full=full, limit=30)
                values = " -> ".join(pair) if each.seen else "not seen"
                why = f" ({visible(each.reason)})" if each.reason else ""
                page.field(status.value, f"{each.fact.key}: {values}{why}", label_width=_WIDTH)


def _matching(page: Page, report: Report, full: bool, verbose: bool) -> None:
    matching = [each for each in report.results if each.status is Status.MATCH]
    following = sum(1 for each in matching if each.source.startswith("follows from"))
    kept = [each.readings[0] for each in matching if each.readings and each.readings[0].evidence == "cached"]
    oldest = min((each.hashed_at for each in kept if each.hashed_at), default="")
    claimed = sum(1 for each in matching if each.readings and each.readings[0].evidence == "claimed")
    notes = [
        f"{count} {words}"
        for count, words in (
            (following, "implied by other facts"),
            (len(kept), f"by digests cached since {visible(oldest)}" if oldest else "by cached digests"),
            (claimed, "by claimed digests, nothing hashed"),
        )
        if count
    ]
    text = "1 fact" if len(matching) == 1 else f"{len(matching)} facts"
    page.field("matches", text + (f" ({', '.join(notes)})" if notes else ""), label_width=_WIDTH)
    if verbose:
        rows = [(each.fact.key, f"{show(each.found, full=full)}  ({visible(each.source)})") for each in matching]
        page.table(rows, indent=4)


def _checks(page: Page, report: Report, verbose: bool) -> None:
    passed = [check for check in report.checks if check.status is CheckStatus.PASS]
    unsure = [check for check in report.checks if check.status is CheckStatus.UNKNOWN]
    if not passed and not unsure:
        return
    text = f"{len(passed)} pass"
    if unsure:
        text += f", {len(unsure)} undecided: " + columns([visible(check.name) for check in unsure])
    page.field("checks", text, label_width=_WIDTH)
    if verbose:
        page.table([(visible(check.name), visible(check.detail)) for check in (*unsure, *passed)], indent=4)


def _not_due(page: Page, report: Report) -> None:
    later = [each for each in report.results if each.status is Status.NOT_DUE]
    if not later:
        return
    names = columns(by_group([each.fact for each in later]))
    page.field("not due", f"{len(later)} at this stage: {names}", label_width=_WIDTH)


def _unpinned(page: Page, report: Report, verbose: bool) -> None:
    if not report.unpinned:
        return
    if not verbose:
        keys = [visible(key) for key in report.unpinned]
        page.field("not pinned", columns(keys[:_FEW], more=max(0, len(keys) - _FEW)), label_width=_WIDTH)
        return
    page.field("not pinned", "these have no locked value and are never checked:", label_width=_WIDTH)
    page.table([(visible(key), visible(reason)) for key, reason in report.unpinned.items()], indent=4)


def _left_open(page: Page, report: Report, full: bool) -> None:
    """Values that a running server shows and the lock does not hold."""
    if not report.left_open:
        return
    page.field("seen, not pinned", "`lockllm lock --observation` can pin these:", label_width=_WIDTH)
    rows = [
        (each.fact.key, f"{show(dump(each.fact, each.value), full=full)}  ({visible(each.source)})")
        for each in report.left_open
    ]
    page.table(rows, indent=4)


def _identity(page: Page, report: Report, verbose: bool) -> None:
    locked, observed = report.fingerprint.locked, report.fingerprint.observed
    if not locked or (report.status != "match" and not verbose):
        return
    if locked == observed:
        page.field("id", visible(locked), label_width=_WIDTH)
        return
    page.field("id locked", visible(locked), label_width=_WIDTH)
    page.field("id seen", visible(observed), label_width=_WIDTH)
