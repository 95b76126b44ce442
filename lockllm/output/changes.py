"""The differences between two locks in a reviewer's order: the template, the engine, then the rest by cause."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lockllm.facts.fact import Kind, Path
from lockllm.facts.keys import dotted
from lockllm.judge.diff import VERDICTS
from lockllm.judge.report import Change, Diff
from lockllm.output.escape import readable, visible
from lockllm.output.layout import Page
from lockllm.output.order import circular, facts, folded, is_digest
from lockllm.output.values import show, show_pair

KINDS = {
    Kind.STEP: "step change",
    Kind.NOISE: "noise (last bits only)",
    Kind.FAILURE: "may not start or fit",
    Kind.IDENTITY: "no effect by itself",
    Kind.RULES: "changes how hosts are judged",
}
"""What a change does to the output, in words."""

_TEMPLATE = ("chat_template", "sha256")
_MARKS = {"+": "in", "-": "out", "@": "quiet"}


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Changes shown together: one cause with its consequences, or neighbors of one table."""

    title: str  # a key, or the key of the table
    changes: tuple[Change, ...]
    following: tuple[tuple[int, Change], ...] = ()  # depth below the cause, and the change
    template: tuple[tuple[str, str], ...] = ()

    @property
    def grouped(self) -> bool:
        """Whether it is several neighbors of one table."""
        return len(self.changes) > 1

    @property
    def effect(self) -> str:
        """The kind in words and the effect."""
        first = self.changes[0]
        return f"{KINDS[first.kind]}: {first.effect}" if first.effect else KINDS[first.kind]


def blocks(diff: Diff) -> list[Block]:
    """All changes, each once: the chat template first, then the engine, then in the order of the lock."""
    causes, below = _tree(diff.changes)
    found = [_block_of(diff, group, below) for group in _neighbours(causes, below)]
    return sorted(found, key=_rank)


def followed(block: Block) -> str:
    """The heading of the changes below a cause."""
    upgrade = block.changes[0].fact.path == ("engine", "version")
    return "Defaults and packages that changed with it" if upgrade else "Consequences"


def value_of(change: Change, *, full: bool = False, limit: int = 36) -> tuple[str, str]:
    """Before and after in words; one side is empty if the fact was added or removed."""
    if change.change == "moved" and change.moved_from is not None:
        return visible(change.moved_from), "same bytes"
    if change.before is None:
        return "", show(change.after, full=full, limit=limit)
    if change.after is None:
        return show(change.before, full=full, limit=limit), ""
    return show_pair(change.before, change.after, full=full, limit=limit)


def sentence(change: Change, *, full: bool = False, limit: int = 36) -> str:
    """One change on one line, without its key."""
    before, after = value_of(change, full=full, limit=limit)
    if change.change == "moved":
        return f"moved from {before}, same bytes"
    if not before:
        return f"added {after}"
    return f"removed, was {before}" if not after else f"{before} -> {after}"


def tally(diff: Diff) -> str:
    """`14 changes from 4 causes`; of a lock that came or went as a whole `new lock, 161 facts`."""
    if diff.is_new or diff.is_gone:
        held = facts(sum(1 for each in diff.changes if each.kind is not Kind.RULES))
        return f"{'new lock' if diff.is_new else 'lock removed'}, {held}"
    count = len(diff.changes)
    causes = len(_tree(diff.changes)[0])
    words = "nothing differs" if not count else "1 change" if count == 1 else f"{count} changes"
    if causes == count:
        return words
    return words + (" from 1 cause" if causes == 1 else f" from {causes} causes")


def verdict(diff: Diff) -> str:
    """The verdict in words."""
    return VERDICTS.get(diff.verdict, diff.verdict)


def text(diff: Diff, page: Page, *, full: bool, quiet: bool) -> str:
    """The diff as text; the last line is the verdict.

    Of a lock that came or went as a whole, only what decides verdicts is listed; `full` lists every fact.
    """
    whole = diff.is_new or diff.is_gone
    page.line(f"{visible(diff.before)} -> {visible(diff.after)}: {tally(diff)}", style="strong")
    if not quiet:
        for block in blocks(diff):
            if not whole or full or block.changes[0].kind is Kind.RULES:
                page.blank()
                _block(page, block, full)
    page.blank()
    for warning in diff.warnings:
        page.field("warning", visible(warning))
    if not whole:
        page.field("verdict", visible(verdict(diff)), style="strong")
    return page.text()


def _block(page: Page, block: Block, full: bool) -> None:
    first = block.changes[0]
    if block.grouped:
        page.line(f"{block.title}: {len(block.changes)} differ", hang=4, style="strong")
        page.line(visible(block.effect), indent=4, hang=2)
        depth = len(first.fact.path) - 1
        page.table([(visible(each.fact.path[depth]), sentence(each, full=full)) for each in block.changes], indent=6)
        return
    moved = sentence(first, full=full, limit=page.width - 4)
    if len(block.title) + 2 + len(moved) <= page.width:
        page.line(f"{block.title}  {moved}", style="strong")
    else:
        page.line(block.title, style="strong")
        for label, value in zip(("before", "after"), value_of(first, full=full, limit=page.width - 14), strict=True):
            if value:
                page.field(label, value, indent=4)
    page.line(visible(block.effect), indent=4, hang=2)
    for mark, line in block.template:
        page.raw(line if mark == "@" else f"{mark} {readable(line)}", indent=6, style=_MARKS.get(mark, ""))
    if block.following:
        page.line(followed(block), indent=4, style="quiet")
        for depth, part in _runs(block.following):
            rows = [
                (each.fact.path, sentence(each, full=full), is_digest(each.before, each.after) and not full)
                for each in part
            ]
            page.table(folded(rows), indent=6 + 2 * depth)


def _runs(following: Sequence[tuple[int, Change]]) -> list[tuple[int, list[Change]]]:
    runs: list[tuple[int, list[Change]]] = []
    for depth, change in following:
        if runs and runs[-1][0] == depth:
            runs[-1][1].append(change)
        else:
            runs.append((depth, [change]))
    return runs


def _tree(changes: Sequence[Change]) -> tuple[list[Change], dict[str, list[Change]]]:
    """The causes, and the consequences of each key. In a circle of causes all count as causes."""
    if all(each.because is None for each in changes):
        return list(changes), {}
    because = {each.fact.key: each.because for each in changes}
    causes: list[Change] = []
    below: dict[str, list[Change]] = {}
    for each in changes:
        if each.because is None or each.because not in because or circular(each.fact.key, because):
            causes.append(each)
        else:
            below.setdefault(each.because, []).append(each)
    return causes, below


def _following(key: str, below: dict[str, list[Change]], depth: int) -> list[tuple[int, Change]]:
    found: list[tuple[int, Change]] = []
    for each in below.get(key, ()):
        found.append((depth, each))
        found += _following(each.fact.key, below, depth + 1)
    return found


def _neighbours(causes: Sequence[Change], below: dict[str, list[Change]]) -> list[list[Change]]:
    groups: list[list[Change]] = []
    last: tuple[Path, str] | None = None
    for each in causes:
        alone = not below or each.fact.key not in below
        this = (each.fact.path[:-1], each.effect) if alone and len(each.fact.path) > 1 else None
        if this is not None and this == last:
            groups[-1].append(each)
        else:
            groups.append([each])
        last = this
    return [part for group in groups for part in ([group] if len(group) > 2 else [[each] for each in group])]


def _block_of(diff: Diff, group: list[Change], below: dict[str, list[Change]]) -> Block:
    first = group[0]
    if len(group) > 1:
        return Block(title=dotted(first.fact.path[:-1]), changes=tuple(group))
    following = tuple(_following(first.fact.key, below, 0))
    has_template = any(each.fact.path == _TEMPLATE for each in (first, *(change for _, change in following)))
    lines: list[tuple[str, str]] = []
    if has_template and diff.template_before is not None and diff.template_after is not None:
        from lockllm.output.template_diff import template_diff

        lines = template_diff(diff.template_before, diff.template_after)
    return Block(title=first.fact.key, changes=(first,), following=following, template=tuple(lines))


def _rank(block: Block) -> int:
    path = block.changes[0].fact.path
    if block.template or path[0] == "chat_template":
        return 0
    return 1 if path == ("engine", "version") else 2
