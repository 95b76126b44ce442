"""Records as Markdown for pull requests and job summaries. Foreign text cannot add to its structure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lockllm.facts import check as checks
from lockllm.facts.observation import CheckStatus
from lockllm.facts.registry import dump
from lockllm.judge.report import Change, Diff, Report, Result, Status
from lockllm.output.changes import KINDS, Block, blocks, followed, verdict
from lockllm.output.changes import tally as tally_of_diff
from lockllm.output.escape import code, fenced, prose
from lockllm.output.order import causes_first, nothing_checked, tally
from lockllm.output.values import show, show_pair

_SETTLED = (Status.ALLOWED, Status.WAIVED, Status.IGNORED)
_INDENT = "&nbsp;&nbsp;"


def report(report: Report, *, full: bool = False) -> str:
    """A report: the verdict, tables of differences, of what was not seen, and of findings; the rest is folded."""
    lines = [f"### lockllm: {prose(report.status)}", ""]
    where = f"{code(report.lock)} against {prose(report.subject or 'this host')}, stage {report.stage.value}"
    lines += [f"{where}: **{prose(nothing_checked(report) or tally(report))}**."]
    differing = [each for each in report.results if each.status is Status.MISMATCH]
    lines += _section(
        "Differences",
        ("fact", "expected", "found", "effect", "fix"),
        (
            (_INDENT * depth + code(each.fact.key), *_pair(each, full), _effect(each), _fix(each))
            for depth, each in causes_first(differing)
        ),
    )
    lines += _section(
        "Not seen",
        ("fact", "reason", "fix"),
        (
            (code(each.fact.key), prose(each.reason) + ("" if each.blocking else " (informational)"), prose(each.fix))
            for each in report.results
            if each.status is Status.UNKNOWN
        ),
    )
    lines += _section(
        "Findings",
        ("check", "found", "effect", "fix"),
        (
            (
                code(each.name),
                prose(each.detail) + ("" if each.name not in report.informational else " (informational)"),
                prose(checks.effect(each.name)),
                prose(each.fix),
            )
            for each in report.checks
            if each.status is CheckStatus.FAIL
        ),
    )
    lines += _settled(report, full)
    lines += ["", f"{report.counts['pinned']} facts pinned, {report.counts['unpinned']} not."]
    if report.gate != "enforce":
        lines[-1] += f" **The gate is disabled ({prose(report.gate)}): nothing is refused.**"
    return "\n".join(lines) + "\n"


def diff(diff: Diff, *, full: bool = False) -> str:
    """A diff for review: the chat template as text, the engine with its consequences, all else, and the verdict."""
    found = blocks(diff)
    lines = [f"### {code(diff.before)} to {code(diff.after)}: {prose(tally_of_diff(diff))}"]
    rest: list[Block] = []
    for block in found:
        path = block.changes[0].fact.path
        if block.template:
            shown = [text if mark == "@" else mark + text for mark, text in block.template]
            lines += ["", "#### Chat template", "", *fenced(shown, "diff")]
        elif path == ("engine", "version"):
            before, after = (show(value) for value in (block.changes[0].before, block.changes[0].after))
            lines += ["", f"#### Engine {code(before)} to {code(after)}"]
        else:
            rest.append(block)
            continue
        lines += _table(("fact", "before", "after", "effect"), _rows(block, full))
    if rest:
        if len(rest) < len(found):
            lines += ["", "#### Other changes"]
        lines += _table(("fact", "before", "after", "effect"), (row for block in rest for row in _rows(block, full)))
    lines += [f"\n> warning: {prose(warning)}" for warning in diff.warnings]
    lines += ["", f"**Verdict: {prose(verdict(diff))}**"]
    return "\n".join(lines) + "\n"


def _rows(block: Block, full: bool) -> Iterable[tuple[str, ...]]:
    for change in block.changes:
        yield _row(change, "", full)
    if block.following:
        yield f"*{followed(block)}*", "", "", ""
    for depth, change in block.following:
        yield _row(change, _INDENT * (depth + 1), full)


def _row(change: Change, indent: str, full: bool) -> tuple[str, ...]:
    name = indent + code(change.fact.key)
    effect = f"{KINDS[change.kind]}: {prose(change.effect)}"
    if change.change == "moved" and change.moved_from is not None:
        return name, code(change.moved_from), "moved, same bytes", effect
    if change.before is None:
        return name, "*added*", code(show(change.after, full=full, limit=40)), effect
    if change.after is None:
        return name, code(show(change.before, full=full, limit=40)), "*removed*", effect
    before, after = show_pair(change.before, change.after, full=full, limit=40)
    return name, code(before), code(after), effect


def _pair(result: Result, full: bool) -> tuple[str, str]:
    expected, found = show_pair(result.expected, result.found, full=full, limit=40)
    source = f"<br>{prose(result.source)}" if result.source else ""
    return code(expected), code(found) + source


def _effect(result: Result) -> str:
    return f"{KINDS[result.fact.kind]}: {prose(result.fact.effect)}" + ("" if result.blocking else " (informational)")


def _fix(result: Result) -> str:
    parts = [prose(text) for text in (result.reason, result.fix) if text]
    return "; ".join(parts)


def _settled(report: Report, full: bool) -> list[str]:
    """What needs no action, folded."""
    entries = []
    for each in report.results:
        if each.status in _SETTLED:
            why = f": {prose(each.reason)}" if each.reason else ""
            expected, found = _pair(each, full)
            entries.append(
                f"- {each.status.value}: {code(each.fact.key)} {expected} to {found.replace('<br>', ' at ')}{why}"
            )
        elif each.status is Status.NOT_DUE:
            entries.append(f"- not due at this stage: {code(each.fact.key)}")
    entries += [
        f"- undecided: {code(each.name)} {prose(each.detail)}"
        for each in report.checks
        if each.status is CheckStatus.UNKNOWN
    ]
    entries += [f"- also tried: {prose(other)}" for other in report.others]
    entries += [f"- warning: {prose(warning)}" for warning in report.warnings]
    entries += [f"- not pinned: {code(key)} {prose(reason)}" for key, reason in report.unpinned.items()]
    entries += [
        f"- seen, not pinned: {code(each.fact.key)} {code(show(dump(each.fact, each.value)))} {prose(each.source)}"
        for each in report.left_open
    ]
    if not entries:
        return []
    return ["", "<details><summary>Tolerated, not due, not pinned</summary>", "", *entries, "", "</details>"]


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table under its heading; nothing if it has no rows."""
    table = _table(heads, rows)
    return ["", f"#### {title}", *table] if table else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = ["| " + " | ".join(re.sub(" +", " ", cell) if "  " in cell else cell for cell in row) + " |" for row in rows]
    return ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *body] if body else []
