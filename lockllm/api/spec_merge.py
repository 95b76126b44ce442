"""An existing spec brought up to what a checkpoint, a command line or a running server shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.api import spec_file
from lockllm.documents import toml
from lockllm.documents.spec import Spec
from lockllm.documents.spec_edit import edit
from lockllm.documents.spec_text import Start, entries
from lockllm.errors import SpecError
from lockllm.facts import keys, registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import values
from lockllm.judge.policy import inside

_COMMIT = re.compile(r"[0-9a-f]{40}\Z")


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """A spec before and after, and what only a person can decide."""

    before: str
    text: str
    changes: Mapping[Path, Any]  # None: the key was removed
    notes: tuple[str, ...] = ()


def update(path: str, start: Start) -> Update:
    """The spec in a file with what was seen merged into it, in place. Nothing is written. Raises SpecError."""
    text, table = spec_file.text(path), spec_file.table(path)
    spec = spec_file.parse(text, path)
    data: Any = toml.load(text, path, SpecError)
    for part in table:
        data = data[part]
    merged = merge(start, spec, data)
    edited = edit(text, merged.changes, name=path, table=table) if merged.changes else text
    spec_file.parse(edited, path)
    return Update(before=text, text=edited, changes=merged.changes, notes=merged.notes)


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """What an existing spec has to change to say what was seen, and what only a person can decide."""

    changes: Mapping[Path, Any]  # None: the key is removed
    notes: tuple[str, ...] = ()


def merge(start: Start, spec: Spec, data: Mapping[str, Any]) -> Merge:
    """How a spec becomes one of what was seen. `data` is the spec's own table. What it says and nobody saw stays.

    A value written another way, a range that holds the version seen, and a branch stay as they are written.
    """
    changes: dict[Path, Any] = {}
    notes: list[str] = []
    _merge_checkpoint(start, spec, changes, notes)
    _merge_engine(start, spec, changes)
    wanted = entries(start)
    ordered = sorted(wanted, key=registry.position)
    changes |= {path: wanted[path] for path in ordered if not _says(spec, data, path, wanted[path])}
    seen = values(start.readings)
    for path in sorted({*spec.values, *spec.auto} - wanted.keys(), key=registry.position):
        if path[0] not in ("serve", "sampling", "env") or not start.readings:
            continue
        if path not in seen:
            notes.append(f"{keys.dotted(path)} of the spec was not seen; remove the line if it is not meant")
        elif path in spec.values and not registry.same(registry.find(path), spec.values[path], seen[path]):
            changes[path] = None  # what is in force is the engine's own default
    return Merge(changes=changes, notes=tuple(notes))


def _merge_checkpoint(start: Start, spec: Spec, changes: dict[Path, Any], notes: list[str]) -> None:
    if start.repo is not None and start.repo == spec.repo:
        pinned = spec.revision is not None and _COMMIT.match(spec.revision)
        if start.revision is not None and pinned and start.revision != spec.revision:
            changes["checkpoint", "revision"] = start.revision
    elif (start.repo is None) == (spec.repo is None):
        if start.repo is not None:
            changes["checkpoint", "repo"] = start.repo
            changes["checkpoint", "revision"] = start.revision
        elif start.path is not None and start.path.rstrip("/") != (spec.path or "").rstrip("/"):
            changes["checkpoint", "path"] = start.path
    elif start.repo is not None or start.path is not None:
        own, other = spec.repo or spec.path, start.repo or start.path
        notes.append(f"the spec names the checkpoint {own}, and {other} was seen: [checkpoint] stays as it is")


def _merge_engine(start: Start, spec: Spec, changes: dict[Path, Any]) -> None:
    if start.engine is not None and start.engine != spec.engine:
        changes["engine", "name"] = start.engine
    if start.version is not None and (spec.engine_version is None or not inside(spec.engine_version, start.version)):
        changes["engine", "version"] = start.version


def _says(spec: Spec, data: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Whether a spec says a value already, in whatever spelling."""
    written: Any = data
    for part in path:
        written = written.get(part) if isinstance(written, Mapping) else None
    if written is None:
        return False
    row = registry.find(path)
    if path in spec.requires:
        return isinstance(value, str) and inside(spec.requires[path], value)
    if written == value or path in spec.auto:
        return bool(written == value)
    return registry.same(row, spec.values.get(path, registry.read(row, written)), registry.read(row, value))
