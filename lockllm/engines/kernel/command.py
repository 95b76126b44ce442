"""From facts to the words of a command line: what every engine's `command` does alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.engines.kernel.argparse import Option, Take
from lockllm.facts.fact import Path
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Raw


class Gathered(msgspec.Struct, kw_only=True):
    """The parts of a command: options by name in the order of the facts, variables, and what no option can set."""

    facts: Mapping[Path, Any]
    model: str = ""
    args: dict[str, Any] = {}
    env: dict[str, str] = {}
    notes: list[str] = []


Special = Callable[[Path, str, Any, Gathered], bool]
"""Takes a fact (path, key, value) that the engine sets in a way of its own; false: it is like any other."""


def gather(
    facts: Mapping[Path, Any], label: str, names: Mapping[str, str], special: Special, noted: Sequence[str] = ("serve",)
) -> Gathered:
    """Every fact as an option, a variable or a note. `names`: key of a fact -> option; `noted`: groups that are told of."""
    into = Gathered(facts=facts)
    for path, value in facts.items():
        key = dotted(path)
        if value is ABSENT or isinstance(value, Raw):
            continue
        if path[0] == "env":
            into.env[path[1]] = str(value)
        elif special(path, key, value, into):
            continue
        elif path in (("checkpoint", "repo"), ("checkpoint", "path")):
            into.model = into.model or str(value)
        elif path == ("checkpoint", "commit") and ("checkpoint", "repo") in facts:
            into.args["revision"] = value
        elif key in names:
            into.args[names[key]] = value
        elif path[:2] == ("serve", "args"):
            nest(into.args, path[2:], value)
        elif path[0] in noted:
            into.notes.append(f"{key}: no option of {label} sets it")
    return into


def nest(into: dict[str, Any], path: Path, value: Any) -> None:
    """Put a value where its path leads inside the JSON of an option."""
    for part in path[:-1]:
        inner = into.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        into = inner
    if path:
        into[path[-1]] = value


def words(name: str, value: Any, option: Option | None = None) -> list[str]:
    """An option as it is typed: by its own row where there is one, else by its value."""
    flag = option.flags[0] if option is not None else "--" + name.replace("_", "-")
    if isinstance(value, bool):
        if option is not None and option.take is Take.BOTH:
            return [flag if value else option.off[0]]
        return [flag] if value else []
    if isinstance(value, dict):
        return [flag, json.dumps(value, sort_keys=True)]
    if isinstance(value, (list, tuple)):
        return [flag, *map(str, value)] if value or (option is not None and option.take is Take.ANY) else []
    return [flag, str(value)]
