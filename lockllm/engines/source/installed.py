"""From a parser that was followed to the options of an installed release: names, kinds, choices, constant defaults."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from lockllm.engines import Default, Installed
from lockllm.engines.kernel.argparse import Option, Table, Take, table
from lockllm.engines.kernel.values import Kind
from lockllm.engines.source.constants import plain_default, tellable
from lockllm.engines.source.evaluate import ODD, Scope, TooMuch
from lockllm.engines.source.modules import UNKNOWN, Call, Field, Function, Unknown
from lockllm.engines.source.parsers import Added, Follower, Parser, arity

_MOST_TOLD = 3
_NAME = re.compile(r"[A-Za-z_]\w{0,99}\Z", re.ASCII)
TOO_ODD = (*ODD, TooMuch, MemoryError, RecursionError)
"""What a source of a shape that nobody saw may trip: then it tells nothing."""


class Placed(msgspec.Struct, frozen=True):
    """The default of a field, and where it stands."""

    value: Any
    source: str


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine knows of its own options."""

    label: str  # vLLM
    expected: frozenset[str]  # spellings that every release has
    known: Table  # the options of the nearest release that a table has
    kinds: Mapping[str, Kind]  # what a function that reads an argument makes of it
    name: Callable[[Added], str]  # what an option is called that no table has
    finish: Callable[[Option, Added], Option]  # more spellings, another kind


def placed(follower: Follower, field: Field | None) -> Any:
    """The default of a field and its place; UNKNOWN where only a run makes it."""
    if field is None or field.default is None:
        return UNKNOWN
    scope = Scope(module=field.owner.module, owner=field.owner)
    value = follower.value(field.default, scope)
    factory = value.named.get("default_factory") if isinstance(value, Call) else None
    if isinstance(factory, Function) and isinstance(factory.node, ast.Lambda):
        value = follower.value(factory.node.body, scope)
    else:
        value = plain_default(value)
    return value if isinstance(value, (Unknown, Placed)) else Placed(value, f"{field.owner.module.path}: {field.name}")


def gather(follower: Follower, version: str, path: str, parser: Parser, grammar: Grammar) -> Installed:
    """The options of a parser. `path`: the file that fills it. Without the options that every release has: why not."""
    flags = {flag for each in parser.added for flag in each.flags}
    if not flags >= grammar.expected:
        missing = ", ".join(sorted(grammar.expected - flags)[:_MOST_TOLD])
        problem = f"the options of {grammar.label} {version} cannot be read from its source: {path} adds no {missing}"
        return Installed(version=version, source=path, problem=problem)
    found: dict[tuple[Any, ...], Option] = {}
    seen: set[str] = set()
    choices: dict[str, frozenset[Any]] = {}
    defaults: dict[str, Default] = {}
    doubts = list(parser.open)
    for each in parser.added:
        made, sure = _option(follower, each, grammar)
        if not sure:
            doubts.append(f"what {each.flags[0]} takes cannot be told")
        if not (each.sure or grammar.known.flags.keys() & set(each.flags)):
            doubts.append(f"{each.flags[0]} is added under a condition")
        shape = (made.name, made.take, made.kind, repr(made.bare))  # one that unsets what another sets stays apart
        before = found.get(shape)
        if before is not None:
            made = msgspec.structs.replace(before, flags=(*before.flags, *made.flags), off=(*before.off, *made.off))
        elif (few := _choices(each.named)) is not None:
            choices.setdefault(made.name, few)
        if made.name not in seen and (default := _default(each)) is not None:
            defaults[made.name] = default
        seen.add(made.name)
        found[shape] = made
    return Installed(
        version=version, source=path, table=table(list(found.values())), choices=choices, defaults=defaults,
        doubts=tuple(dict.fromkeys(doubts)),
    )  # fmt: skip


def named(each: Added, grammar: Grammar) -> str:
    """A spelling that a table has keeps its name there; a new one goes by what the engine calls it."""
    held = grammar.known.flags
    return next((held[flag][0].name for flag in each.flags if flag in held), "") or grammar.name(each)


def dest(each: Added) -> str:
    """What an option sets, where its `dest` says it with a plain name."""
    told = each.named.get("dest")
    return told if isinstance(told, str) and _NAME.match(told) else ""


def _option(follower: Follower, each: Added, grammar: Grammar) -> tuple[Option, bool]:
    """One option, and whether all that it takes could be told; what could not is as in the nearest release."""
    told = arity(follower, each.named, grammar.kinds)
    before = next((grammar.known.flags[flag][0] for flag in each.flags if flag in grammar.known.flags), None)
    take, kind = told.take, told.kind
    if before is not None and not (told.sure and told.read):
        take, kind = told.take if told.sure else before.take, before.kind
    off = tuple("--no-" + flag[2:] for flag in each.flags if flag.startswith("--")) if take is Take.BOTH else ()
    name = named(each, grammar)
    other = take is Take.SWITCH and name != each.named.get("dest", name)
    bare = True if other else told.bare  # it is told as given, not as what it sets
    made = Option(name=name, flags=each.flags, off=off, take=take, kind=kind, bare=bare)
    return grammar.finish(made, each), told.sure


def _choices(named: Mapping[str, Any]) -> frozenset[Any] | None:
    told = named.get("choices")
    if not isinstance(told, (list, tuple, set)) or not told or not all(map(tellable, told)):
        return None
    return frozenset(each for each in told if each is not None)


def _default(each: Added) -> Default | None:
    """The default of an option, where it is a constant."""
    told = each.named.get("default", False if each.named.get("action") == "store_true" else None)
    made = told if isinstance(told, Placed) else Placed(told, f"{each.path}: {each.flags[0]}")
    return Default(made.value, made.source) if tellable(made.value) else None
