"""Which difference explains which: the cause first, what follows from it below."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from lockllm.facts import keys
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import By
from lockllm.judge.report import Result, Status

_TYPED = (By.PROCESS, By.PLAN)
_DIFFERS = (Status.MISMATCH, Status.ALLOWED, Status.WAIVED, Status.IGNORED)
_ENGINE = ("engine", "version")
_WORD = r"[A-Za-z0-9_]+"
_WORDS = 24  # of a source, in which names are looked for
_LONGEST = 8  # words of a name that is looked for


def explain(results: Mapping[Path, Result]) -> dict[Path, Result]:
    """The same results, each mismatch with the root mismatch that it follows from, if any."""
    differing = {path: result for path, result in results.items() if result.status in _DIFFERS}
    moved = Moved(differing, lambda path: _typed(differing[path]))
    direct = {path: cause for path, result in differing.items() if (cause := _cause(result, moved)) is not None}
    explained = dict(results)
    for path, root in roots(direct).items():
        explained[path] = msgspec.structs.replace(results[path], because=keys.dotted(root))
    return explained


def roots(direct: Mapping[Path, Path]) -> dict[Path, Path]:
    """What each fact follows from in the end, where that is another one. `direct` says what it follows from directly."""
    found: dict[Path, Path] = {}
    for path in direct:
        root, seen = path, {path}
        while root in direct and direct[root] not in seen:
            root = direct[root]
            seen.add(root)
        if root != path:
            found[path] = root
    return found


class Moved:
    """Facts that differ, to be asked for the cause of one of them. What a glob hits is looked for once, not for each fact."""

    def __init__(self, paths: Iterable[Path], typed: Callable[[Path], str] = lambda path: "") -> None:
        self._ordered = tuple(paths)
        self._paths = frozenset(self._ordered)
        self._typed = typed
        self._hits: dict[str, _Hits] = {}
        self._alike: dict[str, dict[str, _Hits]] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._paths

    def base(self, fact: Fact[Any], source: str) -> Path | None:
        """What moved of that from which the fact follows."""
        return _first(fact, source, fact.follows_from, self._by)

    def cause(self, fact: Fact[Any], source: str, typed: str = "") -> Path | None:
        """What moved of that which may explain the fact; with `typed`, only what the same argument gave."""
        return _first(fact, source, fact.causes, self._given_by(typed) if typed else self._by)

    def _by(self, text: str) -> _Hits:
        if text not in self._hits:
            self._hits[text] = _Hits(filter(keys.Glob(text).matches, self._ordered))
        return self._hits[text]

    def _given_by(self, typed: str) -> Callable[[str], _Hits]:
        def by(text: str) -> _Hits:
            if text not in self._alike:
                given: dict[str, list[Path]] = {}
                for path in self._by(text).paths:
                    given.setdefault(self._typed(path), []).append(path)
                self._alike[text] = {each: _Hits(paths) for each, paths in given.items()}
            return self._alike[text].get(typed, _NOTHING)

        return by


class _Hits:
    """Facts that differ, of which one is the likeliest cause."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = tuple(paths)
        self._named: dict[str, Path] = {}

    def nearest(self, path: Path, source: str) -> Path | None:
        """The one that the source names by its last part, else the first; never the fact itself."""
        first = next((each for each in self.paths if each != path), None)
        if len(self.paths) == 1:
            return first
        if not self._named:
            self._named = {each[-1]: each for each in reversed(self.paths)}
        found = (each for name in _names(source) if (each := self._named.get(name)) is not None and each != path)
        return next(found, first)


_NOTHING = _Hits(())


def _first(fact: Fact[Any], source: str, globs: Iterable[str], by: Callable[[str], _Hits]) -> Path | None:
    for text in globs:
        if (found := by(text).nearest(fact.path, source)) is not None:
            return found
    return None


def _names(source: str) -> Iterable[str]:
    """What a source may name, the longest first: its words, and words that stand together."""
    spans = [found.span() for found in re.finditer(_WORD, source[:1000])][-_WORDS:]
    for length in range(min(_LONGEST, len(spans)), 0, -1):
        for at in range(len(spans) - length + 1):
            yield source[spans[at][0] : spans[at + length - 1][1]]


def _cause(result: Result, moved: Moved) -> Path | None:
    fact = result.fact
    base = moved.base(fact, result.source)
    if base is not None:
        return base
    typed = _typed(result)
    cause = moved.cause(fact, result.source, typed)
    if cause is not None or typed:  # what was typed has no cause but what the same argument gave
        return cause
    ruled = bool(result.readings) and result.readings[0].by in (By.RULE, By.DEFAULT)
    return _ENGINE if ruled and _ENGINE in moved and fact.path != _ENGINE else None


def _typed(result: Result) -> str:
    """The argument that gave the value, where one did."""
    for reading in result.readings:  # behind those of endpoints, of which there may be several
        if reading.by in _TYPED:
            return reading.source
    return ""
