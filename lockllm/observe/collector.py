"""Collects readings, gaps, and findings during a check of a host."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from lockllm.facts.fact import Path
from lockllm.facts.observation import Absent, By, Check, Raw, Reading, Unobserved, values

_OF_SERVER = ("serve", "env", "adapters", "sampling", "draft", "kernels")
"""Groups whose families only a server shows whole."""


class Collector:
    """The readings, gaps, and findings so far."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.unobserved: list[Unobserved] = []
        self.checks: list[Check] = []
        self.complete: set[Path] = set()
        self.warnings: list[str] = []
        self.asked: list[Reading] = []  # what was typed, as it was typed

    def add(self, items: Iterable[Reading | Unobserved | Check]) -> None:
        """Add each to its list."""
        for item in items:
            if isinstance(item, Reading):
                self.readings.append(item)
            elif isinstance(item, Unobserved):
                self.unobserved.append(item)
            else:
                self.checks.append(item)

    def hide(self, path: Path, reason: str, fix: str) -> None:
        """Withdraw a fact: its readings no longer hold."""
        self.readings = [each for each in self.readings if each.fact.path != path]
        self.unobserved = [each for each in self.unobserved if each.path != path]
        self.unobserved.append(Unobserved(path, reason, fix))

    def hide_files(self, groups: Collection[str], reason: str, fix: str) -> None:
        """Withdraw what files show of these groups, and what rules or defaults derived from that."""
        kinds = (By.FILE, By.RULE, By.DEFAULT)
        taken = {each.fact.path for each in self.readings if each.fact.group in groups and each.by in kinds}
        self.readings = [each for each in self.readings if each.fact.path not in taken]
        self.unobserved = [each for each in self.unobserved if each.path not in taken]
        self.unobserved += [Unobserved(path, reason, fix) for path in sorted(taken)]

    def withhold(self, kinds: Collection[By], reason: str, fix: str) -> None:
        """Withdraw every fact shown by sources of these kinds, and the completeness of their families."""
        taken = {each.fact.path for each in self.readings if each.by in kinds}
        self.readings = [each for each in self.readings if each.fact.path not in taken]
        self.unobserved = [each for each in self.unobserved if each.path not in taken]
        self.unobserved += [Unobserved(path, reason, fix) for path in sorted(taken)]
        lost = {path for path in self.complete if path[0] in _OF_SERVER}
        self.complete -= lost
        self.unobserved += [Unobserved(path, reason, fix) for path in sorted(lost)]

    @property
    def values(self) -> dict[Path, Any]:
        """The value in force of each fact so far; absent values and values of an unknown type are left out."""
        return known(self.readings)

    def gaps(self) -> tuple[Unobserved, ...]:
        """What could not be seen, with the first reason for each; facts with a reading are left out."""
        held = {reading.fact.path for reading in self.readings}
        found: dict[Path, Unobserved] = {}
        for each in self.unobserved:
            if each.path not in held:
                found.setdefault(each.path, each)
        return tuple(found.values())


def known(readings: Iterable[Reading]) -> dict[Path, Any]:
    """The value in force of each fact; absent values and values of an unknown type are left out."""
    return {path: value for path, value in values(readings).items() if not isinstance(value, (Absent, Raw))}
