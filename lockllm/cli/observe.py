"""`lockllm observe`: what this host shows, written down."""

from __future__ import annotations

import os
from typing import Any

import click

from lockllm import api
from lockllm.api import files
from lockllm.cli import _options


@click.command(short_help="Write down what this host shows, to be judged elsewhere.")
@_options.sources
@click.option("--lock", "lock_file", metavar="LOCK", help="Look for what this lock names; llm.lock where it is there.")
@click.option("--stage", type=click.Choice(["preflight", "live", "all"]), help="What to look at.")
@click.option("--only", multiple=True, metavar="GLOB", help="Write these facts alone; repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave these facts out; repeatable.")
@click.option("-o", "--output", metavar="FILE", help="Write here instead of to standard output.")
def command(
    lock_file: str | None,
    stage: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    output: str | None,
    **sources: Any,
) -> None:
    """Write an observation of this host as JSON, to standard output or FILE.

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
