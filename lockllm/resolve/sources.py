"""What a lock is filled from, and which of several witnesses has the word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.engines import Installed
from lockllm.facts.fact import Path
from lockllm.facts.keys import Glob
from lockllm.facts.observation import By, Observation, Reading, Unobserved
from lockllm.resolve.disagreements import Disagreement


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What the world gave for one lock. None: that source was not asked or has nothing."""

    version: str  # of the engine, already resolved
    version_via: str = ""
    files: tuple[Reading, ...] | None = None  # of the checkpoint, its template and probes; None: kept from the old lock
    environment: tuple[Reading, ...] | None = None  # of the serving interpreter, where it has that engine version
    host: tuple[Reading, ...] | None = None  # of this machine, where it is the serving host
    observation: Observation | None = None
    required: tuple[Reading, ...] = ()  # the wheel's own `==` requirements
    unobserved: tuple[Unobserved, ...] = ()
    commit: str | None = None
    commit_via: str = ""
    kept_commit: bool = False  # the commit is the old lock's: what `files` do not show of it stays
    installed: Installed | None = None  # the engine's options by its own source, where no table has its version


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `lock` that decide what is kept and taken."""

    upgrade: bool = False
    upgrade_facts: tuple[str, ...] = ()
    pin: tuple[str, ...] = ()
    accept_observed: tuple[str, ...] = ()

    def renews(self, path: Path) -> bool:
        """Whether a fact is to be resolved again, whatever the old lock holds."""
        return self.upgrade or any(Glob(text).matches(path) for text in self.upgrade_facts)


class Filled(msgspec.Struct, frozen=True):
    """The lock, and what contradicts it."""

    lock: Lock
    disagreements: tuple[Disagreement, ...] = ()
    warnings: tuple[str, ...] = ()
    to_write: Mapping[Path, Any] = {}  # what the spec has to say to keep what was taken from the host; None: nothing
    sources: Sources | None = None  # what it was filled from
    notes: tuple[str, ...] = ()  # warnings about the checkpoint's place and files


def via_of(reading: Reading) -> str:
    """How a `# via` names the witness: a file and key, `rule`, `default`; never a version, a path of one machine or a date."""
    if reading.by is By.RULE:
        return "rule"
    if reading.by is By.DEFAULT:
        return "default"
    if reading.by in (By.FILE, By.PLAN) and "/" not in reading.source and len(reading.source) <= 80:
        return reading.source
    return "" if reading.by in (By.PACKAGE, By.FILE) else "observation"


def best_readings(readings: Iterable[Reading]) -> Mapping[Path, Reading]:
    """The best witness of each fact, the first given within a rank."""
    best: dict[Path, Reading] = {}
    for reading in readings:
        held = best.get(reading.fact.path)
        if held is None or reading.by < held.by:
            best[reading.fact.path] = reading
    return best
