"""`lockllm init`: write a first llm.toml, or update one."""

from __future__ import annotations

import os
from typing import Any

import click

from lockllm.api import files, first_spec, spec_merge
from lockllm.cli import _options
from lockllm.documents.spec_text import Start, write
from lockllm.errors import UsageError
from lockllm.output.escape import readable


@click.command(
    cls=_options.AfterDashes, short_help="Write an llm.toml from a checkpoint, a command line or a running server."
)
@click.argument("path", required=False)
@click.option(
    "-o", "--output", default="llm.toml", show_default=True, metavar="FILE", help="Output file; `-` is standard output."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--update", is_flag=True, help="Merge what is seen into the existing file; comments, order and other lines stay."
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print the change as a diff.")
@click.option("--engine", metavar="NAME", help="Engine that will serve the checkpoint at PATH.")
@click.option("--server", metavar="URL", help="URL of a running server, such as http://127.0.0.1:8000.")
@click.option("--pid", type=click.IntRange(min=1), metavar="N", help="Process ID of a running server.")
@click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the server's API key.")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header to send to the server; repeatable."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    path: str | None,
    output: str,
    force: bool,
    update: bool,
    dry_run: bool,
    engine: str | None,
    **sources: Any,
) -> None:
    """Write an llm.toml that locks to what PATH, a command line or a running server shows.

    PATH is a checkpoint; after `--` comes the command that starts the server. Values equal to the engine's defaults are
    omitted: `lockllm lock` resolves them. An existing file is never overwritten without --force; --update edits it in place.
    """
    argv = ctx.meta.get(_options.COMMAND)
    asked = sources["server"] is not None or sources["pid"] is not None
    if (path is not None) + (argv is not None) + asked != 1:
        fix = "lockllm init PATH, lockllm init -- CMD, or lockllm init --server URL"
        raise UsageError("init needs one of PATH, a command after --, and --server", where="the command line", fix=fix)
    exists = output != "-" and os.path.exists(output)
    if exists and not (force or update or dry_run):
        fix = "merge into it with --update, overwrite it with --force, or name another with -o"
        raise UsageError("the file exists already", where=output, fix=fix)
    start = _look(path, argv, engine, output, sources)
    for note in start.notes:
        _options.warn(note)
    if update and exists:
        _update(output, start, dry_run)
        return
    text = write(start)
    if output == "-":
        click.echo(text, nl=False)
        return
    if dry_run:
        click.echo(_options.text_diff(files.read_text(output) if exists else "", text, output), nl=False)
        return
    files.write_text(output, text)
    missing = [
        name
        for name, value in (("the checkpoint", start.repo or start.path), ("the engine", start.engine))
        if value is None
    ]
    hint = f"fill in {' and '.join(missing)}, then run `lockllm lock`" if missing else "next: lockllm lock"
    click.echo(f"wrote {output}; {hint}", err=True)


def _look(path: str | None, argv: tuple[str, ...] | None, engine: str | None, output: str, sources: Any) -> Start:
    """What the checkpoint, the command or the server shows; paths are relative to the spec's folder."""
    folder = os.path.dirname(os.path.abspath(output)) if output != "-" else os.getcwd()
    if path is not None:
        return first_spec.of_checkpoint(path, engine, folder)
    if argv is not None:
        return first_spec.of_command(argv, dict(os.environ), os.getcwd(), folder)
    with _options.look_through(sources, progress=False) as found:
        return first_spec.of_server(found, folder)


def _update(path: str, start: Start, dry_run: bool) -> None:
    """Merge what was seen into a spec, or show how."""
    merged = spec_merge.update(path, start)
    for note in merged.notes:
        _options.warn(note)
    if dry_run:
        click.echo(_options.text_diff(merged.before, merged.text, path), nl=False)
        return
    if not merged.changes:
        click.echo(f"{readable(path)} is up to date", err=True)
        return
    files.write_text(path, merged.text)
    click.echo(f"wrote {readable(path)}:\n{_options.listed(merged.changes)}next: lockllm lock", err=True)
