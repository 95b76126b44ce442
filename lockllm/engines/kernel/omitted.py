"""What an option is where it is left out, by release: an option typed with that value is no difference from one left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lockllm.engines.kernel.releases import beyond, order
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, Raw

Steps = tuple[tuple[str, Any], ...]
"""First release and default; `...`: no constant from there on."""
NOT_KNOWN = ...


def at(steps: Steps, version: str, read: Sequence[str]) -> Any:
    """The default of a release; NOT_KNOWN past the newest one read, and between two that differ."""
    if beyond(version, read[-1]):
        return NOT_KNOWN
    numbers = order(version)[0]
    held = [value for first, value in steps if order(first)[0] <= numbers]
    if not held:
        return NOT_KNOWN
    if all(order(each)[0] != numbers for each in read):
        later = next(each for each in (*read, version) if order(each)[0] >= numbers)
        after = [value for first, value in steps if order(first)[0] <= order(later)[0]]
        return held[-1] if repr(after[-1]) == repr(held[-1]) else NOT_KNOWN
    return held[-1]


def option(path: Path) -> str:
    """How a table names what a kept option holds: `hf_overrides`, `compilation_config.mode`."""
    return ".".join(path[2:])


def version(known: Mapping[Path, Any]) -> str:
    """The release among known facts; empty where it is not known."""
    return text(known, "engine", "version")


def text(known: Mapping[Path, Any], *path: str) -> str:
    """A fact as text; empty where it is not known, absent or of no value that its type can read."""
    value = known.get(path)
    return "" if value is None or value is ABSENT or isinstance(value, Raw) else str(value)


def plain(
    table: Mapping[str, Any], facts: Mapping[Path, Any], first: str, newest: str, path: Path, known: Mapping[Path, Any]
) -> tuple[Any, ...]:
    """`omitted` of an engine whose defaults are those of a few releases: FIRST to NEWEST."""
    release = version(known)
    if not release or beyond(release, newest) or order(release) < order(first):
        return ()
    if path in facts:
        return (facts[path],)
    name = option(path)
    return (table[name],) if path[:2] == ("serve", "args") and name in table else ()
