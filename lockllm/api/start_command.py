"""The command that starts a server as a lock says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm import engines
from lockllm.api.host import spec_beside
from lockllm.documents.lock import Lock
from lockllm.errors import LockError
from lockllm.facts import keys
from lockllm.facts.fact import Path
from lockllm.facts.observation import Raw
from lockllm.launch import manifests
from lockllm.resolve.named_files import is_content, place


def text(lock: Lock, kind: str) -> str:
    """The command for a shell, for docker, or as a Kubernetes manifest. Raises LockError for an engine that is not known."""
    engine, context = _engine(lock)
    values = {path: value for path, value in lock.values.items() if not isinstance(value, Raw)}
    facts = {path: value for path, value in values.items() if lock.via.get(path) not in ("rule", "default")}
    paths = _local_paths(lock)
    mounts = manifests.mounts(paths.values()) if kind != "shell" else {}
    for path, file in paths.items():
        if path[-1] != "path" or (*path[:-1], "repo") not in facts:
            value = str(facts.get(path, ""))
            scale = value.rpartition(":")[2] if value.count(":") == 2 else ""  # sha256:…:0.5
            facts[path] = (mounts.get(file) or os.path.relpath(file)) + (f":{scale}" if scale else "")
    facts, notes = _without_contents(facts)
    command = engine.command(facts, context)
    notes += [_missing_model(prefix, values) for prefix in _unnamed_models(facts)]
    return manifests.write(msgspec.structs.replace(command, notes=(*command.notes, *notes)), lock, kind, mounts)


def _engine(lock: Lock) -> tuple[engines.Engine, engines.Context]:
    name, version = lock.get("engine.name"), lock.get("engine.version")
    if version is not None and not isinstance(version, str):
        raise LockError(f"engine.version is {version!r}", where=lock.name, fix="run `lockllm lock`")
    if not isinstance(name, str) or not engines.known(name):
        raise LockError(
            f"this lockllm does not know the engine {name!r}",
            where=lock.name,
            fix="lock one of " + ", ".join(engines.names()),
        )
    values = {path: value for path, value in lock.values.items() if not isinstance(value, Raw)}
    context = engines.Context(
        version=version,
        checkpoint={path: value for path, value in values.items() if path[0] not in ("serve", "sampling", "host")},
        host={path: value for path, value in values.items() if path[0] == "host"},
        packages={path[1]: str(value) for path, value in values.items() if path[0] == "packages"},
    )
    return engines.load(name), context


def _local_paths(lock: Lock) -> dict[Path, str]:
    """The files and folders that the spec beside the lock names, by the fact each is given for."""
    spec = spec_beside(lock)
    if spec is None:
        return {}
    paths: dict[Path, str] = {("checkpoint", "path"): place(spec, spec.path)} if spec.path is not None else {}
    paths |= {(*prefix, "path"): place(spec, name) for prefix, name in spec.paths.items()}
    for path, value in spec.values.items():
        content = lock.values.get(path)
        if path[0] not in ("serve", "env") or not isinstance(value, str) or not isinstance(content, str):
            continue
        if is_content(content) or is_content(content.rpartition(":")[0]):
            name = value if is_content(content) else value.rpartition(":")[0]
            if os.path.exists(place(spec, name)):
                paths[path] = place(spec, name)
    return paths


def _without_contents(facts: Mapping[Path, Any]) -> tuple[dict[Path, Any], list[str]]:
    """The facts whose value can be typed, and a note for each file of which the lock has only the digest."""
    typed = {
        path: value
        for path, value in facts.items()
        if path[0] not in ("serve", "env") or not str(value).startswith("sha256:")
    }
    notes = [
        f"{keys.dotted(path)}: name the file whose content is {value}"
        for path, value in facts.items()
        if path not in typed
    ]
    return typed, notes


def _unnamed_models(facts: Mapping[Path, Any]) -> list[Path]:
    """Draft models and adapters of which neither a repository nor a path is known."""
    prefixes = dict.fromkeys(
        path[: 2 if path[0] == "adapters" else 1] for path in facts if path[0] in ("draft", "adapters")
    )
    return [prefix for prefix in prefixes if not {(*prefix, "repo"), (*prefix, "path")} & facts.keys()]


def _missing_model(prefix: Path, values: Mapping[Path, Any]) -> str:
    digest = values.get((*prefix, "content_sha256"))
    what = f" whose files have the content_sha256 {digest}" if digest is not None else ""
    name = f"the adapter {prefix[1]}" if prefix[0] == "adapters" else "the draft model"
    return f"{keys.dotted(prefix)}: give the server {name}{what}"
