"""`lockllm diff`: what moved between two locks, for review."""

from __future__ import annotations

import os

import click

from lockllm import api
from lockllm.api import git
from lockllm.cli import _options
from lockllm.output import DIFF_FORMATS, diff_pieces
from lockllm.output.escape import readable


@click.command(short_help="Compare two locks for review.", context_settings={"ignore_unknown_options": False})
@click.argument("sides", nargs=-1, metavar="BEFORE [AFTER]")
@click.option("--format", "format_", type=click.Choice(DIFF_FORMATS), default="text", help="How to print it.")
@click.option("--exit-code", is_flag=True, help="Exit 1 where anything moved; else 0 whatever moved.")
@click.option("--end-of-options", is_flag=True, hidden=True, expose_value=False)
@_options.look
@click.pass_context
def command(
    ctx: click.Context,
    sides: tuple[str, ...],
    format_: str,
    exit_code: bool,
    color: str,
    full: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Compare two locks for review.

    BEFORE and AFTER are files or git revisions: `HEAD~1` (of llm.lock here) or `main:path/llm.lock`. A file that exists wins.
    AFTER is ./llm.lock where it is left out; both left out: HEAD against ./llm.lock. Called by git as a diff driver with
    seven arguments, it takes the second and the fifth.
    """
    if git.in_conflict(sides, os.environ):
        click.echo(f"{readable(sides[0])} is in conflict: resolve it, or run `lockllm lock`")
        return
    before, after = git.sides(sides, os.getcwd())
    result = api.diff(before.lock, after.lock, names=(before.name, after.name))
    for piece in diff_pieces(result, format_, **_options.text_options(color, full, quiet, verbose)):
        click.echo(piece, nl=False, color=True)
    ctx.exit(1 if exit_code and result.changes else 0)
