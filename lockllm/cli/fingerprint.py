"""`lockllm fingerprint`: the short ID of a system, to log with each response."""

from __future__ import annotations

import click

from lockllm import api


@click.command(short_help="Print the short ID of a lock or an observation.")
@click.argument("file", default="llm.lock")
@click.option("--lock", "lock_file", metavar="LOCK", help="For an observation: use only the facts in this lock.")
def command(file: str, lock_file: str | None) -> None:
    """Print the short ID of a lock (default: llm.lock) or of an observation.

    It has five parts: weights (w), template (t), engine (e), numerics (n), sampling (s). Comparing two IDs shows which part
    differs. `?` marks a part in which something could not be seen, `-` an empty one.
    """
    click.echo(api.fingerprint(file, lock=lock_file))
