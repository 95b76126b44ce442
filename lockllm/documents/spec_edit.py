"""A person's llm.toml, edited in place: comments, order and layout stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.documents import toml
from lockllm.errors import SpecError
from lockllm.facts import keys
from lockllm.facts.fact import Path

REMOVED = None
"""In place of a value: the key is taken out. TOML itself has no such value."""


def edit(text: str, changes: Mapping[Path, Any], *, name: str = "llm.toml", table: Path = ()) -> str:
    """The text with these keys set or removed. `table` is where the spec stands in the file: `("tool", "lockllm")`.

    Raises SpecError where the file is written so that a key cannot be changed in place.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    wanted: Any = toml.load(text, name, SpecError)
    try:
        for path, value in changes.items():
            _put(wanted, (*table, *path), value)
        document = tomlkit.parse(text if text.endswith("\n") or not text else text + "\n")
        for path, value in changes.items():
            headers = len(table) + (3 if path[0] == "variant" else 1)
            _write(document, (*table, *path), value, headers)
        edited = tomlkit.dumps(document)
        if "\r\n" in text:
            edited = edited.replace("\r\n", "\n").replace("\n", "\r\n")
    except (TOMLKitError, TypeError, ValueError, AttributeError, KeyError) as cause:
        raise _by_hand(name, changes) from cause
    if _without_empty(toml.load(edited, name, SpecError)) != _without_empty(wanted):
        raise _by_hand(name, changes)
    return edited


def _by_hand(name: str, changes: Mapping[Path, Any]) -> SpecError:
    lines = [
        f"remove {keys.dotted(path)}" if value is REMOVED else f"write {keys.dotted(path)} = {toml.value(value)}"
        for path, value in changes.items()
    ]
    return SpecError("the file cannot be edited in place", where=name, fix="edit it by hand: " + "; ".join(lines))


def _without_empty(data: Any) -> Any:
    """Data without tables that hold nothing: one whose last key was removed may stay or go."""
    if not isinstance(data, dict):
        return data
    inner = {key: _without_empty(value) for key, value in data.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _put(data: Any, path: Path, value: Any) -> None:
    """The same change in plain dictionaries."""
    for part in path[:-1]:
        if part not in data and value is REMOVED:
            return
        data = data.setdefault(part, {})
    if value is REMOVED:
        data.pop(path[-1], None)
    else:
        data[path[-1]] = value


def _write(document: Any, path: Path, value: Any, headers: int) -> None:
    """Set or remove one key. A table of at most `headers` names gets a header of its own, a deeper one a dotted key."""
    import tomlkit

    held = document
    for depth, part in enumerate(path[:-1]):
        if part not in held:
            if value is REMOVED:
                return
            if depth >= headers:
                _append(held, tomlkit.key([*path[depth:]]), value)
            else:
                _add_table(held, path[depth:], value, headers - depth)
            return
        held = held[part]
    if value is REMOVED:
        held.pop(path[-1], None)
    elif path[-1] in held:
        held[path[-1]] = _item(value)
    else:
        _append(held, path[-1], value)


def _add_table(held: Any, path: Path, value: Any, headers: int) -> None:
    """A new table that holds one key."""
    import tomlkit

    table = tomlkit.table(is_super_table=headers > 1 and len(path) > 2)
    if headers > 1 and len(path) > 2:
        _add_table(table, path[1:], value, headers - 1)
    else:
        table.add(tomlkit.key([*path[1:]]) if len(path) > 2 else path[1], _item(value))
    text = held.as_string()
    if text and not text.endswith("\n\n"):
        held.add(tomlkit.nl())
    held.add(path[0], table)


def _append(held: Any, key: Any, value: Any) -> None:
    """A new key after the last one: blank lines and comments that lead to the next table stay with that one."""
    if not hasattr(held, "append"):  # a table whose parts stand in several places
        held[key] = _item(value)
        return
    body = getattr(getattr(held, "value", None), "body", None)
    tail = []
    while isinstance(body, list) and body and body[-1][0] is None:
        tail.append(body.pop()[1])
    held.append(key, _item(value))
    for item in reversed(tail):
        held.add(item)


def _item(value: Any) -> Any:
    """A value in our own spelling, in which nothing foreign stands unescaped."""
    import tomlkit

    return tomlkit.value(toml.value(value))
