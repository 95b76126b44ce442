"""Short ids of a system: one part each for weights, template, engine, numerics and sampling, so that a log shows what moved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from lockllm.documents.lock import Lock
from lockllm.facts import registry
from lockllm.facts.fact import Path
from lockllm.facts.gpu_names import canonical
from lockllm.facts.observation import ABSENT, Observation, values
from lockllm.facts.types import GPU, single
from lockllm.judge.report import Result, Status

VERSION = 1
PARTS = ("weights", "template", "engine", "numerics", "sampling")
"""The facts of each part are the registry's rows with that `part`; a change of the list is a new VERSION."""
_LENGTH = 8
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=str)


def of_lock(lock: Lock) -> str:
    """The id of what was locked."""
    return joined(parts_of_lock(lock))


def parts_of_lock(lock: Lock) -> dict[str, str]:
    """The id of what was locked, part by part."""
    return _parts({path: registry.dump(registry.find(path), value) for path, value in lock.values.items()}, set())


def of_observation(observation: Observation, lock: Lock | None = None) -> str:
    """The id of what was seen; with a lock, over the facts that the lock holds. `?` stands for a part with an unknown."""
    seen = {
        path: registry.dump(registry.find(path), value)
        for path, value in values(observation.readings).items()
        if value is not ABSENT and (lock is None or path in lock.values)
    }
    if lock is not None:
        return joined(_parts(seen, {path for path in lock.values if path not in seen}))
    hidden = {
        row.path for row in registry.ROWS for each in observation.unobserved if row.path[: len(each.path)] == each.path
    }
    return joined(_parts(seen, {path for path in hidden if path not in seen}))


def of_results(lock: Lock, locked: Mapping[str, str], results: Mapping[Path, Result]) -> str:
    """The id of what a verification saw of the locked facts. A part that matches whole has the lock's own word, `locked`."""
    moved = {
        result.fact.part
        for path, result in results.items()
        if result.status is not Status.MATCH and path in lock.values
    }
    if not moved:
        return joined(locked)
    found: dict[Path, Any] = {}
    unknown: set[Path] = set()
    for path in lock.values:
        result = results.get(path)
        if result is None or result.fact.part not in moved:
            continue
        if result.status is Status.MATCH:
            found[path] = result.expected
        elif result.seen:
            if result.found is not None:
                found[path] = result.found
        else:
            unknown.add(path)
    return joined({**_parts(found, unknown), **{part: word for part, word in locked.items() if part not in moved}})


def joined(parts: Mapping[str, str]) -> str:
    """The id that its parts make."""
    return "-".join((str(VERSION), *(parts[part] for part in PARTS)))


def _parts(data: Mapping[Path, Any], unknown: Collection[Path]) -> dict[str, str]:
    words: dict[str, str] = {}
    members_of: dict[str, list[Path]] = {}
    for path in data:
        members_of.setdefault(registry.find(path).part, []).append(path)
    hidden = {registry.find(path).part for path in unknown}
    for part in PARTS:
        if part in hidden:
            words[part] = f"{part[0]}?"
            continue
        members = sorted(members_of.get(part, ()))
        lines = [_line(path, data[path]) for path in members]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_LENGTH]
        words[part] = f"{part[0]}{digest if members else '-'}"
    return words


def _line(path: Path, value: Any) -> str:
    if isinstance(value, (str, int, float)):
        return _written(path, value)
    if isinstance(value, dict) and all(type(each) in {str, int} for each in value.values()):
        return _table(path, tuple(value.items()))
    return _encoded(path, value)


@lru_cache(maxsize=20_000, typed=True)  # a fleet shows the same values again and again
def _written(path: Path, value: str | float) -> str:
    return _encoded(path, value)


@lru_cache(maxsize=20_000)
def _table(path: Path, value: tuple[tuple[str, str | int], ...]) -> str:
    return _encoded(path, dict(value))


def _encoded(path: Path, value: Any) -> str:
    return _ENCODER.encode([path, _normal(path, value)])


def _normal(path: Path, value: Any) -> Any:
    if isinstance(value, float):
        return single(value)
    if registry.find(path).type is GPU:
        named = [value] if isinstance(value, str) else value
        if isinstance(named, (list, tuple)) and all(isinstance(each, str) for each in named):
            return canonical(value) if isinstance(value, str) else [canonical(each) for each in named]
    return value
