"""`lockllm command`: the command that realizes a lock."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from lockllm import engines
from lockllm.api import files
from lockllm.api.host import spec_beside
from lockllm.documents.lock import Lock
from lockllm.errors import LockError
from lockllm.facts import keys
from lockllm.facts.fact import Path
from lockllm.facts.observation import Raw
from lockllm.launch import manifests
from lockllm.resolve.named_files import is_content, place


@click.command(short_help="Print the command that realizes a lock.")
@click.argument("lock", default="llm.lock")
@click.option(
    "--as", "kind", type=click.Choice(manifests.KINDS), default="shell", show_default=True, help="Form of the command."
)
def command(lock: str, kind: str) -> None:
    """Print the command that realizes LOCK (default: llm.lock).

    Options that the spec omits are added only if their value would change without them. Facts that no option of the engine can set
    are listed in comments. Files and folders that the spec beside LOCK names are mounted into a container.
    """
    held = files.read_lock(lock)
    name, version = held.get("engine.name"), held.get("engine.version")
    if version is not None and not isinstance(version, str):
        raise LockError(f"engine.version is {version!r}", where=lock, fix="run `lockllm lock`")
    if not isinstance(name, str) or not engines.known(name):
        raise LockError(
            f"this lockllm does not know the engine {name!r}",
            where=lock,
            fix="lock one of " + ", ".join(engines.names()),
        )
    values = {path: value for path, value in held.values.items() if not isinstance(value, Raw)}
    context = engines.Context(
        version=version,
        checkpoint={path: value for path, value in values.items() if path[0] not in ("serve", "sampling", "host")},
        host={path: value for path, value in values.items() if path[0] == "host"},
        packages={path[1]: str(value) for path, value in values.items() if path[0] == "packages"},
    )
    spelled = {path: value for path, value in values.items() if held.via.get(path) not in ("rule", "default")}
    paths = _paths(held, lock)
    mounts = manifests.mounts(paths.values()) if kind != "shell" else {}
    for path, file in paths.items():
        if path[-1] != "path" or (*path[:-1], "repo") not in spelled:
            value = str(spelled.get(path, ""))
            scale = value.rpartition(":")[2] if value.count(":") == 2 else ""  # sha256:…:0.5
            spelled[path] = (mounts.get(file) or os.path.relpath(file)) + (f":{scale}" if scale else "")
    spelled, notes = _without_contents(spelled)
    built = engines.load(name).command(spelled, context)
    notes += [note for prefix in _unnamed(spelled) if (note := _note(prefix, values))]
    built = msgspec.structs.replace(built, notes=(*built.notes, *notes))
    click.echo(manifests.write(built, held, kind, mounts), nl=False)


def _paths(held: Lock, lock: str) -> dict[Path, str]:
    """Where the files and folders lie that the spec beside the lock names, by the fact that each is given for."""
    spec = spec_beside(held)
    if spec is None:
        return {}
    found: dict[Path, str] = {("checkpoint", "path"): place(spec, spec.path)} if spec.path is not None else {}
    found |= {(*prefix, "path"): place(spec, text) for prefix, text in spec.paths.items()}
    for path, value in spec.values.items():
        content = held.values.get(path)
        if path[0] not in ("serve", "env") or not isinstance(value, str) or not isinstance(content, str):
            continue
        if is_content(content) or is_content(content.rpartition(":")[0]):
            name = value if is_content(content) else value.rpartition(":")[0]
            if os.path.exists(place(spec, name)):
                found[path] = place(spec, name)
    return found


def _without_contents(facts: Mapping[Path, Any]) -> tuple[dict[Path, Any], list[str]]:
    """The facts whose value can be typed, and a note on each file of which the lock knows the content alone."""
    known = {
        path: value
        for path, value in facts.items()
        if path[0] not in ("serve", "env") or not str(value).startswith("sha256:")
    }
    notes = [
        f"{keys.dotted(path)}: name the file whose content is {value}"
        for path, value in facts.items()
        if path not in known
    ]
    return known, notes


def _unnamed(facts: Mapping[Path, Any]) -> list[Path]:
    """The models beside the checkpoint of which neither a repository nor a path is known."""
    beside = dict.fromkeys(
        path[: 2 if path[0] == "adapters" else 1] for path in facts if path[0] in ("draft", "adapters")
    )
    return [prefix for prefix in beside if not {(*prefix, "repo"), (*prefix, "path")} & facts.keys()]


def _note(prefix: Path, values: Mapping[Path, Any]) -> str:
    digest = values.get((*prefix, "content_sha256"))
    what = f" whose files have the content_sha256 {digest}" if digest is not None else ""
    name = f"the adapter {prefix[1]}" if prefix[0] == "adapters" else "the draft model"
    return f"{keys.dotted(prefix)}: give the server {name}{what}"
