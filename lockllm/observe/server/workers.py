"""Processes below a server that carry what it resolved: Ollama's runners, TGI's shards and router."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from lockllm import engines
from lockllm.engines import Given
from lockllm.facts.observation import Reading
from lockllm.observe.server import command_line, find, ollama_store
from lockllm.observe.server.find import RunningServer


def given(server: RunningServer | None) -> tuple[tuple[int, Given], ...]:
    """What each worker's own arguments and variables say, by its pid; shards that repeat each other once."""
    told: list[tuple[int, Given]] = []
    for process in server.tree if server is not None else ():
        read = find.form_of(process) if process.argv else None
        if (
            read is None
            or server is None
            or read[0].engine != server.engine
            or read[0].subcommand not in engines.identity(server.engine).workers
        ):
            continue
        said = command_line.plan(process.argv, process.env, process.cwd or os.sep, None, live=True).given
        if said is not None and not any(_same(said, other) for _, other in told):
            told.append((process.pid, said))
    return tuple(told)


def readings(server: RunningServer | None) -> Iterator[Reading]:
    """Their facts. Kept options are left out: those of the server are what was asked for."""
    for pid, said in given(server):
        for reading in said.readings:
            if reading.fact.group != "engine" and reading.fact.path[:2] != ("serve", "args"):
                yield msgspec.structs.replace(reading, source=f"pid {pid} {reading.source}")


def stored(server: RunningServer | None, edition: int = 2, digest: str = "") -> Iterator[ollama_store.Item]:
    """What Ollama's store says of the model that its only runner has loaded; `digest`: of its manifest, as the server says."""
    if server is None or not engines.identity(server.engine).layered_store:
        return
    loaded = [each.model.text for _, each in given(server) if each.model is not None]
    if len(set(loaded)) == 1:
        yield from ollama_store.readings(server.process.path(loaded[0]), loaded[0], edition=edition, loaded=digest)


def _same(one: Given, other: Given) -> bool:
    return one.readings == other.readings and one.model == other.model
