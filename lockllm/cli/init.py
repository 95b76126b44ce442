"""`lockllm init`: a first llm.toml."""

from __future__ import annotations

import os
from typing import Any

import click

from lockllm.api import files, first_spec
from lockllm.cli import _options
from lockllm.documents.spec_text import write
from lockllm.errors import UsageError


@click.command(
    cls=_options.AfterDashes, short_help="Write an llm.toml from a checkpoint, a command line or a running server."
)
@click.argument("path", required=False)
@click.option(
    "-o", "--output", default="llm.toml", show_default=True, metavar="FILE", help="Write here; `-` is standard output."
)
@click.option("--force", is_flag=True, help="Overwrite a spec that is there.")
@click.option("--engine", metavar="NAME", help="The engine that will serve the checkpoint at PATH.")
@click.option("--server", metavar="URL", help="A running server, such as http://127.0.0.1:8000.")
@click.option("--pid", type=click.IntRange(min=1), metavar="N", help="The process of a running server.")
@click.option("--api-key-env", metavar="NAME", help="The variable that holds the server's API key.")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header for the server; repeatable."
)
@click.pass_context
def command(
    ctx: click.Context, /, path: str | None, output: str, force: bool, engine: str | None, **sources: Any
) -> None:
    """Write an llm.toml that locks to what PATH, a command line or a running server shows.

    PATH is a checkpoint. After `--` stands the command that starts the server. What the engine's own defaults give is left
    out: `lockllm lock` resolves it. A file that is there is never overwritten without --force.
    """
    argv = ctx.meta.get(_options.COMMAND)
    asked = sources["server"] is not None or sources["pid"] is not None
    if (path is not None) + (argv is not None) + asked != 1:
        fix = "lockllm init PATH, lockllm init -- CMD, or lockllm init --server URL"
        raise UsageError("init needs one thing to look at", where="the command line", fix=fix)
    if output != "-" and os.path.exists(output) and not force:
        raise UsageError("the file is there already", where=output, fix="name another with -o, or add --force")
    folder = os.path.dirname(os.path.abspath(output)) if output != "-" else os.getcwd()
    if path is not None:
        start = first_spec.of_checkpoint(path, engine, folder)
    elif argv is not None:
        start = first_spec.of_command(tuple(argv), dict(os.environ), os.getcwd(), folder)
    else:
        with _options.look_through(sources, progress=False) as found:
            start = first_spec.of_server(found, folder)
    for note in start.notes:
        _options.warn(note)
    text = write(start)
    if output == "-":
        click.echo(text, nl=False)
        return
    files.write_text(output, text)
    missing = [
        name
        for name, value in (("the checkpoint", start.repo or start.path), ("the engine", start.engine))
        if value is None
    ]
    hint = f"fill in {' and '.join(missing)}, then run `lockllm lock`" if missing else "next: lockllm lock"
    click.echo(f"wrote {output}; {hint}", err=True)
