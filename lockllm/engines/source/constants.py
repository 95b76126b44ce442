"""What can be told of a value that was worked out from source: whether it is constant, true, like another."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from lockllm.engines.source.modules import UNKNOWN, Call, Class, Foreign, Generic, Unknown

_LONGEST = 10_000
_CONSTANT = (str, int, float, bool, type(None))
_SEQUENCES: tuple[type, ...] = (list, tuple, set, type({}.keys()), type({}.values()), type({}.items()))


def plain_default(value: Any) -> Any:
    """The default of a field that is written as a call: `Field(default=4)`, `field(default_factory=list)`."""
    if not isinstance(value, Call) or value.name not in ("Field", "field"):
        return value
    if "default" in value.named:
        return value.named["default"]
    if "default_factory" in value.named:
        made: dict[Foreign, Any] = {Foreign("list"): [], Foreign("dict"): {}, Foreign("set"): set()}
        factory = value.named["default_factory"]
        return made[factory] if isinstance(factory, Foreign) and factory in made else UNKNOWN
    return value.args[0] if value.args and value.args[0] is not Ellipsis else UNKNOWN


def literals(value: Any) -> tuple[Any, ...] | None:
    """The values of a `Literal`, of those inside it too; None where it is none or only a run tells one."""
    if not isinstance(value, Generic) or value.name != "Literal":
        return None
    found: list[Any] = []
    for each in value.args:
        inner = literals(each) if isinstance(each, Generic) else (each,)
        if inner is None or not all(map(constant, inner)):
            return None
        found += inner
    return tuple(found)


def truth(value: Any) -> bool | None:
    """Whether a value counts as true; None where it is not known."""
    return bool(value) if plain(value) else None


def constant(value: Any) -> bool:
    """Whether a value is a plain constant: a text, a number, a truth value or None."""
    return isinstance(value, _CONSTANT)


def tellable(value: Any) -> bool:
    """Whether a constant can stand in a lock: a text of a bearable length, a number that every format holds."""
    if isinstance(value, str):
        return len(value) <= _LONGEST and value.isprintable()
    if isinstance(value, int):
        return abs(value) < 2**63
    return value is None or (isinstance(value, float) and math.isfinite(value))


def plain(value: Any) -> bool:
    """Whether a value is a constant or a collection."""
    return isinstance(value, (*_CONSTANT, list, tuple, dict, set))


def same(one: Any, other: Any) -> bool:
    """Whether two values are known, of one type and equal."""
    if isinstance(one, Class) and isinstance(other, Class):
        return one.node is other.node
    return type(one) is type(other) and not isinstance(one, Unknown) and bool(one == other)


def large(value: Any) -> bool:
    """Whether an operation on a value could grow without bound."""
    if isinstance(value, (str, bytes, list, tuple, set, dict)):
        return len(value) > _LONGEST
    return isinstance(value, int) and abs(value) > 2**64


def parts(value: Any) -> int:
    """Of how many parts a value is, however deep; counted no further than what is compared, hashed or sorted."""
    waiting, count = [value], 0
    while waiting and count <= _LONGEST:
        each = waiting.pop()
        inner: tuple[Any, ...] = ()
        if iterable(each):
            count += len(each)
            inner = tuple(each) if count <= _LONGEST else ()
        if isinstance(each, dict):
            inner += tuple(each.values()) if count <= _LONGEST else ()
        if isinstance(each, Generic):
            inner = (each.base, *each.args)
        elif isinstance(each, Call):
            inner = (each.function, *each.args, *each.named.values())
        count += 1 + (len(each) // 64 if isinstance(each, str) else 0)
        waiting += inner
    return count


def power(op: ast.operator, left: Any, right: Any) -> Any:
    """A power of small whole numbers; UNKNOWN of anything else."""
    fits = isinstance(left, int) and isinstance(right, int) and 0 <= right <= 64 and abs(left) <= 1024
    return left**right if isinstance(op, ast.Pow) and fits else UNKNOWN


def _collected(make: Callable[[Any], Any]) -> Callable[[Call], Any]:
    """`list(…)`, `sorted(…)` and their like of what is known."""
    return lambda call: make(call.args[0]) if len(call.args) == 1 and iterable(call.args[0]) else call


def iterable(value: Any) -> bool:
    """Whether a value is a collection whose items are known."""
    return isinstance(value, (*_SEQUENCES, dict))


def _get_args(call: Call) -> Any:
    told = literals(call.args[0]) if call.args else None
    return UNKNOWN if told is None else told


KNOWN: dict[str, Callable[[Call], Any]] = {
    "list": _collected(list), "tuple": _collected(tuple), "set": _collected(set), "frozenset": _collected(set),
    "sorted": _collected(sorted),
    "typing.get_args": _get_args, "typing_extensions.get_args": _get_args,
}  # fmt: skip
"""Functions of no file of a package that are known, by their whole name."""
