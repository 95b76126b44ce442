"""`lockllm inspect`: the facts and findings of a checkpoint, a command line or a start log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from lockllm.api import inspection
from lockllm.cli import _options
from lockllm.errors import UsageError


@click.command(
    cls=_options.AfterDashes, short_help="Print the facts and findings of a checkpoint, a command line or a start log."
)
@click.argument("path", required=False)
@click.option("--log", metavar="FILE", help="A server's start log; `-` is standard input. Needs --engine.")
@click.option("--engine", metavar="NAME", help="The engine: its rules choose files and template, and read the log.")
@click.option("--engine-version", metavar="V", help="Its release, where nothing else tells it: defaults depend on it.")
@click.option(
    "--include", multiple=True, metavar="GLOB", help="Files that reach inference, in place of the rule; repeatable."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Files that do not; repeatable.")
@click.option("--quick", is_flag=True, help="Hash no weights: sizes and claimed digests.")
@click.option("--cached", is_flag=True, help="Use the digest cache.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--exit-code", is_flag=True, help="Exit 1 where a finding fails that `verify` refuses by default; else 0."
)
@_options.look
@click.pass_context
def command(
    ctx: click.Context, /, path: str | None, log: str | None, engine: str | None, engine_version: str | None, form: str,
    exit_code: bool,     color: str, full: bool, quiet: bool, verbose: bool, **files: Any,
) -> None:  # fmt: skip
    """Print what one thing says by itself: no lock, no server.

    PATH is a checkpoint: a directory, a snapshot of the Hub's cache, an adapter, or a .gguf file. After `--` stands a
    command line that would start a server. With --log it is the start log of one.
    """
    argv: Sequence[str] | None = ctx.meta.get(_options.COMMAND)
    if sum(each is not None for each in (path, log, argv)) != 1:
        fix = "lockllm inspect PATH, lockllm inspect -- CMD, or lockllm inspect --log FILE --engine NAME"
        raise UsageError("inspect needs one thing to look at", where="the command line", fix=fix)
    if path is not None:
        seen = inspection.checkpoint(path, engine, engine_version, **files)
    elif log is not None:
        seen = inspection.log(log, engine, engine_version)
    else:
        seen = inspection.command(tuple(argv or ()), dict(os.environ), os.getcwd(), engine_version)
    for warning in seen.warnings:
        click.echo(inspection.told(warning), err=True)
    if form == "json":
        from lockllm.output.json import inspection as to_json

        click.echo(to_json(seen.readings, seen.checks, seen.unobserved), nl=False)
        ctx.exit(inspection.code(seen) if exit_code else 0)
    from lockllm.output.text import inspection as to_text

    style = _options.text_options(color, full, quiet, verbose)
    style.pop("quiet")
    click.echo(
        to_text(seen.readings, seen.checks, seen.unobserved, subject=seen.subject, **style), nl=False, color=True
    )
    ctx.exit(inspection.code(seen) if exit_code else 0)
