"""Values of source that a data file can hold."""

from __future__ import annotations

from typing import Any

from lockllm.engines.source.constants import tellable


def choices(told: Any) -> frozenset[str] | None:
    """The words of a list of `choices`; None where there is no list, or only a run tells one of them."""
    if not isinstance(told, (list, tuple, set)) or not told or not all(map(tellable, told)):
        return None
    return frozenset(map(str, told))


def constant(value: Any) -> Any:
    """A constant as the data file holds it; `...` where only a run tells it."""
    if isinstance(value, (list, tuple)) and len(value) < 20 and all(map(_is_plain, value)):
        return list(value)
    if isinstance(value, (dict, set)) and not value:
        return {} if isinstance(value, dict) else ...
    return value if _is_plain(value) else ...


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, type(None))) and tellable(value)
