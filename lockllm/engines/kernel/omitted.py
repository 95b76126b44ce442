"""What an option is where it is left out, by release: an option typed with that value is no difference from one left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines.kernel.release_data import NOTHING, ReleaseData, at
from lockllm.engines.kernel.releases import beyond, order
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, Raw


def constant(data: ReleaseData, name: str, version: str) -> Any:
    """The constant default of a release; NOTHING past the newest one read, and between two that differ."""
    numbers = order(version)[0]
    if numbers < order(data.releases[0])[0] or beyond(version, data.releases[-1]) or name not in data.defaults:
        return NOTHING
    before, *after = data.neighbors(".".join(map(str, numbers)))
    default = at(data.defaults[name], before)
    others = [at(data.defaults[name], each) for each in after if data.has(name, each)]
    return NOTHING if any(repr(each) != repr(default) for each in others) else default


def option(path: Path) -> str:
    """How a table names what a kept option holds: `hf_overrides`, `compilation_config.mode`."""
    return ".".join(path[2:])


def version(known: Mapping[Path, Any]) -> str:
    """The release among known facts; empty where it is not known."""
    return text(known, "engine", "version")


def text(known: Mapping[Path, Any], *path: str) -> str:
    """A fact as text; empty where it is not known, absent or of no value that its type can read."""
    value = known.get(path)
    return "" if value is None or value is ABSENT or isinstance(value, Raw) else str(value)
