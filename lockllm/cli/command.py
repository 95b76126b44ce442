"""`lockllm command`: the command that realizes a lock."""

from __future__ import annotations

import click

from lockllm.api import files, start_command
from lockllm.launch import manifests


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
    click.echo(start_command.text(files.read_lock(lock), kind), nl=False)
