"""What is left open where the rules of a release were not read: the whole group, or each fact of it that nobody gave."""

from __future__ import annotations

from collections.abc import Iterator

from lockllm.engines import Given
from lockllm.facts.observation import Unobserved
from lockllm.facts.registry import ROWS


def sampling(given: Given | None, reason: str, fix: str) -> Iterator[Unobserved]:
    """The server's sampling defaults: a command that gives one says nothing of the others."""
    held = {reading.fact.path for reading in given.readings if reading.fact.group == "sampling"} if given else set()
    if not held:
        yield Unobserved(("sampling",), reason, fix)
        return
    for row in ROWS:
        if row.group == "sampling" and row.path not in held:
            yield Unobserved(row.path, reason, fix)
