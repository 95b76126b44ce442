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

__all__ = [
    "Answer", "Command", "Context", "Default", "Engine", "Form", "Given", "Identity", "Installed", "MayBeMissing", "Model",
    "Names", "PathGiven", "Probe", "Prompts", "Template", "Weights", "available", "built_in", "identity", "known", "load",
]  # fmt: skip

_ROOMS = frozenset({"kernel", "launch", "shown", "source"})
"""Packages beside the engines that are none."""
_NAME = re.compile(r"[a-z][a-z0-9.-]{0,60}")
_NONE = Identity(name="", label="", module="")


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


def known(name: object) -> bool:
    """Whether there is an engine of that name."""
    return bool(identity(name).name)


def identity(name: object) -> Identity:
    """What the engine of that name is; where there is none, an identity without a name, of which nothing holds."""
    return _identity(name) if isinstance(name, str) and _NAME.fullmatch(name) else _NONE


@lru_cache(maxsize=32)
def _identity(name: str) -> Identity:
    """The package of a name is that name without dots and with `_` for `-`: no other engine is imported to find it."""
    package = name.replace(".", "").replace("-", "_")
    if package in _ROOMS:
        return _NONE
    try:
        found = import_module(f"{__name__}.{package}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{package}":
            raise
        return _NONE
    held = getattr(found, "IDENTITY", _NONE)
    return held if isinstance(held, Identity) and held.name == name else _NONE


def load(name: str) -> Engine:
    """The engine of that name. KeyError for a name that is none."""
    found = identity(name)
    if not found.name:
        raise KeyError(name)
    return cast("Engine", import_module(found.module))
