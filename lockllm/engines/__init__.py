"""Engines: pure translators between what a server shows and readings. How one is found, and what it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import cast

from lockllm.engines.protocol import (
    Answer,
    Command,
    Context,
    Default,
    Engine,
    Form,
    Given,
    Identity,
    Installed,
    MayBeMissing,
    Model,
    Names,
    PathGiven,
    Probe,
    Prompts,
    Template,
    Weights,
)
from lockllm.errors import LockllmError

__all__ = [
    "Answer", "Command", "Context", "Default", "Engine", "Form", "Given", "Identity", "Installed", "MayBeMissing", "Model",
    "Names", "PathGiven", "Probe", "Prompts", "Template", "Weights", "available", "broken", "built_in", "identities", "identity",
    "include_plugins", "known", "load", "names",
]  # fmt: skip

_ROOMS = frozenset({"kernel", "launch", "shown", "source"})
"""Packages beside the engines that are none."""
_NAME = re.compile(r"[a-z][a-z0-9.-]{0,60}")
_NONE = Identity(name="", label="", module="")
_PLUGINS: dict[str, Identity] = {}
"""Plugins that were asked for by name, or included."""
_BROKEN: dict[str, str] = {}


@lru_cache(maxsize=1)
def built_in() -> Mapping[str, Identity]:
    """The engines that come with lockllm, by name: every package of this folder with an `IDENTITY`."""
    from pkgutil import iter_modules

    packages = [each.name for each in iter_modules(__path__) if each.ispkg and each.name not in _ROOMS]
    found = (import_module(f"{__name__}.{each}").IDENTITY for each in packages)
    return {each.name: each for each in found}


def available() -> tuple[str, ...]:
    """The names of the engines that come with lockllm."""
    return tuple(built_in())


def names() -> tuple[str, ...]:
    """The names of all engines, those of plugins too: nothing of a plugin is imported."""
    from lockllm.engines import plugins

    return (*available(), *(name for name in plugins.declared() if name not in built_in()))


def identities() -> tuple[Identity, ...]:
    """What every engine is that comes with lockllm, and of plugins those that were asked for by name or included."""
    return (*built_in().values(), *_PLUGINS.values())


def include_plugins() -> bool:
    """Let launch forms of plugins be recognised from now on. Whether there are more of them than before.

    For a command line, image or process that no engine of lockllm owns. A broken plugin recognises nothing; `broken`
    tells why.
    """
    from lockllm.engines import plugins

    before = len(_PLUGINS)
    for name in plugins.declared().keys() - built_in().keys() - _BROKEN.keys():
        try:
            identity(name)
        except LockllmError as error:
            _BROKEN[name] = error.what
    return len(_PLUGINS) > before


def broken() -> tuple[str, ...]:
    """Why some of the included plugins recognise nothing."""
    return tuple(_BROKEN.values())


def known(name: object) -> bool:
    """Whether there is an engine of that name."""
    return bool(identity(name).name)


def identity(name: object) -> Identity:
    """What the engine of that name is; where there is none, an identity without a name, of which nothing holds.

    Raises WorldError where a plugin of that name is broken.
    """
    return _identity(name) if isinstance(name, str) and _NAME.fullmatch(name) else _NONE


@lru_cache(maxsize=64)
def _identity(name: str) -> Identity:
    """The package of a name is that name without dots and with `_` for `-`: no other engine is imported to find it."""
    package = name.replace(".", "").replace("-", "_")
    try:
        held = getattr(import_module(f"{__name__}.{package}"), "IDENTITY", None) if package not in _ROOMS else None
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{package}":
            raise
        held = None
    if isinstance(held, Identity) and held.name == name:
        return held
    from lockllm.engines import plugins

    found = plugins.identity(name)
    if found is None:
        return _NONE
    _PLUGINS[name] = found
    return found


def load(name: str) -> Engine:
    """The engine of that name. KeyError for a name that is none."""
    found = identity(name)
    if not found.name:
        raise KeyError(name)
    if name in _PLUGINS:
        from lockllm.engines import plugins

        return plugins.load(found)
    return cast("Engine", import_module(found.module))
