"""Which policy holds for a fact: the lock's own line for it, else its most precise glob, else exact."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lockllm.documents.lock import EDITION
from lockllm.facts import registry
from lockllm.facts.fact import Fact, Path, Policy
from lockllm.facts.keys import Glob

GUARDED = frozenset(name for name, group in registry.GROUP.items() if group.guarded)
"""The groups in which a glob weakens nothing."""
_OPERATORS = "<>=!~ "
_EQUAL = "= "
_GUARDED = {Policy.IGNORE: GUARDED, Policy.REPORT: GUARDED}
_GUARDED_AT_FIRST = {Policy.IGNORE: frozenset({"checkpoint", "chat_template"})}  # locks of edition 1


class Policies:
    """The `[policy]` table of a lock, ready to be asked."""

    def __init__(self, table: Mapping[str, Policy], edition: int = EDITION) -> None:
        self._guarded = _GUARDED if edition > 1 else _GUARDED_AT_FIRST
        globs = sorted(
            ((Glob(text), policy) for text, policy in table.items()), key=lambda each: each[0].weight, reverse=True
        )
        self._globs = tuple(globs)
        self._of_group: dict[str, tuple[tuple[Glob, Policy], ...]] = {}

    def _near(self, group: str) -> tuple[tuple[Glob, Policy], ...]:
        """The globs that may hit a fact of that group, most precise first."""
        if group not in self._of_group:
            self._of_group[group] = tuple(each for each in self._globs if each[0].enters(group))
        return self._of_group[group]

    def of(self, fact: Fact[Any]) -> Policy:
        """The policy of one fact. `ignore` and `report` reach a guarded group by a line of its own alone."""
        lines = [line for name in registry.names(fact.path) if (line := self._line(name)) is not None]
        return max(lines, key=lambda line: (line[0].exact, line[0].weight))[1] if lines else Policy.EXACT

    def _line(self, path: Path) -> tuple[Glob, Policy] | None:
        """The most precise line that reaches a path."""
        near = self._near(path[0])
        return next((line for line in near if line[0].matches(path) and self._reaches(*line, path)), None)

    def _reaches(self, glob: Glob, policy: Policy, path: Path) -> bool:
        return path[0] not in self._guarded.get(policy, ()) or (glob.exact and glob.weight[1] == len(path))

    def unreached(self, facts: tuple[Fact[Any], ...]) -> list[tuple[str, frozenset[str]]]:
        """The globs that match facts of guarded groups, and those groups: they do not reach them."""
        missed = (
            (
                glob.text,
                frozenset(
                    path[0]
                    for fact in facts
                    for path in registry.names(fact.path)
                    if glob.matches(path) and not self._reaches(glob, policy, path)
                ),
            )
            for glob, policy in self._globs
            if policy in self._guarded
        )
        return [(text, groups) for text, groups in missed if groups]

    def idle(self, facts: tuple[Fact[Any], ...]) -> list[str]:
        """The globs that hit none of these facts."""
        grouped: dict[str, list[Path]] = {}
        for path in (path for fact in facts for path in registry.names(fact.path)):
            grouped.setdefault(path[0], []).append(path)

        def hits(glob: Glob) -> bool:
            near = (paths for group, paths in grouped.items() if glob.enters(group))
            return any(glob.matches(path) for paths in near for path in paths)

        return [glob.text for glob, _ in self._globs if not hits(glob)]


@lru_cache(maxsize=4096)
def compile_globs(texts: tuple[str, ...]) -> tuple[Glob, ...]:
    """Globs of the command line. Raises ValueError for text that is none."""
    return tuple(Glob(text) for text in texts)


def inside(specifier: str, version: str) -> bool:
    """Whether a version lies in a PEP 440 range, or in one of an engine's own scheme (`>=b6000`)."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    def plain(text: str) -> str:
        return text.replace("b", "") if _build(text.strip(_OPERATORS)) else text

    try:
        parts = ",".join(
            plain(part.strip()) if part.strip()[:1] in _OPERATORS else f"=={plain(part.strip())}"
            for part in specifier.split(",")
        )
        return SpecifierSet(parts).contains(Version(plain(version.strip())), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return specifier.strip(_EQUAL) == version


def _build(text: str) -> bool:
    return text.startswith("b") and text[1:].isdigit()
