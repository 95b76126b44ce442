"""`lockllm observe`: record what this host shows."""

from __future__ import annotations

import os
from typing import Any

import click

from lockllm import api
from lockllm.api import files
from lockllm.cli import _options


@click.command(short_help="Record what this host shows, for use elsewhere.")
@_options.sources
@click.option(
    "--lock",
    "lock_file",
    metavar="LOCK",
    help="Collect the facts this lock contains (default: ./llm.lock if it exists).",
)
@click.option(
    "--stage",
    type=click.Choice(["preflight", "live", "all"]),
    help="What to look at; default: all if a server is found, else preflight.",
)
@click.option("--only", multiple=True, metavar="GLOB", help="Record only these facts; repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave these facts out; repeatable.")
@click.option("-o", "--output", metavar="FILE", help="Output file; default: standard output.")
def command(
    lock_file: str | None,
    stage: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    output: str | None,
    **sources: Any,
) -> None:
    """Record what this host shows as JSON, on standard output or in FILE.

    Judge it anywhere with `lockllm verify --observation FILE`; lock from it with `lockllm lock --observation FILE`.
    """
    lock_file = lock_file or ("llm.lock" if os.path.exists("llm.lock") else None)
    with _options.look_through(sources) as found:
        seen = api.observe(lock_file, stage=stage, only=only, skip=skip, **found)
    text = api.dump(seen)
    if output:
        files.write_text(output, text)
        click.echo(f"wrote {output}: {len(seen.by_path())} facts seen, {len(seen.unobserved)} not", err=True)
    else:
        click.echo(text, nl=False)
