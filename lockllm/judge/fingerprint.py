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


def of_lock(lock: Lock) -> str:
    """The id of what was locked."""
    return _text({path: registry.dump(registry.find(path), value) for path, value in lock.values.items()}, set())


def of_observation(observation: Observation, lock: Lock | None = None) -> str:
    """The id of what was seen; with a lock, over the facts that the lock holds. `?` stands for a part with an unknown."""
    seen = {
        path: registry.dump(registry.find(path), value)
        for path, value in values(observation.readings).items()
        if value is not ABSENT and (lock is None or path in lock.values)
    }
    if lock is not None:
        return _text(seen, {path for path in lock.values if path not in seen})
    hidden = {
        row.path for row in registry.ROWS for each in observation.unobserved if row.path[: len(each.path)] == each.path
    }
    return _text(seen, {path for path in hidden if path not in seen})


def of_results(lock: Lock, results: Mapping[Path, Result]) -> str:
    """The id of what a verification saw of the locked facts."""
    found: dict[Path, Any] = {}
    unknown: set[Path] = set()
    for path in lock.values:
        result = results.get(path)
        if result is None:
            continue
        if result.status is Status.MATCH:
            found[path] = result.expected
        elif result.seen:
            if result.found is not None:
                found[path] = result.found
        else:
            unknown.add(path)
    return _text(found, unknown)


def _text(data: Mapping[Path, Any], unknown: Collection[Path]) -> str:
    words = [str(VERSION)]
    members_of: dict[str, list[Path]] = {}
    for path in data:
        members_of.setdefault(registry.find(path).part, []).append(path)
    hidden = {registry.find(path).part for path in unknown}
    for part in PARTS:
        if part in hidden:
            words.append(f"{part[0]}?")
            continue
        members = sorted(members_of.get(part, ()))
        lines = [_line(path, data[path]) for path in members]
        digest = hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()[:_LENGTH]
        words.append(f"{part[0]}{digest if members else '-'}")
    return "-".join(words)


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
    return json.dumps([list(path), _normal(path, value)], separators=(",", ":"), default=str)


def _normal(path: Path, value: Any) -> Any:
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        return value if isinstance(value, int) else single(value)
    if registry.find(path).type is GPU:
        named = [value] if isinstance(value, str) else value
        if isinstance(named, (list, tuple)) and all(isinstance(each, str) for each in named):
            return canonical(value) if isinstance(value, str) else [canonical(each) for each in named]
    return value
