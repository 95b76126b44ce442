"""Options that an engine keeps by their own name beside a neutral fact: a spec that names the fact locks both."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from lockllm.engines import Context, Engine, Given
from lockllm.facts.fact import Path
from lockllm.facts.observation import Reading

_KEPT: Path = ("serve", "args")
_MODEL: Path = ("checkpoint", "path")


def paired_options(engine: Engine, given: Given, context: Context) -> Iterator[Reading]:
    """The kept options that the command of the given facts has, and the command without them has not."""
    named = {reading.fact.path: reading.value for reading in given.readings if reading.fact.path[0] == "serve"}
    if not named:
        return
    plain = {reading.fact.path for reading in _read(engine, {}, context)}
    for reading in _read(engine, named, context):
        path = reading.fact.path
        if path[:2] == _KEPT and path not in named and path not in plain:
            yield msgspec.structs.replace(reading, source=given.readings[0].source)


def _read(engine: Engine, named: dict[Path, object], context: Context) -> tuple[Reading, ...]:
    command = engine.command({_MODEL: "model", ("engine", "name"): engine.name, **named}, context)
    form = engine.recognise(command.argv) if command.argv else None
    if form is None or any(re.search(r"\$", word) for word in command.argv):
        return ()
    return engine.given(form, command.env, {}, context.version, False).readings
