"""`lockllm inspect`: the facts and findings of a checkpoint, a command line or a start log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from lockllm import api
from lockllm.api import inspection
from lockllm.cli import _options
from lockllm.errors import UsageError


@click.command(
    cls=_options.AfterDashes, short_help="Print the facts and findings of a checkpoint, a command line or a start log."
)
@click.argument("path", required=False)
@click.option("--log", metavar="FILE", help="Start log of a server; `-` reads standard input. Requires --engine.")
@click.option("--engine", metavar="NAME", help="Engine whose rules select files and template, and parse the log.")
@click.option(
    "--engine-version", metavar="V", help="Release of the engine, if nothing else shows it; defaults depend on it."
)
@click.option(
    "--include", multiple=True, metavar="GLOB", help="Files that the engine reads, instead of its rule; repeatable."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Files that the engine does not read; repeatable.")
@click.option("--quick", is_flag=True, help="Use sizes and claimed digests; do not hash weights.")
@click.option("--cached", is_flag=True, help="Use the digest cache.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--exit-code", is_flag=True, help="Exit 1 if a check fails that `verify` refuses by default.")
@_options.look
@click.pass_context
def command(
    ctx: click.Context,
    /,
    path: str | None,
    log: str | None,
    engine: str | None,
    engine_version: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    quick: bool,
    cached: bool,
    form: str,
    exit_code: bool,
    color: str,
    full: bool,
    verbose: bool,
    **_: Any,
) -> None:
    """Inspect one thing on its own, without a lock or a server.

    PATH is a checkpoint: a directory, a snapshot of the Hub's cache, an adapter, or a .gguf file. After `--` comes a command
    line that would start a server. --log names the start log of one.
    """
    argv: Sequence[str] | None = ctx.meta.get(_options.COMMAND)
    if sum(each is not None for each in (path, log, argv)) != 1:
        fix = "lockllm inspect PATH, lockllm inspect -- CMD, or lockllm inspect --log FILE --engine NAME"
        raise UsageError("inspect needs one of PATH, a command after --, and --log", where="the command line", fix=fix)
    if path is not None:
        from lockllm.cli._progress import hashing

        with hashing(enabled=not quick) as progress:
            seen = inspection.checkpoint(
                path,
                engine,
                engine_version,
                include=include,
                exclude=exclude,
                quick=quick,
                cache="auto" if cached else "off",
                progress=progress,
            )
    elif log is not None:
        seen = inspection.log(log, engine, engine_version)
    else:
        seen = inspection.command(tuple(argv or ()), dict(os.environ), os.getcwd(), engine_version)
    for warning in seen.warnings:
        _options.warn(warning)
    if form == "json":
        click.echo(api.dump(seen), nl=False)
    else:
        from lockllm.output.text import inspection as to_text

        style = _options.text_options(color, full, False, verbose)
        style.pop("quiet")
        text = to_text(seen.readings, seen.checks, seen.unobserved, subject=seen.subject, **style)
        click.echo(text, nl=False, color=True)
    ctx.exit(1 if exit_code and _fails(seen) else 0)


def _fails(seen: inspection.Inspection) -> bool:
    """Whether a finding fails that a lock without a policy of its own refuses."""
    from lockllm.facts.check import CHECKS
    from lockllm.facts.fact import Policy
    from lockllm.facts.observation import CheckStatus

    blocking = {row.name for row in CHECKS if row.policy is Policy.EXACT}
    return any(each.status is CheckStatus.FAIL and each.name in blocking for each in seen.checks)
