"""Where readings, gaps and findings are gathered while a host is looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from lockllm.facts.fact import Path
from lockllm.facts.observation import Absent, By, Check, Raw, Reading, Unobserved, values

_OF_SERVER = ("serve", "env", "adapters", "sampling", "draft", "kernels")
"""Groups whose families only a server shows whole."""


class Collector:
    """Readings, gaps and findings as they come in."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.unobserved: list[Unobserved] = []
        self.checks: list[Check] = []
        self.complete: set[Path] = set()
        self.warnings: list[str] = []
        self.asked: list[Reading] = []  # what was typed, as it was typed

    def add(self, items: Iterable[Reading | Unobserved | Check]) -> None:
        """Put each where it belongs."""
        for item in items:
            if isinstance(item, Reading):
                self.readings.append(item)
            elif isinstance(item, Unobserved):
                self.unobserved.append(item)
            else:
                self.checks.append(item)

    def hide(self, path: Path, reason: str, fix: str) -> None:
        """Take a fact back: what was seen of it does not hold any more."""
        self.readings = [each for each in self.readings if each.fact.path != path]
        self.unobserved = [each for each in self.unobserved if each.path != path]
        self.unobserved.append(Unobserved(path, reason, fix))

    def hide_files(self, groups: Collection[str], reason: str, fix: str) -> None:
        """Take back all that files showed of these groups, and that rules or defaults made of them."""
        kinds = (By.FILE, By.RULE, By.DEFAULT)
        taken = {each.fact.path for each in self.readings if each.fact.group in groups and each.by in kinds}
        self.readings = [each for each in self.readings if each.fact.path not in taken]
        self.unobserved = [each for each in self.unobserved if each.path not in taken]
        self.unobserved += [Unobserved(path, reason, fix) for path in sorted(taken)]

    def withhold(self, kinds: Collection[By], reason: str, fix: str) -> None:
        """Take back every fact that witnesses of these kinds show, and that a family of them was seen whole."""
        taken = {each.fact.path for each in self.readings if each.by in kinds}
        self.readings = [each for each in self.readings if each.fact.path not in taken]
        self.unobserved = [each for each in self.unobserved if each.path not in taken]
        self.unobserved += [Unobserved(path, reason, fix) for path in sorted(taken)]
        lost = {path for path in self.complete if path[0] in _OF_SERVER}
        self.complete -= lost
        self.unobserved += [Unobserved(path, reason, fix) for path in sorted(lost)]

    @property
    def values(self) -> dict[Path, Any]:
        """The value in force of each fact so far; what is absent, or of no type that its fact knows, is left out."""
        return known(self.readings)

    def gaps(self) -> tuple[Unobserved, ...]:
        """What could not be seen, the first reason of each; what was seen after all is left out."""
        held = {reading.fact.path for reading in self.readings}
        found: dict[Path, Unobserved] = {}
        for each in self.unobserved:
            if each.path not in held:
                found.setdefault(each.path, each)
        return tuple(found.values())


def known(readings: Iterable[Reading]) -> dict[Path, Any]:
    """The value in force of each fact, those left out that are absent or of no type that their fact knows."""
    return {path: value for path, value in values(readings).items() if not isinstance(value, (Absent, Raw))}
