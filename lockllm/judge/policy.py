"""Which policy holds for a fact: the lock's own line for it, else its most precise glob, else exact."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lockllm.documents.lock import EDITION
from lockllm.facts import registry
from lockllm.facts.fact import Fact, Policy
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
        for glob, policy in self._near(fact.path[0]):
            if glob.matches(fact.path) and self._reaches(glob, policy, fact):
                return policy
        return Policy.EXACT

    def _reaches(self, glob: Glob, policy: Policy, fact: Fact[Any]) -> bool:
        return fact.group not in self._guarded.get(policy, ()) or _own_line(glob.text, fact)

    def unreached(self, facts: tuple[Fact[Any], ...]) -> list[tuple[str, frozenset[str]]]:
        """The globs that match facts of guarded groups, and those groups: they do not reach them."""
        missed = (
            (
                glob.text,
                frozenset(
                    fact.group for fact in facts if glob.matches(fact.path) and not self._reaches(glob, policy, fact)
                ),
            )
            for glob, policy in self._globs
            if policy in self._guarded
        )
        return [(text, groups) for text, groups in missed if groups]

    def idle(self, facts: tuple[Fact[Any], ...]) -> list[str]:
        """The globs that hit none of these facts."""
        grouped: dict[str, list[Fact[Any]]] = {}
        for fact in facts:
            grouped.setdefault(fact.path[0], []).append(fact)

        def hits(glob: Glob) -> bool:
            near = (held for group, held in grouped.items() if glob.enters(group))
            return any(glob.matches(fact.path) for held in near for fact in held)

        return [glob.text for glob, _ in self._globs if not hits(glob)]


@lru_cache(maxsize=4096)
def compile_globs(texts: tuple[str, ...]) -> tuple[Glob, ...]:
    """Globs of the command line. Raises ValueError for text that is none."""
    return tuple(Glob(text) for text in texts)


def _own_line(text: str, fact: Fact[Any]) -> bool:
    glob = Glob(text)
    return glob.exact and glob.weight[1] == len(fact.path)


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
