"""Order of releases, for tables that hold version intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_PARTS = re.compile(r"v?(\d+(?:\.\d+)*)(.*)\Z", re.DOTALL)
_SUFFIX = re.compile(r"[.-]?(dev|a|b|rc|post)[.]?(\d{0,9})", re.IGNORECASE)
_RANK = {"dev": -4, "a": -3, "b": -2, "rc": -1, "post": 1}


@lru_cache(maxsize=4096)  # a table asks for the same few releases tens of thousands of times
def order(version: str) -> tuple[tuple[int, ...], int, int]:
    """A key that sorts releases: numbers first, then dev < a < b < rc < release < post. Zeros where it is none."""
    found = _PARTS.match(version.strip().partition("+")[0]) if len(version) < 200 else None
    if found is None:
        return (0,), 0, 0
    numbers = [int(part[:18]) for part in found.group(1).split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    suffix = _SUFFIX.match(found.group(2))
    if suffix is None:
        return tuple(numbers), 0, 0
    return tuple(numbers), _RANK[suffix.group(1).lower()], int(suffix.group(2) or 0)


def at_least(version: str | None, bound: str) -> bool:
    """Whether a known version is that one or newer; false where it is not known."""
    return version is not None and order(version) >= order(bound)


def below(version: str | None, bound: str) -> bool:
    """Whether a known version is older; false where it is not known."""
    return version is not None and order(version) < order(bound)


def beyond(version: str | None, newest: str) -> bool:
    """Whether a version is newer than the newest one read (its post-releases are not): then rules are not applied."""
    return version is not None and order(version)[0] > order(newest)[0]


def spans(first: str, last: str, version: str, read: Sequence[str]) -> bool:
    """Whether something seen in releases FIRST to LAST (empty: still there) may be in `version`.

    Between two releases that were read either may hold, so what one of them has is taken as there.
    """
    key = order(version)
    earlier = [each for each in read if order(each) < order(first)]
    if key < order(first) and not (earlier and key > order(earlier[-1])):
        return False
    if not last:
        return True
    later = [each for each in read if order(each) > order(last)]
    return key <= order(last) or bool(later and key < order(later[0]))
