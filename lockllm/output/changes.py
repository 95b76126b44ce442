"""What moved between two locks, in order for a reviewer: the template, the engine, then the rest by its cause."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lockllm.facts.fact import Kind, Path
from lockllm.facts.keys import dotted
from lockllm.judge.report import Change, Diff
from lockllm.output.escape import readable, visible
from lockllm.output.layout import Page
from lockllm.output.template_diff import template_diff
from lockllm.output.values import show, show_pair

KINDS = {
    Kind.STEP: "step change",
    Kind.NOISE: "noise, last bits",
    Kind.FAILURE: "will not start or fit",
    Kind.IDENTITY: "moves nothing by itself",
}
"""What moves, in words."""

_MARKS = {"+": "in", "-": "out", "@": "quiet"}


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that are told together: one cause with what follows from it, or neighbours of one table."""

    title: str  # a key, or the key of the table
    changes: tuple[Change, ...]
    following: tuple[tuple[int, Change], ...] = ()  # depth below the cause, and the change
    template: tuple[tuple[str, str], ...] = ()

    @property
    def grouped(self) -> bool:
        """Whether it is several neighbours of one table."""
        return len(self.changes) > 1

    @property
    def effect(self) -> str:
        """The kind in words and what it moves."""
        first = self.changes[0]
        return f"{KINDS[first.kind]}: {first.effect}" if first.effect else KINDS[first.kind]


def blocks(diff: Diff) -> list[Block]:
    """All changes, each once: the chat template first, then the engine, then in the order of the lock."""
    causes, below = _tree(diff.changes)
    found: list[Block] = []
    for group in _neighbours(causes, below):
        first = group[0]
        found.append(
            Block(
                title=first.fact.key if len(group) == 1 else dotted(first.fact.path[:-1]),
                changes=tuple(group),
                following=tuple(_following(first.fact.key, below, 0)) if len(group) == 1 else (),
                template=_template(diff, first) if len(group) == 1 else (),
            )
        )
    return sorted(found, key=lambda block: _rank(block.changes[0].fact.path))


def followed(block: Block) -> str:
    """What the changes below a cause are called."""
    upgrade = block.changes[0].fact.path == ("engine", "version")
    return "defaults and packages that moved with it" if upgrade else "from it follow"


def value_of(change: Change, *, full: bool = False, limit: int = 36) -> tuple[str, str]:
    """Before and after in words; one side is empty where the fact was added or removed."""
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


def circular(key: str, because: dict[str, str | None]) -> bool:
    """Whether a key is, through what it follows from, its own cause."""
    seen = {key}
    at = because.get(key)
    while at is not None and at not in seen:
        seen.add(at)
        at = because.get(at)
    return at == key


def text(diff: Diff, page: Page, *, full: bool, quiet: bool) -> str:
    """The diff as text; the last line is the verdict."""
    found = blocks(diff)
    count = len(diff.changes)
    words = "nothing differs" if not count else "1 change" if count == 1 else f"{count} changes"
    causes = sum(len(block.changes) for block in found)
    if causes != count:
        words += ", from 1 cause" if causes == 1 else f", from {causes} causes"
    page.line(f"{visible(diff.before)} -> {visible(diff.after)}: {words}", style="strong")
    if not quiet:
        for block in found:
            page.blank()
            _block(page, block, full)
    page.blank()
    for warning in diff.warnings:
        page.field("warning", visible(warning))
    page.field("verdict", visible(diff.verdict), style="strong")
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
        page.raw(f"{mark} {readable(line)}", indent=6, style=_MARKS.get(mark, ""))
    if block.following:
        page.line(followed(block), indent=4, style="quiet")
        for depth, part in _runs(block.following):
            page.table([(each.fact.key, sentence(each, full=full)) for each in part], indent=6 + 2 * depth)


def _runs(following: Sequence[tuple[int, Change]]) -> list[tuple[int, list[Change]]]:
    runs: list[tuple[int, list[Change]]] = []
    for depth, change in following:
        if runs and runs[-1][0] == depth:
            runs[-1][1].append(change)
        else:
            runs.append((depth, [change]))
    return runs


def _tree(changes: Sequence[Change]) -> tuple[list[Change], dict[str, list[Change]]]:
    """Causes, and what follows from each key. A circle of causes has no cause: all in it count as causes."""
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
        this = (each.fact.path[:-1], each.effect) if each.fact.key not in below and len(each.fact.path) > 1 else None
        if this is not None and this == last:
            groups[-1].append(each)
        else:
            groups.append([each])
        last = this
    return [part for group in groups for part in ([group] if len(group) > 2 else [[each] for each in group])]


def _template(diff: Diff, change: Change) -> tuple[tuple[str, str], ...]:
    if change.fact.path != ("chat_template", "sha256") or diff.template_before is None or diff.template_after is None:
        return ()
    return tuple(template_diff(diff.template_before, diff.template_after))


def _rank(path: Path) -> int:
    return 0 if path[0] == "chat_template" else 1 if path == ("engine", "version") else 2
