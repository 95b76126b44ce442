"""What a fact is: one row of the registry, and the families whose members are not known in advance."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from lockllm.facts.keys import dotted

T = TypeVar("T")

Path = tuple[str, ...]
"""The place of a fact in the lock. File names hold dots, so a tuple and not a string."""


class Kind(enum.Enum):
    """What moves when a fact moves."""

    STEP = "step"  # a consistent change of behaviour
    NOISE = "noise"  # last bits: near ties flip, quality stays
    FAILURE = "failure"  # will not start, or will not fit
    IDENTITY = "identity"  # says who, moves nothing by itself
    RULES = "rules"  # no fact of the system: how a host is judged


class Policy(enum.Enum):
    """How a difference is judged (see `judge.verify`)."""

    EXACT = "exact"
    COMPATIBLE = "compatible"
    REPORT = "report"
    IGNORE = "ignore"


class Stage(enum.Enum):
    """When a host is looked at."""

    PREFLIGHT = "preflight"  # files, packages, GPUs and a planned command
    LIVE = "live"  # a running server's process, libraries, HTTP and log
    ALL = "all"  # both


class ValueType(msgspec.Struct, Generic[T], frozen=True, eq=False, kw_only=True):
    """How one kind of value is read, written and compared."""

    name: str
    parse: Callable[[object], T]  # raises ValueError saying what was expected: "a whole number"
    dump: Callable[[T], Any]  # to what TOML and JSON can hold
    same: Callable[[T, T], bool]
    schema: dict[str, Any]  # JSON Schema of the dumped value
    compatible: Callable[[T, T], bool] | None = None  # locked, found -> tolerable; None: the policy is not legal
    why_compatible: str = ""  # what `compatible` tolerates, for `explain`


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A top-level table of the lock."""

    name: str
    about: str
    via: bool = True  # whether a line ends in `# via SOURCE`; false where the group says it already
    guarded: bool = False  # `ignore` and `report` on it need a line for each fact: a glob does not reach it
    waits: bool = False  # whether only a running server may show a fact of it: an observation may say so


class Fact(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """One fact: its place, its type, what it moves and how it is fixed."""

    path: Path
    type: ValueType[T]
    kind: Kind
    effect: str  # one clause, likely, no full stop
    fix: str  # the usual way back, an imperative clause
    about: str = ""  # one sentence for `explain`
    policy: Policy = Policy.EXACT  # the default; `lock` writes every other one
    why: str = ""  # why the default policy is what it is, a clause; empty: what its kind says
    follows_from: tuple[
        str, ...
    ] = ()  # keys: matches, unseen, where all of these are computed matches; groups the report
    unless: str = (
        ""  # key: where that one is held or seen, this follows from nothing (the files are of another repository)
    )
    denied: bool = False  # a lock that holds other facts of its group and not this one denies it
    causes: tuple[
        str, ...
    ] = ()  # globs: a mismatch of one of these explains a mismatch of this one; proves nothing unseen
    stale_with: tuple[str, ...] = ()  # keys: a kept pin is dropped when one of these moves
    due: Stage = Stage.PREFLIGHT  # the first stage at which it can be seen
    live: bool = True  # also seen at stage live; false: only where files are hashed or GPUs are asked
    on_request: bool = False  # locked only where the spec names it or `--pin` takes it
    verified: bool = True  # false: recorded and diffed, never verified (a branch name)
    lockable: bool = True  # false: observed only, never locked (per node, serial numbers)
    settable: bool = True  # whether llm.toml may name it
    part: str = ""  # the part of the fingerprint that it belongs to
    firm: str = ""  # key of a firmer fact: where that one matches, policy `compatible` allows a difference here
    known: bool = True  # false: a fact of another release, made up by `registry.find`
    formerly: tuple[str, ...] = ()  # keys under which older locks and observations hold it; read as this one for ever
    since: int = 1  # the edition of lockllm's rules that brought the row; older locks do not deny what it names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def group(self) -> str:
        """The lock table that holds it."""
        return self.path[0]

    @property
    def key(self) -> str:
        """Its one spelling: a TOML dotted key."""
        return dotted(self.path)


class Family(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """Facts of one kind whose names the world chooses: files, packages, variables, kept flags."""

    row: Fact[T]  # what every member shares; its path is the family's
    closed: bool = False  # all members are listed: one that the lock lacks is a mismatch, expected absent
    closed_by: Path = ()  # closed in locks that hold anything below this; empty: that hold a member
    depth: int = 1  # how many segments a member adds; 0: one or more
    given: bool = False  # a member is named only where the host has it: one that cannot be read is not absent
    detail: Callable[[Fact[T]], Fact[T]] | None = None  # a member's own kind and effect, where they are known

    @property
    def path(self) -> Path:
        """Where the members stand."""
        return self.row.path

    def of(self, *names: str) -> Fact[T]:
        """The member of that name."""
        row = msgspec.structs.replace(self.row, path=(*self.path, *names))
        return self.detail(row) if self.detail is not None else row

    def holds(self, path: Path) -> bool:
        """Whether a path is that of a member."""
        base = self.row.path
        extra = len(path) - len(base)
        return (extra == self.depth if self.depth else extra >= 1) and path[: len(base)] == base
