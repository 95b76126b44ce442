"""The terms of a judgement, as spec and lock spell them alike: policies and waivers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from lockllm.documents import toml
from lockllm.facts import keys
from lockllm.facts.fact import Path, Policy

MOST = 500
"""Policies, and waivers, of one document: each is held against every fact."""
_MOST_GLOB_TEXT = 20_000  # characters of `include` or `exclude`, which each file of 50,000 is held against
MOST_PROBLEMS = 100
"""Problems of one document that are told: each is looked for in the text, and nobody reads more."""


class Waiver(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that somebody decided to live with: the fact, the value that is accepted, and why."""

    fact: str
    found: Any
    reason: str
    until: str | None = None  # the last day, YYYY-MM-DD, judged against the observation's time


def read_policy(raw: Any, problem: Any) -> dict[str, Policy]:
    """The `[policy]` table of a spec or lock. `problem(path, what, fix)` is called for each problem."""
    policies: dict[str, Policy] = {}
    if not isinstance(raw, dict):
        problem(("policy",), "policy is not a table", 'write [policy] and lines such as "host.driver" = "report"')
        return policies
    listed = list(leaves((), raw))
    if len(listed) > MOST:
        problem(("policy",), f"policy holds {len(listed):,} lines, at most {MOST:,} are read", "use globs")
    for path, word in listed[:MOST]:
        glob = path[0] if len(path) == 1 else keys.dotted(path)
        try:
            keys.Glob(glob)
            policies[glob] = Policy(word)
        except ValueError:
            words = ", ".join(each.value for each in Policy)
            problem(("policy", *path), f"policy {glob} is {word!r}", f"write one of {words}")
    return policies


def read_globs(raw: Any, path: Path, problem: Any) -> tuple[str, ...]:
    """`include`, `exclude` or `env_open` of a spec or lock: each glob is held against every file or variable."""
    key = keys.dotted(path)
    if not isinstance(raw, list) or not all(isinstance(each, str) and each for each in raw):
        problem(
            path,
            f"{key} must be a list of texts, found {shown(raw)}",
            'write ["…"]' if key == "env_open" else 'write ["*.safetensors"]',
        )
        return ()
    if len(raw) > MOST or sum(map(len, raw)) > _MOST_GLOB_TEXT:
        what = f"{key} holds {len(raw):,} globs of {sum(map(len, raw)):,} characters"
        problem(path, f"{what}, at most {MOST:,} of {_MOST_GLOB_TEXT:,} are read", "use wider globs")
        return ()
    return tuple(raw)


def shown(raw: Any) -> str:
    """A value as a message quotes it."""
    text = toml.value(raw) if isinstance(raw, (str, int, float, list, dict)) else str(raw)
    return text if len(text) <= 60 else text[:57] + "..."


def read_waivers(raw: Any, problem: Any, *, digests: bool = True) -> tuple[Waiver, ...]:
    """The `[[waive]]` tables of a spec or lock. `digests`: the waiver of a file must name the digest that it accepts."""
    if not isinstance(raw, list) or not all(isinstance(each, dict) for each in raw):
        problem(("waive",), "waive is not a list of tables", "write [[waive]] with fact, found and reason")
        return ()
    if len(raw) > MOST:
        problem(("waive",), f"there are {len(raw):,} waivers, at most {MOST:,} are read", "use globs")
    waivers = []
    for table in raw[:MOST]:
        unknown = sorted(set(table) - {"fact", "found", "reason", "until"})
        fact = table.get("fact")
        if unknown:
            problem(("waive",), f"waive has no key {unknown[0]}", "write fact, found, reason and, if you like, until")
        elif not isinstance(fact, str) or not fact:
            problem(("waive",), "a waiver names no fact", 'write fact = "host.gpu_product"')
        elif "found" not in table:
            problem(("waive",), f"the waiver of {fact} names no value", "write found = the value that is accepted")
        elif not isinstance(table.get("reason"), str) or not table["reason"].strip():
            problem(("waive",), f"the waiver of {fact} gives no reason", 'write reason = "why it is accepted"')
        elif "until" in table and _day(table["until"]) is None:
            problem(("waive",), f"until of the waiver of {fact} is not a date", "write until = 2027-03-31")
        elif digests and _may_be_a_file(fact) and not _has_digest(table["found"]):
            what = f"the waiver of {fact} names no digest, so it would accept any content"
            problem(("waive",), what, 'write found = { size = BYTES, sha256 = "…" }')
        else:
            waivers.append(
                Waiver(fact=fact, found=table["found"], reason=table["reason"], until=_day(table.get("until")))
            )
    return tuple(waivers)


def _may_be_a_file(fact: str) -> bool:
    try:
        return keys.Glob(fact).matches(("checkpoint", "files", "")) or keys.parse(fact)[:2] == ("checkpoint", "files")
    except ValueError:
        return False


def _has_digest(found: Any) -> bool:
    digest = found.get("sha256") if isinstance(found, dict) else None
    return isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest) is not None


def globbed(waivers: Iterable[Waiver]) -> list[tuple[keys.Glob, Waiver]]:
    """Waivers by what they name; one that spells no key names nothing."""
    found = []
    for each in waivers:
        with suppress(ValueError):
            found.append((keys.Glob(each.fact), each))
    return found


def leaves(
    path: Path, table: Mapping[str, Any], enters: Callable[[Path], bool] = lambda here: True
) -> Iterable[tuple[Path, Any]]:
    """What a table holds, by its whole path; a table that `enters` refuses, or an empty one, is a value."""
    waiting: list[tuple[Path, Any]] = [((*path, key), raw) for key, raw in reversed(list(table.items()))]
    while waiting:
        here, raw = waiting.pop()
        if isinstance(raw, dict) and raw and enters(here):
            waiting += [((*here, key), each) for key, each in reversed(list(raw.items()))]
        else:
            yield here, raw


def _day(raw: Any) -> str | None:
    text = raw.isoformat()[:10] if hasattr(raw, "isoformat") else raw
    is_day = isinstance(text, str) and re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", text)
    return str(text) if is_day else None
