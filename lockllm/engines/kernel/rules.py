"""What a setting comes to where nobody types it: one row a release interval, read once for everything that tells a default.

From the same rows come the readings of a host (`effective`), the values that mean the same as leaving an option out
(`omitted`) and the words of `explain` and docs/engines.md (`default_text`), so that none can contradict another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from lockllm.engines.kernel.omitted import version as release_of
from lockllm.engines.kernel.releases import at_least, below, beyond
from lockllm.engines.protocol import Context, Given
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import ABSENT, By, Raw, Reading, Unobserved
from lockllm.facts.registry import seen

NOTHING: Any = ...
"""No constant: the row works its value out."""
Told = Reading | Unobserved


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a row may look at. `held` has what is given, and what the rows before this one told."""

    version: str
    label: str
    held: dict[Path, Any]
    given: Given | None
    context: Context

    def get(self, key: str) -> Any:
        """A fact as it is given or told, else as checkpoint or host have it; None where nothing of it is known."""
        path = parse(key)
        for values in (self.held, self.context.checkpoint, self.context.host):
            value = values.get(path)
            if value is not None and value is not ABSENT and not isinstance(value, Raw):
                return value
        return None

    def told(self, key: str, value: Any, why: str) -> Reading:
        """A value that a rule of the release gives."""
        return seen(parse(key), value, f"{self.label} {self.version}: {why}", By.RULE)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One fact from one release on: a constant of the source, or what works it out."""

    fact: str
    value: Any = NOTHING
    work: Callable[[Case], Told | None] | None = None
    says: str = ""  # what `explain` says in place of the constant, and of what is worked out
    since: str = ""  # the first release of it
    before: str = ""  # the first release without it
    source: str = ""  # the file that it was read from, and what else a reading should say
    over_given: bool = False  # it holds whatever is given: no option reaches it
    only_omitted: bool = False  # a kept option: its constant is told only where it is typed

    def holds(self, version: str) -> bool:
        """Whether that release has it."""
        return (not self.since or at_least(version, self.since)) and (not self.before or below(version, self.before))


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one engine, and the releases that they were read for."""

    label: str
    oldest: str
    newest: str
    rows: tuple[Rule, ...]
    fix: str = "observe the running server, or use a newer lockllm"
    name_it: str = "name the release"  # the fix where none is known
    unversioned: bool = False  # where no release is known its rows hold too: they are alike in all that were read

    def unread(self, version: str | None) -> str:
        """Why no row of a release is known; empty where they are."""
        if version is None:
            return "" if self.unversioned else f"the release of {self.label} is not known"
        if beyond(version, self.newest) or below(version, self.oldest):
            return f"the rules of {self.label} {version} were not read ({self.oldest} to {self.newest} were)"
        return ""

    def effective(self, given: Given | None, context: Context) -> Iterator[Told]:
        """Defaults and rules over what was given; past the releases that were read nothing but that is said."""
        reason = self.unread(context.version)
        if reason:
            fix = self.fix if context.version is not None else self.name_it
            yield from (Unobserved((group,), reason, fix) for group in ("serve", "sampling"))
            return
        held: dict[Path, Any] = {each.fact.path: each.value for each in (given.readings if given else ())}
        held |= {each.fact.path: each.path for each in (given.paths if given else ())}
        version = context.version or self.newest
        case = Case(version=version, label=self.label, held=held, given=given, context=context)
        for row in self.rows:
            path = parse(row.fact)
            if row.only_omitted or not row.holds(version) or (path in held and not row.over_given):
                continue
            if row.work is None and row.value is NOTHING:
                continue
            told = row.work(case) if row.work is not None else self._constant(row, context.version)
            if isinstance(told, Reading):
                held.setdefault(path, told.value)
            if told is not None:
                yield told

    def omitted(self, path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
        """The constants that mean the same as leaving a setting out, in the release that is known."""
        version = release_of(known)
        if not version or beyond(version, self.newest) or below(version, self.oldest):
            return ()
        rows = (row for row in self.rows if row.value is not NOTHING and row.value is not None and row.holds(version))
        return tuple(row.value for row in rows if parse(row.fact) == path)

    def default_text(self, key: str) -> str:
        """For `explain`: what the rows of a fact come to, the oldest release first."""
        rows = [row for row in self.rows if row.fact == key and not row.only_omitted]
        return "; ".join(
            _said(row) + (f" since {row.since}" if row.since and at else "") for at, row in enumerate(rows)
        )

    def _constant(self, row: Rule, version: str | None) -> Reading:
        source = f"default of {self.label}{f' {version}' if version else ''}{f': {row.source}' if row.source else ''}"
        return seen(parse(row.fact), row.value, source, By.DEFAULT)


def constants(values: Mapping[str, Any], **named: Any) -> tuple[Rule, ...]:
    """A row for each fact that is a constant."""
    return tuple(Rule(fact=fact, value=value, **named) for fact, value in values.items())


def kept(values: Mapping[str, Any], **named: Any) -> tuple[Rule, ...]:
    """A row for each kept option (by its name, dots for what is inside) whose default is a constant."""
    return constants({f"serve.args.{name}": value for name, value in values.items()}, only_omitted=True, **named)


def _said(row: Rule) -> str:
    if row.says or row.value is NOTHING:
        return row.says
    return "none" if row.value is None else str(row.value).lower() if isinstance(row.value, bool) else str(row.value)
