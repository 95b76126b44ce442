"""What `lock` writes and prints of each variant of a spec."""

from __future__ import annotations

import os
from typing import Any

import click
import msgspec

from lockllm.api import diff, files, locking
from lockllm.cli import _options
from lockllm.documents.lock import Lock
from lockllm.documents.lock import write as lock_text
from lockllm.documents.spec import Spec
from lockllm.errors import LockError
from lockllm.facts import keys, registry
from lockllm.judge.diff import diff as compare
from lockllm.output import render_diff
from lockllm.output.escape import readable
from lockllm.resolve import Filled


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of the spec, and the file its lock goes to."""

    spec: Spec
    path: str
    variant: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The new lock of one variant, and the lock that its file held."""

    target: Target
    filled: Filled
    old: Lock | None


def targets(spec: Spec, path: str) -> list[Target]:
    """The spec itself and each of its variants."""
    stem = path.removesuffix(".lock")
    variants = [Target(spec=each, path=f"{stem}.{name}.lock", variant=name) for name, each in spec.variants.items()]
    return [Target(spec=spec, path=path), *variants]


def check(found: list[Target], quiet: bool) -> int:
    """Print the stale facts of every lock; the exit code."""
    code = 0
    for target in found:
        stale = locking.stale(target.spec, files.read_lock(target.path))
        code = 1 if stale else code
        if stale:
            click.echo(f"{readable(target.path)} is stale: {len(stale)} {'fact' if len(stale) == 1 else 'facts'}")
            click.echo("".join(f"  {readable(key)}\n" for key in stale) + "  fix   run `lockllm lock`")
        elif not quiet:
            click.echo(f"{readable(target.path)} is up to date with {readable(target.spec.name)}")
    return code


def resolve(found: list[Target], options: dict[str, Any]) -> tuple[list[Outcome], locking.Edited | None]:
    """Every variant resolved, and the spec with accepted values where `--write` asks for it. Nothing is written to disk."""
    from lockllm.cli._progress import hashing

    olds = [files.read_lock(each.path) if _is_there(each.path) else None for each in found]
    with hashing(enabled=True) as progress:
        choices = locking.Choices(
            observation=files.read_observation(options["observation"]) if options["observation"] else None,
            upgrade=options["upgrade"],
            upgrade_facts=options["upgrade_fact"],
            pin=options["pin"],
            accept_observed=options["accept_observed"],
            python=options["python"],
            gpu=options["gpu"],
            offline=options["offline"],
            blake3=options["blake3"],
            recall=options["dry_run"],
            progress=progress,
        )
        locks = locking.resolve([(each.spec, old) for each, old in zip(found, olds, strict=True)], choices)
        edited = None
        if options["write"]:
            former = {each.variant: old for each, old in zip(found, olds, strict=True)}
            edited = locking.write_back(found[0].spec.name, former, locks, choices)
            locks = list(edited.locks)
    outcomes = [
        Outcome(target=target, filled=filled, old=old) for target, filled, old in zip(found, locks, olds, strict=True)
    ]
    return outcomes, edited


def write(outcome: Outcome) -> None:
    """Write the lock, unless its file holds it already, byte for byte."""
    text = lock_text(outcome.filled.lock)
    path = outcome.target.path
    if path == "-":
        click.echo(text, nl=False)
        return
    if _is_there(path) and files.read_bytes(path, LockError, "") == text.encode():
        return
    files.write_text(path, text)


def write_spec(edited: locking.Edited, *, dry_run: bool, show: bool) -> str:
    """Write the spec in place, or show the change as a diff; what was done in words."""
    name = readable(edited.path)
    if not edited.changes:
        return f"{name} stays as it is: nothing was accepted that it does not say\n"
    if dry_run:
        if show:
            click.echo(_options.text_diff(edited.before, edited.text, edited.path), nl=False)
        return ""
    files.write_text(edited.path, edited.text)
    return f"wrote {name}:\n{_options.listed(edited.changes)}"


def change_text(outcome: Outcome, format_: str, options: dict[str, Any]) -> str:
    """What the new lock changes, as text."""
    names = (outcome.target.path, "as resolved now")
    return render_diff(diff(outcome.old or Lock(), outcome.filled.lock, names=names), format_, **options)


def summary(outcome: Outcome, *, dry_run: bool) -> str:
    """One line on what was done, then what is unpinned and why."""
    lock, path = outcome.filled.lock, readable(outcome.target.path)
    moved = len(compare(outcome.old or Lock(), lock).changes)
    pinned = len(lock.values) + len(lock.absent)
    if dry_run:
        word = "would not change" if outcome.old is not None and not moved else "would change"
        lines = [f"{path} {word}; nothing was written"]
    elif outcome.old is None:
        lines = [f"wrote {path}: {pinned} facts pinned"]
    elif not moved:
        lines = [f"{path} is up to date: {pinned} facts pinned"]
    else:
        lines = [f"wrote {path}: {moved} {'fact' if moved == 1 else 'facts'} changed, {pinned} pinned"]
    for warning in (*lock.warnings, *outcome.filled.notes, *outcome.filled.warnings):
        lines.append(f"  warning  {readable(warning)}")
    if lock.unpinned:
        lines.append(f"not pinned: {len(lock.unpinned)}")
        for at in sorted(lock.unpinned, key=registry.position):
            lines.append(f"  {keys.dotted(at)}: {readable(lock.unpinned[at])}")
    return "\n".join(lines) + "\n"


def _is_there(path: str) -> bool:
    """Whether a lock is there already; a device or pipe is written and never read."""
    return os.path.lexists(path) and (os.path.isfile(path) or not os.path.exists(path))
