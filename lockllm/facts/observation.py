"""What was seen on a host: readings with their witness, what could not be seen, and findings."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lockllm.facts.fact import Fact, Path, Stage


class By(enum.IntEnum):
    """The witness of a reading, best first: lower ranks decide."""

    LIBRARY = 0  # mapped into the process
    WORKER = 1  # a worker's own argv or environment
    ENDPOINT = 2  # the server said so over HTTP
    PROCESS = 3  # command line, environment or config file of the running process
    PLAN = 4  # a command line that is not started yet
    LOG = 5  # the start log
    PACKAGE = 6  # metadata of the serving environment
    FILE = 7  # a file on disk
    RULE = 8  # the engine's own rule for that version, applied to other facts
    DEFAULT = 9  # the engine's default for that version

    @property
    def word(self) -> str:
        """As documents spell it."""
        return self.name.lower()


class Absent(enum.Enum):
    """The one value of what was looked for and is not there."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


TYPED_WHOLE: Path = ("serve", "speculative")
"""In `complete` where a command line was read whole: what is not in `asked` was not typed."""
NOT_GIVEN = "not given"
"""What `[asked]` of a lock holds for a value that only a running server showed, and nobody typed."""
HASHED = ", hashed "
"""What stands in the source of a cached digest, before the time at which it was computed (RFC 3339)."""


class Raw(msgspec.Struct, frozen=True):
    """A value that its fact's type cannot parse: kept as it stands, compared by plain equality."""

    value: Any


class Reading(msgspec.Struct, frozen=True):
    """One witness's word on one fact. `source` is what a person would open: `GET /version`, `pid 71 argument --dtype`."""

    fact: Fact[Any]
    value: Any  # parsed by the fact's type, or ABSENT, or Raw
    source: str
    by: By
    evidence: str = "computed"  # for digests: computed, cached (computed earlier), claimed (a name or sidecar says so)

    @property
    def hashed_at(self) -> str:
        """When a cached digest was computed, as its source says; empty where it does not."""
        return self.source.rpartition(HASHED)[2] if self.evidence == "cached" and HASHED in self.source else ""


class Unobserved(msgspec.Struct, frozen=True):
    """A fact, or everything below a path, that could not be seen: why, and what would show it.

    `due` LIVE says that only a running server can show it: in stage preflight it is not due. ALL says that only a full look
    can, files and GPUs beside the running server: in stage live it is not due either.
    """

    path: Path
    reason: str
    fix: str = ""
    due: Stage = Stage.PREFLIGHT


class CheckStatus(enum.Enum):
    """Outcome of a finding."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Check(msgspec.Struct, frozen=True):
    """One finding that needs no lock. `name` is a `check.*` row of the registry."""

    name: str
    status: CheckStatus
    detail: str
    source: str = ""
    fix: str = ""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one look at one host gave."""

    readings: tuple[Reading, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    checks: tuple[Check, ...] = ()
    complete: frozenset[Path] = frozenset()  # families seen whole: no reading means absent
    stage: Stage = Stage.ALL
    observed_at: str = ""  # RFC 3339, UTC
    host: str = ""
    warnings: tuple[str, ...] = ()
    asked: tuple[Reading, ...] = ()  # what was typed, as it was typed: arguments, config files, variables

    def by_path(self) -> Mapping[Path, tuple[Reading, ...]]:
        """The readings of each fact, best witness first, in the order they were given within one rank."""
        grouped: dict[Path, list[Reading]] = {}
        for reading in self.readings:
            grouped.setdefault(reading.fact.path, []).append(reading)
        return {
            path: tuple(found if len(found) == 1 else sorted(found, key=lambda reading: reading.by))
            for path, found in grouped.items()
        }


def values(readings: Iterable[Reading]) -> dict[Path, Any]:
    """The value in force of each fact: the best witness's, first given within a rank. ABSENT is kept."""
    best: dict[Path, Reading] = {}
    for reading in readings:
        held = best.get(reading.fact.path)
        if held is None or reading.by < held.by:
            best[reading.fact.path] = reading
    return {path: reading.value for path, reading in best.items()}
