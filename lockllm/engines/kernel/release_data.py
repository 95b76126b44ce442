"""What each release of an engine has, from the data file that `python -m tools.refresh` writes: `releases.json` in its room.

A section maps a name to steps: `[release, value]` holds from that release on, `[release]` says that nothing holds from
there on. Words stand in one text; a text in which each word begins with `+` or `-` says what came and went.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from lockllm.engines.kernel.argparse import Take
from lockllm.engines.kernel.releases import order
from lockllm.engines.kernel.values import Kind

Steps: TypeAlias = tuple[tuple[Any, ...], ...]
NOTHING = msgspec.UNSET
"""What holds where no step does."""


class ReleaseData(msgspec.Struct, frozen=True, kw_only=True):
    """The data file of one engine."""

    releases: tuple[str, ...]  # those whose sources were read, oldest first
    options: Mapping[str, Steps] = {}  # what an option takes, then its spellings beside `--` and its name
    values: Mapping[str, Steps] = {}  # option, or path of a key inside its JSON -> the words that it takes
    keys: Mapping[str, Steps] = {}  # option, or path of an object inside its JSON -> the keys that it takes
    registered: Mapping[str, Steps] = {}  # option -> the words that are registered for it, plugins apart
    defaults: Mapping[str, Steps] = {}  # option, or path of a key -> its default, where that is a constant

    def last(self, steps: Steps) -> str:
        """The last release for which steps say something; empty: still the newest one."""
        if not steps or len(steps[-1]) > 1:
            return ""
        return self.releases[self.releases.index(steps[-1][0]) - 1]

    def neighbors(self, version: str) -> tuple[str, ...]:
        """The releases that a version may be like: itself where it was read, else those before and after it."""
        key = order(version)
        after = next((each for each in self.releases if order(each) >= key), None)
        before = next((each for each in reversed(self.releases) if order(each) <= key), None)
        return tuple(dict.fromkeys(each for each in (before, after) if each is not None))

    def has(self, path: str, release: str) -> bool:
        """Whether a release that was read has an option, or the option that a path leads into."""
        return at(self.options.get(path.partition(".")[0], ()), release) is not NOTHING


@lru_cache(maxsize=8)
def load(room: str) -> ReleaseData:
    """The data file in the room of an engine (`vllm`)."""
    raw = pkgutil.get_data("lockllm", f"engines/{room}/releases.json")
    return msgspec.json.decode(raw or b"", type=ReleaseData)


def at(steps: Steps, release: str) -> Any:
    """What holds at a release that was read."""
    key = order(release)
    holding: tuple[Any, ...] = ()
    for step in steps:
        if order(step[0]) > key:
            break
        holding = step
    return holding[1] if len(holding) > 1 else NOTHING


def words(steps: Steps, release: str) -> frozenset[str] | None:
    """The words that hold at a release that was read; None where nothing does."""
    key = order(release)
    found: set[str] | None = None
    for step in steps:
        if order(step[0]) > key:
            break
        found = after_step(found, step[1]) if len(step) > 1 else None
    return None if found is None else frozenset(found)


def after_step(before: set[str] | None, value: str | Sequence[str]) -> set[str]:
    """The words after a step."""
    if not isinstance(value, str):
        return set(value)
    each = value.split()
    if not all(word[0] in "+-" and len(word) > 1 for word in each):
        return set(each)
    return {*(before or ()), *(word[1:] for word in each if word[0] == "+")} - {
        word[1:] for word in each if word[0] == "-"
    }


def shape(word: str, named: Mapping[str, tuple[Take, Kind]]) -> tuple[Take, Kind]:
    """What an option takes, by its word in the data file: one that an engine names, else `any:int`."""
    if word in named:
        return named[word]
    take, _, kind = word.partition(":")
    return Take(take), Kind(kind)


def shape_word(take: Take, kind: Kind, named: Mapping[str, tuple[Take, Kind]]) -> str:
    """The word for what an option takes."""
    return next((word for word, held in named.items() if held == (take, kind)), f"{take.value}:{kind.value}")
