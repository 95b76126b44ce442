"""`lockllm diff`: the differences between two locks, for review."""

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
@click.option("--format", "format_", type=click.Choice(DIFF_FORMATS), default="text", help="Format of the diff.")
@click.option("--exit-code", is_flag=True, help="Exit 1 if anything differs.")
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

    BEFORE and AFTER are files or git revisions: `HEAD~1` (of ./llm.lock) or `main:path/llm.lock`. An existing file wins. The
    defaults are HEAD and ./llm.lock. Called by git as a diff driver with seven arguments, it uses the second and the fifth.
    """
    if git.in_conflict(sides, os.environ):
        click.echo(f"{readable(sides[0])} has merge conflicts: resolve them, or run `lockllm lock`")
        return
    before, after = git.sides(sides, os.getcwd())
    result = api.diff(before.lock, after.lock, names=(before.name, after.name))
    for piece in diff_pieces(result, format_, **_options.text_options(color, full, quiet, verbose)):
        click.echo(piece, nl=False, color=True)
    ctx.exit(1 if exit_code and result.changes else 0)
