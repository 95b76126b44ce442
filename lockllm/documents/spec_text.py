"""A first llm.toml, from what a checkpoint, a command line or a running server shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lockllm.documents import toml
from lockllm.facts import keys, registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Raw, Reading

_GROUPS = ("tokenizer", "chat_template", "adapters", "draft", "serve", "sampling", "env", "host")
_BESIDE = ("repo", "revision", "scale")
"""What a spec says of a draft model or an adapter; the rest is found out from its files."""
_OF_A_CACHE = (("env", "HF_HUB_OFFLINE"), ("env", "TRANSFORMERS_OFFLINE"))
"""Variables that decide which commit of a repository is served: of a folder they decide nothing."""
_DERIVED = (By.RULE, By.DEFAULT, By.FILE, By.PACKAGE)


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What a spec begins with. One of `repo` and `path`; neither leaves a line to be filled in."""

    engine: str | None = None
    version: str | None = None
    repo: str | None = None
    revision: str | None = None
    path: str | None = None
    readings: tuple[Reading, ...] = ()  # all that was seen, witnesses and rules alike
    auto: frozenset[Path] = frozenset()
    paths: Mapping[
        Path, str
    ] = {}  # of a fact whose value is the path of something that is read, and of `draft.path` and its like
    notes: tuple[str, ...] = ()  # what the spec does not say although the command does


def write(start: Start) -> str:
    """The text of a spec that locks to what was seen: what the engine's own rules give anyway is left out."""
    lines = ["# What lockllm locks. Edit it, then run `lockllm lock`.", "", "[checkpoint]"]
    if start.repo is not None:
        lines.append(f"repo = {toml.value(start.repo)}")
        if start.revision is not None:
            lines.append(f"revision = {toml.value(start.revision)}")
        else:
            lines.append('# revision = "main"   a branch, tag or commit')
    elif start.path is not None:
        lines.append(f"path = {toml.value(start.path)}")
    else:
        lines.append('# repo = "OWNER/NAME"   or path = "DIRECTORY"')
    lines += ["", "[engine]"]
    lines.append(f"name = {toml.value(start.engine)}" if start.engine else '# name = "vllm"')
    lines.append(f"version = {toml.value(start.version)}" if start.version else '# version = ">=0.10,<0.11"')
    chosen = entries(start)
    for group in _GROUPS:
        members = [path for path in sorted(chosen, key=registry.position) if path[0] == group]
        if members:
            lines += ["", f"[{group}]"]
            lines += [f"{keys.dotted(path[1:])} = {toml.value(chosen[path])}" for path in members]
    return "\n".join(lines) + "\n"


def entries(start: Start) -> dict[Path, Any]:
    """What a spec says besides its checkpoint and engine."""
    chosen = settings(start.readings)
    for path, text in start.paths.items():
        chosen = {each: value for each, value in chosen.items() if each[: len(path)] != path}
        chosen[path] = text
        if path[-1] == "path":
            chosen.pop((*path[:-1], "repo"), None)
    for path in start.auto:
        chosen.setdefault(path, "auto")
    if start.path is not None:
        chosen = {path: value for path, value in chosen.items() if path not in _OF_A_CACHE}
    return chosen


def settings(readings: Iterable[Reading]) -> dict[Path, Any]:
    """The facts that a spec has to name: seen at a witness, and not what a rule or default gives by itself."""
    grouped: dict[Path, list[Reading]] = {}
    for reading in readings:
        row = reading.fact
        beside = row.group not in ("adapters", "draft") or row.path[-1] in _BESIDE
        if row.group in _GROUPS and row.settable and row.lockable and row.known and beside:
            grouped.setdefault(reading.fact.path, []).append(reading)
    chosen: dict[Path, Any] = {}
    for path, found in grouped.items():
        best = min(found, key=lambda each: each.by)
        typed = best.by in (By.PROCESS, By.PLAN, By.WORKER)
        ruled = any(
            each.by in _DERIVED and registry.same(each.fact, best.value, each.value)
            for each in found
            if each is not best
        )
        usable = best.value is not ABSENT and not isinstance(best.value, Raw)
        if (
            usable
            and best.by not in _DERIVED
            and (typed or not ruled)
            and (path[0] != "host" or path == ("host", "gpu"))
        ):
            chosen[path] = registry.dump(best.fact, best.value)
    return {path: value for path, value in chosen.items() if not _shadowed(path, chosen)}


def _shadowed(path: Path, chosen: Mapping[Path, Any]) -> bool:
    return any(path[:length] in chosen for length in range(1, len(path)))
