"""Which mismatch explains which: the cause first, what follows from it below."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lockllm.facts import keys
from lockllm.facts.fact import Path
from lockllm.facts.observation import By
from lockllm.judge.report import Result, Status

_TYPED = (By.PROCESS, By.PLAN)
_DIFFERS = (Status.MISMATCH, Status.ALLOWED, Status.WAIVED, Status.IGNORED)
_ENGINE = ("engine", "version")


def explain(results: Mapping[Path, Result]) -> dict[Path, Result]:
    """The same results, each mismatch with the root mismatch that it follows from, if any."""
    moved = {path: result for path, result in results.items() if result.status in _DIFFERS}
    direct = {path: cause for path, result in moved.items() if (cause := _cause(result, moved)) is not None}
    explained = dict(results)
    for path in direct:
        root, seen = path, {path}
        while root in direct and direct[root] not in seen:
            root = direct[root]
            seen.add(root)
        if root != path:
            explained[path] = msgspec.structs.replace(results[path], because=keys.dotted(root))
    return explained


def _cause(result: Result, moved: Mapping[Path, Result]) -> Path | None:
    typed = _typed(result)
    fact = result.fact
    for key in fact.follows_from:
        base = keys.parse(key)
        below = [path for path in moved if path[: len(base)] == base and path != fact.path]
        if below:
            return next((path for path in below if path[-1] in result.source), below[0])
    independent = typed and not fact.follows_from  # then only what the same argument gave is its cause
    for text in fact.causes:
        glob = keys.Glob(text)
        hit = [path for path in moved if path != fact.path and glob.matches(path)]
        hit = [path for path in hit if _typed(moved[path]) == typed] if independent else hit
        if hit:
            return next((path for path in hit if path[-1] in result.source), hit[0])
    if independent:
        return None
    ruled = bool(result.readings) and result.readings[0].by in (By.RULE, By.DEFAULT)
    return _ENGINE if ruled and _ENGINE in moved and fact.path != _ENGINE else None


def _typed(result: Result) -> str:
    """The argument that gave the value, where one did."""
    return next((reading.source for reading in result.readings[:2] if reading.by in _TYPED), "")
