"""Engines that other distributions bring: entry points of the group `lockllm.engines`, read only where one is asked for.

An entry point has the name of its engine and leads to an `Identity`. Finding entry points costs some twenty milliseconds,
so no command pays for it that meets engines of lockllm alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from lockllm.engines.protocol import Engine, Identity
from lockllm.errors import WorldError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "lockllm.engines"
_MUST_HAVE = tuple(name for name in vars(Engine) if not name.startswith("_") and callable(getattr(Engine, name)))
_ATTRIBUTES = tuple(Engine.__annotations__)
_FIX = "upgrade or uninstall the distribution that brings it"


@lru_cache(maxsize=1)
def declared() -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of the group by name; nothing of them is imported."""
    from importlib.metadata import entry_points

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for each in entry_points(group=GROUP):
        found[each.name] = (*found.get(each.name, ()), each)
    return found


@lru_cache(maxsize=64)
def identity(name: str) -> Identity | None:
    """What the plugin of that name says its engine is; None where there is no such plugin. Raises WorldError for a broken one."""
    points = declared().get(name, ())
    if not points:
        return None
    if len(points) > 1:
        listed = ", ".join(sorted(_distribution(each) for each in points))
        raise WorldError(
            f"several distributions bring the engine {name}: {listed}", where=GROUP, fix="uninstall all but one"
        )
    point = points[0]
    try:
        held = point.load()
    except Exception as error:
        raise _broken(name, f"cannot be loaded: {type(error).__name__}: {error}", point) from error
    if not isinstance(held, Identity):
        raise _broken(name, f"is {type(held).__name__} and not an Identity", point)
    if held.name != name:
        raise _broken(name, f"is the identity of {held.name!r}", point)
    return held


def load(held: Identity) -> Engine:
    """The translator of a plugin. Raises WorldError where it cannot be imported, or lacks what an engine has."""
    point = declared()[held.name][0]
    try:
        module = import_module(held.module)
    except Exception as error:
        raise _broken(held.name, f"cannot be loaded: {type(error).__name__}: {error}", point) from error
    missing = [each for each in (*_ATTRIBUTES, *_MUST_HAVE) if not hasattr(module, each)]
    if missing:
        raise _broken(held.name, f"lacks {', '.join(missing)} in {held.module}", point)
    return cast("Engine", _Guarded(module, held.name, point))


class _Guarded:
    """A plugin's translator whose errors are told as the plugin's, with exit code 4."""

    def __init__(self, module: object, name: str, point: EntryPoint) -> None:
        self._module, self._name, self._point = module, name, point

    def __getattr__(self, name: str) -> Any:
        held = getattr(self._module, name)
        return self._guard(name, held) if callable(held) else held

    def _guard(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                told = function(*arguments, **named)
                return tuple(told) if isinstance(told, Iterator) else told
            except Exception as error:
                raise _broken(self._name, f"fails in {name}: {type(error).__name__}: {error}", self._point) from error

        return call


def _broken(name: str, why: str, point: EntryPoint) -> WorldError:
    return WorldError(
        f"the plugin of the engine {name} {why}", where=f"{_distribution(point)}: {point.value}", fix=_FIX
    )


def _distribution(point: EntryPoint) -> str:
    held = getattr(point, "dist", None)  # Python 3.10 and later
    return f"{held.name} {held.version}" if held is not None else GROUP
