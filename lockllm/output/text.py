"""Records as text: the verdict, then each difference under its cause, then a line for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockllm.facts.check import effect as check_effect
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import dump
from lockllm.judge.report import Diff, Report, Result, Status
from lockllm.output import changes
from lockllm.output.changes import KINDS
from lockllm.output.escape import visible
from lockllm.output.layout import Page, columns
from lockllm.output.order import by_group, facts, folded, is_digest, nothing_checked, split, tally, unanswered
from lockllm.output.values import show, show_pair

_STYLE = {"match": "good", "mismatch": "bad", "unknown": "unsure"}
_FEW = 6
"""With at most so many facts of one reason their names come first, else the reason."""
_EVIDENCE = {"cached": "digest from the cache", "claimed": "digest claimed, not computed"}


def report(
    report: Report,
    *,
    color: bool = False,
    width: int = 80,
    full: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> str:
    """A report for a terminal or a log. `full`: whole digests and values. `quiet`: nothing if everything matches."""
    if quiet and report.status == "match" and report.gate == "enforce":
        return ""
    page = Page(width, color)
    writer = _Writer(page, report, full)
    writer.verdict()
    writer.differences()
    writer.unknowns()
    writer.findings()
    page.blank()
    if not quiet:
        writer.rest(verbose)
    writer.last_line()
    return page.text()


def diff(
    diff: Diff, *, color: bool = False, width: int = 80, full: bool = False, quiet: bool = False, verbose: bool = False
) -> str:
    """The differences between two locks, for a terminal or a log."""
    return changes.text(diff, Page(width, color), full=full or verbose, quiet=quiet)


def inspection(
    facts: Sequence[Reading],
    checks: Sequence[Check] = (),
    unobserved: Sequence[Unobserved] = (),
    *,
    subject: str = "",
    color: bool = False,
    width: int = 80,
    full: bool = False,
    verbose: bool = False,
) -> str:
    """The facts and findings of one checkpoint, command line, or log."""
    from lockllm.output import inspected

    return inspected.text(facts, checks, unobserved, Page(width, color), subject=subject, full=full, verbose=verbose)


class _Writer:
    """Writes one report to a page."""

    def __init__(self, page: Page, report: Report, full: bool) -> None:
        self.page = page
        self.report = report
        self.full = full
        self.differing = [each for each in report.results if each.status is Status.MISMATCH]
        self.unseen = [each for each in report.results if each.status is Status.UNKNOWN]
        self.failed = [check for check in report.checks if check.status is CheckStatus.FAIL]
        self.causes, self.followers = split(self.differing)

    def verdict(self) -> None:
        """The verdict, the lock, and the host."""
        report, page = self.report, self.page
        looked_at = visible(report.subject) or "this host"
        word = report.status.upper()
        page.head(visible(word), f"{visible(report.lock)} against {looked_at}", _STYLE.get(report.status, "strong"))
        indent = len(word) + 2
        where = [visible(part) for part in (report.engine, report.host and f"on {report.host}") if part]
        stage = f"(stage {report.stage.value}):" if where else f"stage {report.stage.value}:"
        page.line(" ".join([*where, stage, tally(report)]), indent=indent)
        if nothing := nothing_checked(report):
            page.line(nothing, indent=indent)
        blocks = _blocks([each for each in self.causes if each.blocking], self.followers)
        if len(blocks) > 3:
            names = [f"{_above(block)} ({len(block)})" if len(block) > 2 else block[0].fact.key for block in blocks]
            page.line("differs in " + columns(names[:12], more=max(0, len(names) - 12)), indent=indent)

    def differences(self) -> None:
        """Every mismatch: the cause, then its consequences. Informational ones come last."""
        number = 0
        for title, chosen in (
            ("Differences", [each for each in self.causes if each.blocking]),
            ('Differences (informational: policy is "report")', [each for each in self.causes if not each.blocking]),
        ):
            if not chosen:
                continue
            self.page.blank()
            self.page.line(title, style="bad" if title == "Differences" else "strong")
            for block in _blocks(chosen, self.followers):
                number += 1
                self.page.blank()
                if len(block) > 2:
                    self._table(block, number)
                else:
                    for each in block:
                        self._cause(each, number)

    def unknowns(self) -> None:
        """The facts that were due and not seen, grouped by reason."""
        for title, blocking in (("Not seen", True), ("Not seen (informational)", False)):
            groups: dict[tuple[str, str], list[Fact[Any]]] = {}
            for each in self.unseen:
                if each.blocking is blocking:
                    groups.setdefault((each.reason, each.fix), []).append(each.fact)
            silent = unanswered(self.report) if blocking else None
            if not groups and silent is None:
                continue
            self.page.blank()
            self.page.line(title, style="unsure" if blocking else "strong")
            if silent is not None:
                self.page.blank()
                self.page.line(visible(silent.name), indent=4, style="strong")
                self._fields((("reason", visible(silent.detail)), ("fix", visible(silent.fix))))
            for (reason, fix), unseen in groups.items():
                self._gap(unseen, reason, fix)

    def _gap(self, unseen: Sequence[Fact[Any]], reason: str, fix: str) -> None:
        """The facts of one reason. Their names come first; with many of them, the reason does."""
        self.page.blank()
        if len(unseen) <= _FEW:
            self.page.line(columns([each.key for each in unseen]), indent=4, style="strong")
            self._fields((("reason", visible(reason)), ("fix", visible(fix))))
            return
        self.page.line(visible(reason), indent=4, style="strong")
        self._fields((("facts", columns(by_group(unseen))), ("fix", visible(fix))))

    def findings(self) -> None:
        """Failed checks: contradictions of the host, independent of the lock."""
        if not self.failed:
            return
        self.page.blank()
        self.page.line("Findings on this host, independent of the lock", style="bad")
        for check in self.failed:
            self.page.blank()
            self.page.line(visible(check.name), indent=4, style="strong")
            self._fields(
                (
                    ("found", visible(check.detail)),
                    ("seen at", visible(check.source)),
                    ("effect", visible(check_effect(check.name))),
                    ("fix", visible(check.fix)),
                )
            )

    def rest(self, verbose: bool) -> None:
        """Whatever needs no action, briefly: tolerated, matching, not due, not locked."""
        from lockllm.output.rest import rest

        rest(self.page, self.report, full=self.full, verbose=verbose)

    def last_line(self) -> None:
        """How many facts are pinned, how many are not, and whether the gate is disabled."""
        report = self.report
        text = f"{facts(report.counts['pinned'])} pinned, {report.counts['unpinned']} not"
        if report.gate != "enforce":
            effect = "nothing would be refused" if report.status == "match" else "nothing is refused"
            text += f"; the gate is disabled ({visible(report.gate)}): {effect}"
        else:
            text += f"; exit {report.exit_code}"
        self.page.raw(text, style="" if report.gate == "enforce" else "unsure")

    def _cause(self, result: Result, number: int) -> None:
        page = self.page
        page.line(f"{number:>2}. {result.fact.key}", hang=4, style="strong")
        self._values(result, 4)
        self._fields(
            (
                ("seen at", self._seen_at(result)),
                ("why", visible(result.reason)),
                ("effect", _effect(result)),
                ("fix", visible(result.fix)),
            )
        )
        if result.fact.key in self.followers:
            page.line("Consequences (expected -> found)", indent=4, style="quiet")
            self._follow(result, 6)

    def _table(self, block: list[Result], number: int) -> None:
        page = self.page
        above = _above(block)
        page.line(f"{number:>2}. {above}: {len(block)} differ", hang=4, style="strong")
        source = visible(_common_source(block))
        self._fields((("seen at", source), ("effect", _effect(block[0])), ("fix", visible(block[0].fix))))
        page.line("expected -> found", indent=4, style="quiet")
        depth = len(block[0].fact.path) - 1
        page.table([(_below(each, depth), self._arrow(each)) for each in block], indent=6)

    def _values(self, result: Result, indent: int) -> None:
        room = self.page.width - indent - 10
        expected, found = show_pair(result.expected, result.found, full=self.full, limit=room)
        self.page.field("expected", expected, indent=indent)
        self.page.field("found", found, indent=indent, style="bad")
        others = {show(dump(reading.fact, reading.value), full=self.full): reading for reading in result.readings[1:]}
        others.pop(show(result.found, full=self.full), None)
        for text, reading in others.items():
            self.page.field("also", f"{text} at {visible(reading.source)}", indent=indent)

    def _follow(self, result: Result, indent: int) -> None:
        following = self.followers.pop(result.fact.key, [])
        run: list[tuple[Path, str, bool]] = []
        for each in following:
            digest = is_digest(each.expected, each.found) and each.blocking and not self.full
            run.append((each.fact.path, self._arrow(each) + ("" if each.blocking else "  (informational)"), digest))
            if each.fact.key in self.followers:
                self.page.table(folded(run), indent=indent)
                run = []
                self._follow(each, indent + 2)
        self.page.table(folded(run), indent=indent)

    def _arrow(self, result: Result) -> str:
        return " -> ".join(show_pair(result.expected, result.found, full=self.full, limit=36))

    def _seen_at(self, result: Result) -> str:
        text = visible(result.source)
        decisive = result.readings[0].evidence if result.readings else "computed"
        return f"{text} ({_EVIDENCE[decisive]})" if decisive in _EVIDENCE and text else text

    def _fields(self, fields: Sequence[tuple[str, str]]) -> None:
        for label, text in fields:
            if text:
                self.page.field(label, text, indent=4)


def _blocks(results: Sequence[Result], followers: dict[str, list[Result]]) -> list[list[Result]]:
    """Groups neighbors of one table that share effect and fix; any other result is a group of its own."""
    blocks: list[list[Result]] = []
    last: tuple[Path, str, str] | None = None
    for each in results:
        plain = (not followers or each.fact.key not in followers) and len(each.fact.path) > 1
        this = (each.fact.path[:-1], each.fact.effect, each.fix) if plain else None
        if this is not None and this == last:
            blocks[-1].append(each)
        else:
            blocks.append([each])
        last = this
    return [part for block in blocks for part in ([block] if len(block) > 2 else [[each] for each in block])]


def _above(block: Sequence[Result]) -> str:
    from lockllm.facts.keys import dotted

    return dotted(block[0].fact.path[:-1])


def _below(result: Result, depth: int) -> str:
    name = result.fact.path[depth]
    return visible(name) if name.strip() == name and name else result.fact.key


def _common_source(block: Sequence[Result]) -> str:
    """The place where all of them were seen, or the folder that contains all places."""
    sources = {each.source for each in block if each.source}
    if len(sources) < 2:
        return next(iter(sources), "")
    least, most = min(sources), max(sources)
    shared = next((at for at, char in enumerate(least) if most[at : at + 1] != char), len(least))
    return least[: least.rfind("/", 0, shared) + 1]


def _effect(result: Result) -> str:
    words = KINDS[result.fact.kind]
    return f"{words}: {visible(result.fact.effect)}" if result.fact.effect else words
