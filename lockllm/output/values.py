"""How a value is shown to a person: short, on one line, as printable ASCII, and so that a difference is seen."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lockllm.facts.observation import ABSENT, Raw
from lockllm.output.escape import literal, visible

DIGEST = 12
_HEX = re.compile(r"(sha256:|sha512:)?([0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})\Z")
_BARE = re.compile(r"[A-Za-z0-9/~<>=!^](?:[A-Za-z0-9 _.+:/@=,~<>!*()^-]*[A-Za-z0-9_.+:/@=~<>!*()-])?\Z")
_WORDS = frozenset({"true", "false", "absent", "inf", "nan", "not seen"})
_NUMBER = re.compile(r"[+-]?[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_AROUND = 12  # characters kept on each side of a difference


def show(value: Any, *, full: bool = False, limit: int = 60) -> str:
    """One value on one line."""
    text = _spell(value, full)
    return text if full else _cut(text, limit, 0)


def show_pair(before: Any, after: Any, *, full: bool = False, limit: int = 60) -> tuple[str, str]:
    """Two values that differ, each on one line. Where they are long, the part that differs is shown."""
    before, after = _plain(before), _plain(after)
    if not full:
        before, after = _digests_alone(before, after, limit)
    one, other = _spell(before, full), _spell(after, full)
    if isinstance(before, str) and isinstance(after, str) and len(one) <= limit >= len(other) and one != other:
        return one, other  # as most are
    if not full and max(len(one), len(other)) > limit:
        one, other = _spell_apart(before, after)
    if _mixed(before, after):
        one, other = _typed(before, one), _typed(after, other)
    if one == other:
        one, other = _spell(before, True), _spell(after, True)
    if one == other:
        one, other = _typed(before, one), _typed(after, other)
    if full:
        return one, other
    if before is None or after is None:
        return _cut(one, limit, 0), _cut(other, limit, 0)
    start = _common(one, other)
    if max(len(one), len(other)) <= limit:
        return one, other
    return _cut(one, limit, start), _cut(other, limit, start)


def _spell(value: Any, full: bool) -> str:
    if isinstance(value, str):
        return _text(value, full)
    if value is None or value is ABSENT:
        return "absent"
    if isinstance(value, Raw):
        return _spell(value.value, full)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_spell(each, full) for each in value) + "]"
    if isinstance(value, dict):
        return _table(value, full)
    return visible(str(value))


@lru_cache(maxsize=256)
def _text(text: str, full: bool) -> str:
    found = _HEX.match(text)
    if found:
        prefix, digits = found.group(1) or "", found.group(2)
        return text if full else prefix + digits[:DIGEST]
    if _BARE.match(text) and text.lower() not in _WORDS:
        return text
    return literal(text)


def _table(value: dict[Any, Any], full: bool) -> str:
    if _is_file(value):
        digest = _spell(value["sha256"], full)
        unit = "byte" if value.get("size") == 1 else "bytes"
        return f"{digest} ({value['size']} {unit})" if "size" in value else digest
    return "{" + ", ".join(f"{visible(str(key))} = {_spell(each, full)}" for key, each in value.items()) + "}"


def _plain(value: Any) -> Any:
    return None if value is ABSENT else value.value if isinstance(value, Raw) else value


def _spell_apart(before: Any, after: Any) -> tuple[str, str]:
    """Two long values without what they share."""
    if isinstance(before, dict) and isinstance(after, dict):
        return _members_apart(before, after), _members_apart(after, before)
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        one, other = [_spell(each, False) for each in before], [_spell(each, False) for each in after]
        if set(one) != set(other):
            return _items_apart(one, set(other)), _items_apart(other, set(one))
    return _spell(before, False), _spell(after, False)


def _is_file(value: Any) -> bool:
    return isinstance(value, dict) and "sha256" in value and len(value) == 1 + ("size" in value)


def _digests_alone(before: Any, after: Any, limit: int) -> tuple[Any, Any]:
    """Files without their sizes, where both have the same or there is little room; digests that begin alike keep them."""
    one, other = _is_file(before), _is_file(after)
    both = one and other
    if not (one or other) or (limit >= 40 and not (both and before.get("size") == after.get("size"))):
        return before, after
    if both and _spell(before["sha256"], False) == _spell(after["sha256"], False):
        return before, after
    return before["sha256"] if one else before, after["sha256"] if other else after


def _members_apart(here: dict[Any, Any], there: dict[Any, Any]) -> str:
    own = {key: each for key, each in here.items() if key not in there or there[key] != each}
    alike = len(here) - len(own)
    text = _table(own, False)
    return text if not alike else f"{text[:-1]}{', ' if own else ''}and {alike} alike}}"


def _items_apart(here: list[str], there: set[str]) -> str:
    own = [each for each in here if each not in there]
    count = "1 item" if len(here) == 1 else f"{len(here)} items"
    return f"{count}, only here: {', '.join(own)}" if own else f"{count}, all on both sides"


def _mixed(before: Any, after: Any) -> bool:
    """Whether a text stands against something that is none, so that quotes must tell them apart."""
    return isinstance(before, str) != isinstance(after, str) and before is not None and after is not None


def _typed(value: Any, spelled: str) -> str:
    return literal(value) if isinstance(value, str) and (_NUMBER.match(value) or value.lower() in _WORDS) else spelled


def _common(one: str, other: str) -> int:
    at = 0
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other), at + 1)


def _cut(text: str, limit: int, differs_at: int) -> str:
    """The text in `limit` characters, the place where it differs among them."""
    if len(text) <= limit:
        return text
    start = max(0, differs_at - _AROUND)
    if start <= 3 or differs_at + _AROUND <= limit - 3:
        return text[: limit - 3] + "..."
    start = min(start, len(text) - (limit - 3))
    end = start + limit - 6
    return "..." + (text[start:] if end + 3 >= len(text) else text[start:end] + "...")
