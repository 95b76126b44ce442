"""Defaults that only the source of the installed engine states: kept from the old lock where the package is not here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.engines import Context, Engine
from lockllm.facts import registry
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import By, Reading, Unobserved

_VERSION: Path = ("engine", "version")


def with_kept_defaults(
    engine: Engine,
    context: Context,
    old: Lock | None,
    told: Iterable[Reading | Unobserved],
    moved: Callable[[Fact[Any]], bool],
) -> list[Reading | Unobserved]:
    """What the engine tells, and in the place of what it cannot what an old lock of the same release holds.

    Nothing else: a release of the tables states nothing, and where its source is here that has the last word.
    """
    read: Any = getattr(engine, "installed", None)
    version, here = context.version or "", context.installed is not None and context.installed.table is not None
    if read is None or here or old is None or old.values.get(_VERSION) != version or read(version, {}) is None:
        return list(told)
    stated: frozenset[Path] = getattr(engine, "stated", frozenset())
    found: list[Reading | Unobserved] = []
    for each in told:
        if not isinstance(each, Unobserved):
            found.append(each)
        elif each.path in stated and each.path in old.values and not moved(fact := registry.find(each.path)):
            found.append(
                Reading(fact, old.values[each.path], f"default of {engine.name} {version}, as locked", By.DEFAULT)
            )
        else:
            found.append(msgspec.structs.replace(each, reason=old.unpinned.get(each.path, each.reason)))
    return found
