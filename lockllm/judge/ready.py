"""A lock made ready to be judged against one host after another: what depends on no host is worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.documents.terms import Waiver, globbed
from lockllm.facts import keys, registry
from lockllm.facts.checkpoint import FILES
from lockllm.facts.fact import Fact, Family, Path, Policy
from lockllm.facts.keys import Glob
from lockllm.facts.observation import ABSENT
from lockllm.facts.types import FILE
from lockllm.judge import fingerprint
from lockllm.judge.policy import Policies

_PLAIN = (str, int, bool, float)


class Expected(msgspec.Struct, frozen=True):
    """What a lock says of one fact. `value` is parsed, or ABSENT; `plain` ones that are equal are the same by every type."""

    fact: Fact[Any]
    value: Any
    dumped: Any
    policy: Policy
    plain: bool


class Ready:
    """One lock, ready: `expected` holds every verified fact in registry order."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock
        self.policies = Policies(lock.policy, lock.edition)
        self.all = {**lock.values, **dict.fromkeys(lock.absent, ABSENT)}
        ordered = [registry.find(path) for path in lock.order]
        self._open = keys.file_globs(lock.env_open)
        self.expected = {
            fact.path: self.expect(fact) for fact in ordered if fact.verified and not self._is_open(fact.path)
        }
        self.closed = self._closed()
        self.idle = self._idle()
        self.unpinned = {keys.dotted(path): reason for path, reason in lock.unpinned.items()}
        self.engine = " ".join(str(lock.get(key)) for key in ("engine.name", "engine.version") if lock.get(key))
        self.parts = fingerprint.parts_of_lock(lock)
        self.fingerprint = fingerprint.joined(self.parts)
        self._waivers = globbed(lock.waive)
        self._waivers_of: dict[str, list[tuple[Glob, Waiver]]] = {}

    def expect(self, fact: Fact[Any]) -> Expected:
        """What the lock says of a fact; ABSENT for one that it does not hold."""
        value = self.all.get(fact.path, ABSENT)
        plain = value.__class__ in _PLAIN or (fact.type is FILE and value.__class__ is dict)
        return Expected(fact, value, registry.dump(fact, value), self.policies.of(fact), plain)

    def waivers(self, fact: Fact[Any]) -> Iterable[Waiver]:
        """The waivers that name a fact, ended or not."""
        names = registry.names(fact.path)
        near = (each for group in {name[0] for name in names} for each in self._waivers_near(group))
        return (waiver for glob, waiver in near if any(map(glob.matches, names)))

    def _waivers_near(self, group: str) -> list[tuple[Glob, Waiver]]:
        if group not in self._waivers_of:
            self._waivers_of[group] = [each for each in self._waivers if each[0].enters(group)]
        return self._waivers_of[group]

    def is_extra(self, path: Path) -> bool:
        """Whether a fact that the lock does not hold is one that it denies: a member of a family that it lists whole."""
        if FILES.holds(path):
            return FILES in self.closed and self.lock.selects(path[-1])
        if self._is_open(path):
            return False
        row = registry.find(path)
        if self.lock.edition < row.since:
            return False
        if row.denied:
            return any(each[0] == row.group for each in self.all)
        return any(registry.family(each) in self.closed for each in registry.names(path))

    def _is_open(self, path: Path) -> bool:
        """Whether it is a variable that the spec lets differ."""
        return path[0] == "env" and len(path) == 2 and self._open.match(path[1]) is not None

    def _closed(self) -> tuple[Family[Any], ...]:
        left_open = (
            self.lock.unpinned if self.lock.edition > 1 else ()
        )  # a setting left open is one of a family looked at
        above = {path[:length] for path in (*self.all, *left_open) for length in range(1, len(path) + 1)}
        return tuple(each for each in registry.FAMILIES if each.closed and (each.closed_by or each.path) in above)

    def _idle(self) -> tuple[str, ...]:
        facts = tuple(registry.find(path) for path in {*self.all, *self.lock.unpinned})
        idle = (
            f"policy {glob!r} matches no locked fact"
            for glob in self.policies.idle(facts)
            if not glob.startswith("check.") and not self._is_default(glob)
        )
        guarded = (
            f"policy {glob!r} does not reach {', '.join(sorted(groups))}: ignore and report need a line for each fact there"
            for glob, groups in self.policies.unreached(facts)
        )
        return (*idle, *guarded)

    def _is_default(self, glob: str) -> bool:
        return Glob(glob).exact and registry.row_of(glob).policy is self.lock.policy[glob]


def of(lock: Lock) -> Ready:
    """The lock made ready. A lock that was judged lately is not worked out again."""
    return _ready(_Itself(lock))


class _Itself:
    """A lock as a key: by identity, since locks are not hashable and never change."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock

    def __hash__(self) -> int:
        return id(self.lock)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.lock is self.lock


@lru_cache(maxsize=16)
def _ready(key: _Itself) -> Ready:
    return Ready(key.lock)
