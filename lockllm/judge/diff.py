"""What moved between two locks, each change once, with what it follows from and a verdict over all."""

from __future__ import annotations

from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.facts import keys, registry
from lockllm.facts.checkpoint import FILES
from lockllm.facts.fact import Fact, Kind, Path
from lockllm.facts.observation import ABSENT
from lockllm.facts.types import ANY
from lockllm.judge.causes import Moved, roots
from lockllm.judge.report import Change, Diff

VERDICTS = {
    "nothing": "nothing that changes outputs",
    "rules": "rules: hosts are judged by other rules",
    "noise": "noise: only the last bits differ, so near-ties may flip",
    "step": "step change: outputs change consistently",
    "failure": "failure: the server may not start or fit",
}
"""Verdict of a diff -> in words, weakest first."""
_KINDS = {
    Kind.IDENTITY: "nothing",
    Kind.RULES: "rules",
    Kind.NOISE: "noise",
    Kind.STEP: "step",
    Kind.FAILURE: "failure",
}
_ENGINE = ("engine", "version")
_RESOLVED = ("default", "rule")
_MISSING = object()


def diff(before: Lock, after: Lock, *, names: tuple[str, str] = ("before", "after")) -> Diff:
    """Walk both locks in registry order. `diff(a, a)` is empty; `diff(b, a)` is `diff(a, b)` turned round."""
    one, other = _held(before), _held(after)
    changes = [
        change
        for path in registry.ordered({**one, **other})
        if (change := _change(path, one.get(path, _MISSING), other.get(path, _MISSING))) is not None
    ]
    changes = _because(_moves(changes), before, after)
    changes += _settings(before, after)
    return Diff(
        before=names[0], after=names[1], verdict=_verdict(changes), changes=tuple(changes),
        is_new=before == Lock() != after, is_gone=after == Lock() != before,
        warnings=(*before.warnings, *after.warnings),
    )  # fmt: skip


def stale(held: Lock, fresh: Lock) -> list[str]:
    """The keys that a lock does not hold as the spec resolves them now: what `lock --check` names."""
    changes = diff(held, fresh).changes
    if held.edition != fresh.edition:  # an older lock stays good: what newer rules would list is no change of the spec
        changes = tuple(change for change in changes if change.kind is not Kind.RULES)
    return [change.fact.key for change in changes]


def _held(lock: Lock) -> dict[Path, Any]:
    return {**dict.fromkeys(lock.absent, ABSENT), **lock.values}


def _change(path: Path, before: Any, after: Any) -> Change | None:
    fact = registry.find(path)
    if before is not _MISSING and after is not _MISSING and registry.same(fact, before, after):
        return None
    came, gone = before is _MISSING or before is ABSENT, after is _MISSING or after is ABSENT
    if came and gone:
        return None  # looked for or not: neither lock holds a value
    return Change(
        fact=fact, before=None if came else registry.dump(fact, before), after=None if gone else registry.dump(fact, after),
        change="removed" if gone else "added" if came else "changed", kind=fact.kind, effect=fact.effect,
    )  # fmt: skip


def _moves(changes: list[Change]) -> list[Change]:
    """A file that left under one name and came back under another with the same digest has moved."""
    files = [change for change in changes if FILES.holds(change.fact.path)]
    left = {change.before["sha256"]: change for change in files if change.change == "removed"}
    moved: dict[Path, Change] = {}
    gone: set[Path] = set()
    for change in files:
        former = left.pop(change.after["sha256"], None) if change.change == "added" else None
        if former is not None:
            gone.add(former.fact.path)
            moved[change.fact.path] = msgspec.structs.replace(
                change,
                change="moved",
                before=former.before,
                moved_from=former.fact.key,
                effect="the file has another name",
            )
    return [moved.get(change.fact.path, change) for change in changes if change.fact.path not in gone]


def _because(changes: list[Change], before: Lock, after: Lock) -> list[Change]:
    moved = Moved([change.fact.path for change in changes])
    spec = after.spec
    direct: dict[Path, Path] = {}
    for change in changes:
        fact = change.fact
        via = after.via.get(fact.path) or before.via.get(fact.path) or ""
        cause = _cause(fact, via, moved, spec)
        if cause is not None:
            direct[fact.path] = cause
    root = {path: keys.dotted(found) for path, found in roots(direct).items()}
    return [
        msgspec.structs.replace(change, because=root[change.fact.path]) if change.fact.path in root else change
        for change in changes
    ]


def _cause(fact: Fact[Any], via: str, moved: Moved, spec: str) -> Path | None:
    base = moved.base(fact, via)
    if base is not None or via == spec:
        return base
    cause = moved.cause(fact, via)
    if cause is not None:
        return cause
    return _ENGINE if via in _RESOLVED and _ENGINE in moved and fact.path != _ENGINE else None


_LOOSER = "differences are judged otherwise"
_SETTINGS = {
    "include": "other files are looked at",
    "exclude": "other files are left out",
    "absent": "whether a host that has it is a mismatch",
    "asked": "whether a host that is started with it is a mismatch",
    "accepted": "the value is the host's, not what the spec resolves to",
    "env_open": "other variables may differ",
    "spec": "the checkpoint's path is read from another spec",
    "edition": "rules that came with a release hold or do not",
}
"""What else than policies and waivers decides a verdict -> what moves with it."""


def _settings(before: Lock, after: Lock) -> list[Change]:
    """Changes of how a host is judged: a lock must not be weakened unseen."""
    sides = [_judging(lock) for lock in (before, after)]
    changes = []
    for path in sorted({*sides[0], *sides[1]}):
        old, new = sides[0].get(path), sides[1].get(path)
        if (
            old == new
            or (path[0] in ("spec", "edition") and Lock() in (before, after))
            or (path[0] == "absent" and _held_otherwise(path[1:], before, after))
            or (path[0] == "asked" and _differs(path[1:], before, after))
        ):
            continue
        effect = _SETTINGS.get(path[1] if path[0] == "checkpoint" else path[0], _LOOSER)
        row: Fact[Any] = Fact(path, ANY, Kind.RULES, effect, "", known=False)
        word = "added" if old is None else "removed" if new is None else "changed"
        changes.append(Change(fact=row, before=old, after=new, change=word, kind=row.kind, effect=row.effect))
    return changes


def _judging(lock: Lock) -> dict[Path, Any]:
    """Everything of a lock besides its facts that a verdict depends on."""
    return {
        **({("spec",): lock.spec} if lock.spec != "llm.toml" else {}),
        ("edition",): lock.edition,
        **{
            ("checkpoint", name): list(globs)
            for name, globs in (("include", lock.include), ("exclude", lock.exclude))
            if globs
        },
        **({("env_open",): list(lock.env_open)} if lock.env_open else {}),
        **{("absent", *path): "listed" for path in lock.absent},
        **{("asked", *path): value for path, value in lock.asked.items()},
        **{("accepted", *path): "taken from a host" for path in lock.accepted},
        **{("policy", glob): policy.value for glob, policy in lock.policy.items()},
        **{("requires", keys.dotted(path)): text for path, text in lock.requires.items()},
        **{
            ("waive", each.fact, str(each.found)): f"until {each.until or 'for good'}: {each.reason}"
            for each in lock.waive
        },
    }


def _held_otherwise(path: Path, before: Lock, after: Lock) -> bool:
    """Whether the diff already shows the fact: one of the locks holds a value for it."""
    return path in before.values or path in after.values


def _differs(path: Path, before: Lock, after: Lock) -> bool:
    """Whether the diff already shows the fact: its values differ, or only one lock holds one."""
    return _change(path, before.values.get(path, _MISSING), after.values.get(path, _MISSING)) is not None


def _verdict(changes: list[Change]) -> str:
    order = list(VERDICTS)
    kinds = [_KINDS[change.kind] if change.change != "moved" else "nothing" for change in changes]
    return max(kinds, key=order.index, default="nothing")
