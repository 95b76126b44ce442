"""What a fact is, in the registry's words and each engine's."""

from __future__ import annotations

from typing import Any

import msgspec

from lockllm.engines import Engine
from lockllm.facts import variables
from lockllm.facts.fact import Fact, Kind, Policy, Stage

KINDS = {
    Kind.STEP: "step change: outputs change consistently",
    Kind.NOISE: "noise: only the last bits differ, so near-ties may flip",
    Kind.FAILURE: "failure: the server may not start or fit",
    Kind.IDENTITY: "identity: names something, no effect by itself",
    Kind.RULES: "rules: how a host is judged",
}
"""A kind in words."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A fact in words: label and text, then one such list for each engine that sets or shows it."""

    key: str
    about: str
    lines: tuple[tuple[str, str], ...]
    engines: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def explain(fact: Fact[Any], engines: dict[str, Engine]) -> Explanation:
    """The registry's row and what the engines say of it."""
    lines = [
        ("value", fact.type.name),
        ("effect", fact.effect),
        ("kind", KINDS[fact.kind]),
        ("policy", _policy(fact)),
        ("fix", fact.fix),
    ]
    if fact.follows_from:
        lines.append(("follows from", ", ".join(fact.follows_from)))
    if fact.stale_with:
        lines.append(("kept until", f"{', '.join(fact.stale_with)} changes"))
    lines.append(
        ("seen", "only while a server runs" if fact.due is Stage.LIVE else "before a server runs, and while it runs")
    )
    if fact.on_request:
        lines.append(("locked", "only if llm.toml names it, or `lock --pin` takes it from an observation"))
    if not fact.verified:
        lines.append(("verified", "never: it is only recorded and shown in diffs"))
    lines += _readers(fact)
    words = ("set_by", "default", "seen_at", "unknown")
    by_engine = []
    for name, engine in engines.items():
        where = engine.where(fact)
        if where:
            by_engine.append((name, tuple((word.replace("_", " "), where[word]) for word in words if where.get(word))))
    return Explanation(key=fact.key, about=fact.about, lines=tuple(lines), engines=tuple(by_engine))


def _readers(fact: Fact[Any]) -> list[tuple[str, str]]:
    """For a variable: its class, and who reads it since and until when."""
    if fact.path[0] != "env" or len(fact.path) != 2:
        return []
    found = variables.readers(fact.path[1])
    if not found:
        return [("class", "not in the catalog: its value is never read")]
    told = ", ".join(f"{row.engine or 'libraries below the engines'}{_span(row)}" for row in found)
    kept = "" if found[0].recorded else "; its value itself is never locked"
    return [("class", f"{found[0].kind.value}{kept}"), ("read by", told)]


def _span(row: variables.Variable) -> str:
    since = f" since {row.since}" if row.since else ""
    return since + (f" until {row.until}" if row.until else "")


def _policy(fact: Fact[Any]) -> str:
    words = {
        Policy.EXACT: "any difference refuses",
        Policy.COMPATIBLE: "a difference refuses unless it is tolerable",
        Policy.REPORT: "a difference is shown and never refuses",
        Policy.IGNORE: "differences are not judged",
    }
    text = f"{fact.policy.value}: {words[fact.policy]}, because {fact.why or _WHY[fact.kind]}"
    if fact.type.compatible is not None:
        text += f"; `compatible` tolerates {fact.type.why_compatible}"
    return text


_WHY = {
    Kind.STEP: "outputs change with it",
    Kind.NOISE: "the last bits differ with it, and near-ties may flip",
    Kind.FAILURE: "the server may not start with another value",
    Kind.IDENTITY: "it says what runs",
    Kind.RULES: "it says how a host is judged",
}
