"""What one release of an engine has, as its package tells it, and how a data file takes it in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lockllm.engines.kernel.release_data import NOTHING, ReleaseData, at, words
from lockllm.engines.kernel.releases import order

LISTS = ("values", "keys", "registered")
"""Sections of words; all others hold one value a name."""
SECTIONS = ("options", *LISTS, "defaults")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One release, in the sections of the data file."""

    release: str
    options: Mapping[str, str]
    values: Mapping[str, frozenset[str]] = {}
    keys: Mapping[str, frozenset[str]] = {}
    registered: Mapping[str, frozenset[str]] = {}
    defaults: Mapping[str, Any] = {}
    variables: frozenset[str] = frozenset()  # those that its own table of variables holds
    rules: Mapping[str, str] = {}  # rule -> digest of the function that it was read from; empty: the function is gone
    unread: frozenset[str] = frozenset()  # options whose list of words only a run tells: what was known of them stays
    doubts: tuple[str, ...] = ()  # reasons for which the release may have more than was found

    def section(self, name: str) -> Mapping[str, Any]:
        """What one section of the data file is to hold for this release."""
        held: Mapping[str, Any] = getattr(self, name)
        return held


def merge(data: ReleaseData, told: Snapshot) -> ReleaseData:
    """The data with what a release has; a release that was there already is read anew."""
    releases = tuple(sorted({*data.releases, told.release}, key=order))
    sections: dict[str, Any] = {}
    for name in SECTIONS:
        before = getattr(data, name)
        rows = {}
        for path in sorted({*before, *told.section(name)}):
            states = {each: _state(name, before.get(path, ()), each) for each in data.releases}
            if name != "values" or path not in told.unread:
                states[told.release] = told.section(name).get(path, NOTHING)
            elif told.release not in states:
                earlier = [each for each in data.releases if order(each) < order(told.release)]
                states[told.release] = states[earlier[-1]] if earlier else NOTHING
            rows[path] = steps(releases, states, name in LISTS)
        sections[name] = {path: row for path, row in rows.items() if row}
    return ReleaseData(releases=releases, **sections)


def _state(section: str, row: Any, release: str) -> Any:
    if section not in LISTS:
        return at(row, release)
    held = words(row, release)
    return NOTHING if held is None else held


def steps(releases: Iterable[str], states: Mapping[str, Any], are_words: bool) -> tuple[tuple[Any, ...], ...]:
    """The steps that say what each release has."""
    found: list[tuple[Any, ...]] = []
    last: Any = NOTHING
    for release in releases:
        state = states[release]
        if (state is NOTHING) is not (last is NOTHING) or repr(_comparable(state)) != repr(_comparable(last)):
            text = _words(state, last) if are_words and state is not NOTHING else state
            found.append((release,) if state is NOTHING else (release, text))
        last = state
    return tuple(found)


def _comparable(state: Any) -> Any:
    return sorted(state) if isinstance(state, frozenset) else state


def _words(now: frozenset[str], before: Any) -> str | list[str]:
    """The shortest way to write a list of words after the one before it."""
    whole = " ".join(sorted(now))
    plain = bool(now) and not any(map(_is_odd, now)) and not all(word[0] in "+-" and len(word) > 1 for word in now)
    if before is not NOTHING and not any(map(_is_odd, now ^ before)):
        came, went = sorted(now - before), sorted(before - now)
        change = " ".join([*(f"+{word}" for word in came), *(f"-{word}" for word in went)])
        if not plain or len(change) < len(whole):
            return change
    return whole if plain else sorted(now)


def _is_odd(word: str) -> bool:
    return not word or any(map(str.isspace, word))


def text(data: ReleaseData) -> str:
    """A data file: a name a line."""
    parts = ['{"releases": ' + json.dumps(list(data.releases))]
    for name in SECTIONS:
        rows: Mapping[str, Sequence[Any]] = getattr(data, name)
        if rows:
            lines = (f"{json.dumps(each)}: {json.dumps(row, ensure_ascii=False)}" for each, row in sorted(rows.items()))
            parts.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
    return ",\n".join(parts) + "}\n"


def place(root: Path, room: str) -> Path:
    """The data file of an engine in a checkout."""
    return root / "lockllm" / "engines" / room / "releases.json"
