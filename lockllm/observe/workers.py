"""Processes below a server that carry what it resolved: Ollama's runners, TGI's shards and router."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lockllm.engines import Given
from lockllm.facts.observation import Reading
from lockllm.observe import plan, servers
from lockllm.observe.servers import Found

_WORKERS = frozenset({"runner", "llama-server", "shard", "router"})


def given(found: Found | None) -> tuple[Given, ...]:
    """What each worker's own arguments and variables say; shards that repeat each other once."""
    told: list[Given] = []
    for process in found.tree if found is not None else ():
        read = servers.form_of(process) if process.argv else None
        if read is None or found is None or read[0].engine != found.engine or read[0].subcommand not in _WORKERS:
            continue
        said = plan.plan(process.argv, process.env, process.cwd or os.sep, None, live=True).given
        if said is not None and not any(_same(said, other) for other in told):
            told.append(said)
    return tuple(told)


def readings(found: Found | None) -> Iterator[Reading]:
    """Their facts. Kept options are left out: those of the server are what was asked for."""
    for said in given(found):
        for reading in said.readings:
            if reading.fact.group != "engine" and reading.fact.path[:2] != ("serve", "args"):
                yield reading


def _same(one: Given, other: Given) -> bool:
    return one.readings == other.readings and one.model == other.model
