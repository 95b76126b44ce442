"""A spec and its variants resolved into locks, and what stands against a lock."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import msgspec

from lockllm.api import spec_file
from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.errors import ArgumentError, SpecError
from lockllm.facts import keys, registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import Observation
from lockllm.output.values import show_pair
from lockllm.resolve import Filled, Options
from lockllm.resolve.disagreements import Disagreement

_FEW = 4
"""Disagreements of one family that are listed one by one."""
_BLAKE3 = ("checkpoint", "blake3")


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller of `lock` asks for."""

    observation: Observation | None = None
    upgrade: bool = False
    upgrade_facts: Sequence[str] = ()
    pin: Sequence[str] = ()
    accept_observed: Sequence[str] = ()
    python: str | None = None
    gpu: str | None = None
    offline: bool = False
    blake3: bool = False
    cache: str = "auto"
    recall: bool = False  # whether the texts of the templates of older locks are fetched, so that a diff can show them
    progress: Any = None


def resolve(pairs: Sequence[tuple[Spec, Lock | None]], choices: Choices) -> list[Filled]:
    """Each spec resolved beside the lock that it had. Raises SpecError where the observed host and a spec disagree."""
    from lockllm.api.world import World
    from lockllm.resolve import resolve as resolve_spec
    from lockllm.resolve.named_files import with_contents

    olds = [old for _, old in pairs if old is not None]
    options = _options(choices, olds)
    world = World(
        python=choices.python,
        gpu=choices.gpu,
        offline=choices.offline,
        blake3=choices.blake3 or any(path[:2] == _BLAKE3 for old in olds for path in old.values),
        cache=choices.cache,
        progress=choices.progress,
    )
    locks = []
    with closing(world):
        for spec, old in pairs:
            filled = resolve_spec(with_contents(spec), old, world, options, choices.observation)
            _refuse_disagreement(spec, filled)
            if choices.recall and old is not None:
                world.recall(spec, old)
            locks.append(filled)
    return locks


class Edited(msgspec.Struct, frozen=True, kw_only=True):
    """A spec with what was taken from a host written into it, and the locks of that spec."""

    path: str
    before: str
    text: str
    changes: Mapping[Path, Any]  # by key of the file's spec; None: the key was removed
    locks: tuple[Filled, ...]


def write_back(path: str, olds: Mapping[str, Lock | None], locks: Sequence[Filled], choices: Choices) -> Edited:
    """Write accepted values into the spec at `path`, in place. `olds` are the former locks by variant, `locks` the new ones.

    Nothing is written to disk. Raises SpecError where the spec and the observed host disagree after all.
    """
    from lockllm.documents.spec_edit import edit
    from lockllm.resolve.fill import fill
    from lockllm.resolve.named_files import with_contents

    options = _options(choices, [old for old in olds.values() if old is not None])
    before = text = spec_file.text(path)
    table = spec_file.table(path)
    changes: dict[Path, Any] = {}
    filled = list(locks)
    while more := _accepted(olds, filled, changes):
        changes |= more
        text = edit(text, more, name=path, table=table)
        spec = spec_file.parse(text, path)
        every = [with_contents(spec.variants[name] if name else spec) for name in olds]
        filled = [
            msgspec.structs.replace(fill(one, each.sources, old, options), notes=each.notes)
            for one, each, old in zip(every, filled, olds.values(), strict=True)
            if each.sources is not None
        ]
        for one, each in zip(every, filled, strict=True):
            _refuse_disagreement(one, each)
    return Edited(path=path, before=before, text=text, changes=changes, locks=tuple(filled))


def _accepted(names: Iterable[str], locks: Sequence[Filled], done: Mapping[Path, Any]) -> dict[Path, Any]:
    """What is still to be written, by its key in the file: below [variant.NAME] where the spec itself does not say the same."""
    found: dict[Path, Any] = {}
    for name, filled in zip(names, locks, strict=True):
        for path, value in filled.to_write.items():
            if not name or path not in found or found[path] != value:
                found[("variant", name, *path) if name else path] = value
    return {path: value for path, value in found.items() if path not in done}


def stale(spec: Spec, lock: Lock) -> list[str]:
    """The keys that a lock does not hold as its spec resolves them now."""
    from lockllm.resolve import check
    from lockllm.resolve.named_files import with_contents

    return check(with_contents(spec, lock), lock)


def _options(choices: Choices, olds: Iterable[Lock]) -> Options:
    """What is asked of single facts. Raises ArgumentError for a glob that matches none."""
    from lockllm.api.selection import globs

    for argument in ("pin", "accept_observed"):
        if getattr(choices, argument) and choices.observation is None:
            raise ArgumentError(
                "this requires an observation", where=argument, fix="give the observation of a host: --observation FILE"
            )
    seen = [each.fact.path for each in choices.observation.readings] if choices.observation else []
    known = [path for lock in olds for path in (*lock.values, *lock.absent, *lock.unpinned)]
    known += [row.path for row in registry.ROWS] + [(*each.path, "x") for each in registry.FAMILIES]
    return Options(
        upgrade=choices.upgrade,
        upgrade_facts=globs("upgrade_fact", choices.upgrade_facts, known, among=""),
        pin=globs("pin", choices.pin, seen, among="observed"),
        accept_observed=globs("accept_observed", choices.accept_observed, seen, must_match=False),
    )


def _refuse_disagreement(spec: Spec, filled: Filled) -> None:
    every = filled.disagreements
    all_keys = {each.fact.key for each in every}
    followers = Counter(each.because for each in every if each.because in all_keys)
    families: dict[str, list[Disagreement]] = {}
    for each in every:
        if each.because not in all_keys:
            row = registry.family(each.fact.path)
            families.setdefault(f"{keys.dotted(row.path)}.*" if row is not None else each.fact.key, []).append(each)
    problems = []
    for key, members in families.items():
        few = len(members) <= _FEW
        problems += [_problem(spec, each, followers[each.fact.key]) for each in (members if few else ())]
        problems += [] if few else [_many(spec, key, members)]
    if problems:
        first, *rest = problems
        raise SpecError(first.what, where=first.where, fix=first.fix, also=tuple(rest))


def _problem(spec: Spec, each: Disagreement, followers: int) -> SpecError:
    resolved, observed = show_pair(each.resolved, each.observed, limit=80)
    resolved, observed = (value if value != "absent" else "nothing" for value in (resolved, observed))
    return SpecError(
        f"the host shows {each.fact.key} = {observed}, {spec.name} resolves to {resolved}{_follow(followers)}",
        where=f"{spec.where(each.fact.key)}; seen at {each.source}",
        fix=f"change the spec, or the host, or take the host's: --accept-observed {shlex.quote(each.fact.key)}",
    )


def _many(spec: Spec, key: str, members: list[Disagreement]) -> SpecError:
    names = ", ".join(keys.dotted(each.fact.path[-1:]) for each in members[:_FEW])
    return SpecError(
        f"the host shows other values of {len(members)} facts of {key}: {names} and {len(members) - _FEW} more",
        where=f"{spec.name}; seen at {members[0].source}",
        fix=f"change the spec, or the host, or take the host's: --accept-observed {shlex.quote(key)}",
    )


def _follow(count: int) -> str:
    return f", and {count} {'fact follows' if count == 1 else 'facts follow'} from it" if count else ""
