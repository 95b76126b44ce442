"""`lockllm fingerprint`: the short id of a system, to log beside each response."""

from __future__ import annotations

import click

from lockllm import api


@click.command(short_help="Print the short id of a lock or an observation.")
@click.argument("file", default="llm.lock")
@click.option(
    "--lock", "lock_file", metavar="LOCK", help="For an observation: only over the facts that this lock holds."
)
def command(file: str, lock_file: str | None) -> None:
    """Print the short id of a lock (llm.lock where none is named) or of an observation.

    It has five parts: weights (w), template (t), engine (e), numerics (n), sampling (s). Two ids show at a glance which part
    moved; `?` stands for a part in which something could not be seen, `-` for one that holds nothing.
    """
    click.echo(api.fingerprint(file, lock=lock_file))
