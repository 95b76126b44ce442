"""`lockllm command`: the command that realizes a lock."""

from __future__ import annotations

import os

import click

from lockllm import engines
from lockllm.cli import _files
from lockllm.cli._observing import spec_path
from lockllm.errors import LockError
from lockllm.facts.observation import Raw
from lockllm.launch import manifests


@click.command(short_help="Print the command that realizes a lock.")
@click.argument("lock", default="llm.lock")
@click.option(
    "--as", "kind", type=click.Choice(manifests.KINDS), default="shell", show_default=True, help="What to print."
)
def command(lock: str, kind: str) -> None:
    """Print the command that realizes LOCK (llm.lock where none is named).

    It adds no option that the spec left out, unless the value would move without it. What no option of the engine can put in
    force is said in a comment.
    """
    held = _files.read_lock(lock)
    name, version = held.get("engine.name"), held.get("engine.version")
    if version is not None and not isinstance(version, str):
        raise LockError(f"engine.version is {version!r}", where=lock, mend="run `lockllm lock`")
    if not isinstance(name, str) or name not in engines.available():
        raise LockError(
            f"this lockllm knows no engine {name!r}", where=lock, mend="lock one of " + ", ".join(engines.available())
        )
    values = {path: value for path, value in held.values.items() if not isinstance(value, Raw)}
    context = engines.Context(
        version=version,
        checkpoint={path: value for path, value in values.items() if path[0] not in ("serve", "sampling", "host")},
        host={path: value for path, value in values.items() if path[0] == "host"},
        packages={path[1]: str(value) for path, value in values.items() if path[0] == "packages"},
    )
    spelled = {path: value for path, value in values.items() if held.via.get(path) not in ("rule", "default")}
    path = spec_path(held, lock)
    if path is not None and ("checkpoint", "repo") not in spelled:
        spelled[("checkpoint", "path")] = os.path.relpath(path)
    built = engines.load(name).command(spelled, context)
    click.echo(manifests.write(built, held, kind), nl=False)
