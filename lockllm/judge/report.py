"""What a judgement says: one result for each locked fact, the checks, and the one exit code."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.facts.fact import Fact, Kind, Policy, Stage
from lockllm.facts.observation import Check, Reading


class Status(enum.Enum):
    """How one locked fact stands on a host."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown"  # due, and no reading
    ALLOWED = "allowed"  # differs within what the policy tolerates
    IGNORED = "ignored"  # differs under policy `ignore`: named all the same
    WAIVED = "waived"  # differs, and a waiver that has not ended names this value
    NOT_DUE = "not_due"  # only another stage can show it


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement on one fact. `expected` and `found` are dumped values; ABSENT is None and `absent_*` tells it apart."""

    fact: Fact[Any]
    status: Status
    policy: Policy
    expected: Any = None
    found: Any = None
    seen: bool = False  # whether any reading decided; `found` None with `seen` means: looked for and absent
    readings: tuple[Reading, ...] = ()
    source: str = ""  # where the deciding reading was seen, or `follows from checkpoint.files`
    because: str | None = None  # key of the mismatch that this one follows from
    reason: str = ""  # why it is unknown, not due or waived; `1 of 2 readings differ`
    fix: str = ""
    blocking: bool = False  # whether it raises the exit code


class Fingerprints(msgspec.Struct, frozen=True):
    """The short ids of what was locked and of what was seen."""

    locked: str
    observed: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A lock judged against an observation. Only `judge.verify` computes `exit_code`."""

    status: str  # match, mismatch, unknown
    exit_code: int
    stage: Stage
    lock: str  # file name, as the user gave it
    host: str = ""
    engine: str = ""  # `vllm 0.10.2`, as locked
    fingerprint: Fingerprints
    counts: Mapping[str, int]  # one for each Status value, and of the whole lock `pinned` and `unpinned`
    results: tuple[Result, ...]
    checks: tuple[Check, ...] = ()
    informational: frozenset[str] = frozenset()  # names of checks whose failure policy does not let block
    unpinned: Mapping[str, str] = {}  # key -> why the lock does not hold it
    left_open: tuple[Reading, ...] = ()  # what a witness shows of facts that the lock does not hold
    warnings: tuple[str, ...] = ()
    gate: str = "enforce"  # enforce, warn, off
    others: tuple[str, ...] = ()  # other locks that were tried: `B.lock: 3 mismatches`
    subject: str = (
        ""  # what was looked at: `server at http://127.0.0.1:8000 (pid 71)`, `this host, before a server runs`
    )


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One fact that differs between two locks."""

    fact: Fact[Any]
    before: Any = None
    after: Any = None
    change: str  # changed, added, removed, moved (a file under another name)
    kind: Kind
    effect: str
    because: str | None = None  # key of the change that this one follows from
    moved_from: str | None = None  # for `moved`: the former key


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """What moved between two locks. `verdict` is one of `judge.diff.VERDICTS`."""

    before: str  # how the two sides are called
    after: str
    verdict: str
    changes: tuple[Change, ...]
    is_new: bool = False  # there was no lock before
    is_gone: bool = False  # there is no lock after
    template_before: str | None = None  # texts of the chat template, where both can be had
    template_after: str | None = None
    warnings: tuple[str, ...] = ()
