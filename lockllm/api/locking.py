"""The steps of `lock`: find the spec, resolve each variant, write, and say what was done."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import click
import msgspec

from lockllm.api import files, template_texts
from lockllm.cli import _options
from lockllm.documents.lock import Lock
from lockllm.documents.lock import write as lock_text
from lockllm.documents.spec import Spec
from lockllm.errors import LockError, SpecError, UsageError
from lockllm.facts import keys, registry
from lockllm.facts.observation import Observation
from lockllm.judge.diff import diff
from lockllm.judge.report import Diff
from lockllm.output import render_diff
from lockllm.output.escape import readable
from lockllm.output.values import show_pair
from lockllm.resolve import Filled, Options
from lockllm.resolve.agreement import Disagreement

_FEW = 4
"""Disagreements of one family that are told one by one."""
_BLAKE3 = ("checkpoint", "blake3")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of the spec, and the file its lock goes to."""

    spec: Spec
    path: str
    variant: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What resolving one variant gave, and the lock that stood there."""

    target: Target
    filled: Filled
    old: Lock | None


def targets(spec: Spec, path: str) -> list[Target]:
    """The spec itself and each of its variants."""
    stem = path.removesuffix(".lock")
    found = [Target(spec=spec, path=path)]
    return found + [Target(spec=each, path=f"{stem}.{name}.lock", variant=name) for name, each in spec.variants.items()]


def check(found: list[Target], quiet: bool) -> int:
    """Print the stale facts of every lock; the exit code."""
    from lockllm.resolve import check as stale_keys
    from lockllm.resolve.named import with_contents

    code = 0
    for target in found:
        held = files.read_lock(target.path)
        stale = stale_keys(with_contents(target.spec, held), held)
        code = 1 if stale else code
        if stale:
            click.echo(f"{readable(target.path)} is stale: {len(stale)} {'fact' if len(stale) == 1 else 'facts'}")
            click.echo("".join(f"  {readable(key)}\n" for key in stale) + "  fix   run `lockllm lock`")
        elif not quiet:
            click.echo(f"{readable(target.path)} is up to date with {readable(target.spec.name)}")
    return code


def resolve(found: list[Target], options: dict[str, Any]) -> list[Outcome]:
    """Every variant resolved, before anything is written. Raises ResolveError where host and spec disagree."""
    from lockllm.api.world import World
    from lockllm.cli._progress import hashing
    from lockllm.resolve import resolve as resolve_spec
    from lockllm.resolve.named import with_contents

    observation = files.read_observation(options["observation"]) if options["observation"] else None
    if observation is None and (options["pin"] or options["accept_observed"]):
        word = "--pin" if options["pin"] else "--accept-observed"
        raise UsageError(
            f"{word} takes facts from an observation, and there is none",
            where="the command line",
            fix="add --observation FILE",
        )
    olds = {each.path: files.read_lock(each.path) for each in found if _stands(each.path)}
    chosen = _chosen(options, observation, olds.values())
    outcomes = []
    world = World(
        python=options["python"], gpu=options["gpu"], offline=options["offline"],
        blake3=options["blake3"] or any(path[:2] == _BLAKE3 for old in olds.values() for path in old.values),
    )  # fmt: skip
    with closing(world), hashing(enabled=True) as progress:
        world.progress = progress
        for target in found:
            old = olds.get(target.path)
            filled = resolve_spec(with_contents(target.spec), old, world, chosen, observation)
            _agree(target, filled)
            if options["dry_run"] and old is not None:
                world.recall(target.spec, old)
            outcomes.append(Outcome(target=target, filled=filled, old=old))
    return outcomes


def _stands(path: str) -> bool:
    """Whether a lock is there already; what is no regular file is written and never read."""
    return os.path.lexists(path) and (os.path.isfile(path) or not os.path.exists(path))


def _chosen(options: dict[str, Any], observation: Observation | None, olds: Iterable[Lock]) -> Options:
    """What the options say of single facts. Raises UsageError for a glob that means none."""
    seen = [each.fact.path for each in observation.readings] if observation else []
    held = [path for lock in olds for path in (*lock.values, *lock.absent, *lock.unpinned)]
    held += [row.path for row in registry.ROWS] + [(*each.path, "x") for each in registry.FAMILIES]
    return Options(
        upgrade=options["upgrade"],
        upgrade_facts=_options.globs("--upgrade-fact", options["upgrade_fact"], held, of=""),
        pin=_options.globs("--pin", options["pin"], seen, of="observed"),
        accept_observed=_options.globs("--accept-observed", options["accept_observed"], seen, must_hit=False),
    )


def _agree(target: Target, filled: Filled) -> None:
    told = filled.disagreements
    keys_told = {each.fact.key for each in told}
    followers = Counter(each.because for each in told if each.because in keys_told)
    families: dict[str, list[Disagreement]] = {}
    for each in told:
        if each.because not in keys_told:
            row = registry.family(each.fact.path)
            families.setdefault(f"{keys.dotted(row.path)}.*" if row is not None else each.fact.key, []).append(each)
    problems = []
    for key, members in families.items():
        few = len(members) <= _FEW
        problems += [_problem(target, each, followers[each.fact.key]) for each in (members if few else ())]
        problems += [] if few else [_many(target, key, members)]
    if problems:
        first, *rest = problems
        raise SpecError(first.what, where=first.where, fix=first.fix, also=tuple(rest))


def _problem(target: Target, each: Disagreement, followers: int) -> SpecError:
    resolved, observed = show_pair(each.resolved, each.observed, limit=80)
    resolved, observed = (value if value != "absent" else "nothing" for value in (resolved, observed))
    return SpecError(
        f"the host shows {each.fact.key} = {observed}, {target.spec.name} resolves to {resolved}{_follow(followers)}",
        where=f"{target.spec.where(each.fact.key)}; seen at {each.source}",
        fix=f"change the spec, or the host, or take the host's: --accept-observed {shlex.quote(each.fact.key)}",
    )


def _many(target: Target, key: str, members: list[Disagreement]) -> SpecError:
    names = ", ".join(keys.dotted(each.fact.path[-1:]) for each in members[:_FEW])
    return SpecError(
        f"the host shows other values of {len(members)} facts of {key}: {names} and {len(members) - _FEW} more",
        where=f"{target.spec.name}; seen at {members[0].source}",
        fix=f"change the spec, or the host, or take the host's: --accept-observed {shlex.quote(key)}",
    )


def _follow(count: int) -> str:
    return f", and {count} {'fact follows' if count == 1 else 'facts follow'} from it" if count else ""


def write(outcome: Outcome) -> None:
    """Write the lock, unless it stands there already byte for byte."""
    text = lock_text(outcome.filled.lock)
    path = outcome.target.path
    if path == "-":
        click.echo(text, nl=False)
        return
    if _stands(path) and files.read_bytes(path, LockError, "") == text.encode():
        return
    files.write_text(path, text)


def change(outcome: Outcome) -> Diff:
    """What the new lock changes."""
    moved = diff(outcome.old or Lock(), outcome.filled.lock, names=(outcome.target.path, "as resolved now"))
    old, new = outcome.old or Lock(), outcome.filled.lock
    before, after = old.get("chat_template.sha256"), new.get("chat_template.sha256")
    if before == after or not isinstance(before, str) or not isinstance(after, str):
        return moved
    return msgspec.structs.replace(moved, template_before=template_texts.of(old), template_after=template_texts.of(new))


def change_text(outcome: Outcome, format_: str, options: dict[str, Any]) -> str:
    """The change as text."""
    return render_diff(change(outcome), format_, **options)


def summary(outcome: Outcome, *, dry_run: bool) -> str:
    """One line on what was done, then what is unpinned and why."""
    lock, path = outcome.filled.lock, readable(outcome.target.path)
    moved, pinned = len(change(outcome).changes), len(lock.values) + len(lock.absent)
    if dry_run:
        word = "would not change" if outcome.old is not None and not moved else "would change"
        lines = [f"{path} {word}; nothing was written"]
    elif outcome.old is None:
        lines = [f"wrote {path}: {pinned} facts pinned"]
    elif not moved:
        lines = [f"{path} is up to date: {pinned} facts pinned"]
    else:
        lines = [f"wrote {path}: {moved} {'fact' if moved == 1 else 'facts'} changed, {pinned} pinned"]
    for warning in (*lock.warnings, *outcome.filled.warnings):
        lines.append(f"  warning  {readable(warning)}")
    if lock.unpinned:
        lines.append(f"not pinned: {len(lock.unpinned)}")
        for at in sorted(lock.unpinned, key=registry.position):
            lines.append(f"  {keys.dotted(at)}: {readable(lock.unpinned[at])}")
    return "\n".join(lines) + "\n"
