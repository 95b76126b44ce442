"""`lockllm lock`: a spec resolved into a lock."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from lockllm.api import spec_file
from lockllm.cli import _locking, _options
from lockllm.errors import UsageError


@click.command(short_help="Resolve llm.toml into llm.lock.")
@click.argument("spec", required=False)
@click.option("-o", "--output", metavar="FILE", help="Write here; default: llm.lock beside the spec.")
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; exit 1 and name the facts that are stale. Looks at spec and lock alone.",
)
@click.option("--strict", is_flag=True, help="Exit 1 where anything stays unpinned.")
@click.option("--upgrade", is_flag=True, help="Resolve everything again; keep no pin.")
@click.option("--upgrade-fact", multiple=True, metavar="GLOB", help="Resolve these facts again; repeatable.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would change.")
@click.option("--offline", is_flag=True, help="Ask neither the Hub nor the package index.")
@click.option("--observation", metavar="FILE", help="Pin what `lockllm observe` saw on the host.")
@click.option("--pin", multiple=True, metavar="GLOB", help="Take these facts from the observation too; repeatable.")
@click.option(
    "--accept-observed", multiple=True, metavar="GLOB", help="Where host and spec disagree, lock what the host shows."
)
@click.option(
    "--write", is_flag=True, help="Write accepted values into the spec; its comments, order and other lines stay."
)
@click.option("--python", metavar="PATH", help="The interpreter of the serving environment; it is run once.")
@click.option(
    "--gpu",
    type=click.Choice(["auto", "nvidia", "rocm", "none"]),
    help="This machine serves: lock its GPUs, or that it has none; `none` looks at no GPU.",
)
@click.option("--blake3", is_flag=True, help="Lock BLAKE3 digests too: `verify` then hashes faster.")
@click.option("--oms", metavar="FILE", help="Write the digests of the files as an OpenSSF Model Signing statement too.")
@click.option(
    "--format", "format_", type=click.Choice(["text", "markdown", "json"]), default="text", help="How --dry-run prints."
)
@_options.look
@click.pass_context
def command(
    ctx: click.Context,
    /,
    spec: str | None,
    format_: str,
    color: str,
    full: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Resolve SPEC (llm.toml, or [tool.lockllm] of pyproject.toml) into llm.lock.

    Pins that nothing asks to move are kept. What cannot be known here stands in [unpinned] with the reason. A [variant.NAME]
    is written to llm.NAME.lock.
    """
    read = spec_file.read(spec if spec is not None else spec_file.find())
    target = options["output"] or os.path.join(os.path.dirname(read.name), "llm.lock")
    targets = _locking.targets(read, target)
    if options["check"]:
        ctx.exit(_locking.check(targets, quiet))
    if options["write"] and read.name == "-":
        raise UsageError(
            "--write needs a file to edit", where="the command line", fix="name the spec: lockllm lock SPEC"
        )
    outcomes, edited = _locking.resolve(targets, options)
    text = _options.text_options(color, full, quiet, verbose)
    if edited is not None:
        done = _locking.write_spec(edited, dry_run=options["dry_run"], show=format_ == "text")
        click.echo(done if not quiet else "", err=True, nl=False)
    code = 0
    for outcome in outcomes:
        if options["dry_run"]:
            click.echo(_locking.change_text(outcome, format_, text), nl=False, color=True)
        else:
            _locking.write(outcome)
            if options["oms"] and not outcome.target.variant:
                from lockllm.api import oms_file

                oms_file.write(options["oms"], outcome.filled.lock, read.path)
        if not quiet:
            click.echo(_locking.summary(outcome, dry_run=options["dry_run"]), err=True, nl=False)
        if options["strict"] and outcome.filled.lock.unpinned:
            code = 1
    sys.stdout.flush()
    ctx.exit(code)
