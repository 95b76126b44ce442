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
@click.option("-o", "--output", metavar="FILE", help="Output file; default: llm.lock beside the spec.")
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; exit 1 and list stale facts. Reads only the spec and the lock.",
)
@click.option("--strict", is_flag=True, help="Exit 1 if any fact stays unpinned.")
@click.option("--upgrade", is_flag=True, help="Resolve everything again and keep no pin.")
@click.option("--upgrade-fact", multiple=True, metavar="GLOB", help="Resolve these facts again; repeatable.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would change.")
@click.option("--offline", is_flag=True, help="Do not contact the Hub or the package index.")
@click.option("--observation", metavar="FILE", help="Pin what `lockllm observe` recorded on the host.")
@click.option("--pin", multiple=True, metavar="GLOB", help="Also pin these facts from the observation; repeatable.")
@click.option(
    "--accept-observed",
    multiple=True,
    metavar="GLOB",
    help="If host and spec disagree on these facts, lock the host's values; repeatable.",
)
@click.option(
    "--write", is_flag=True, help="Write accepted values into the spec; its comments, order and other lines stay."
)
@click.option("--python", metavar="PATH", help="Interpreter of the serving environment; lockllm runs it once.")
@click.option(
    "--gpu",
    type=click.Choice(["auto", "nvidia", "rocm", "none"]),
    help="This machine is the serving host: lock its GPUs. `none`: query no GPU.",
)
@click.option("--blake3", is_flag=True, help="Also lock BLAKE3 digests: `verify` then hashes faster.")
@click.option("--oms", metavar="FILE", help="Also write the file digests as an OpenSSF Model Signing statement.")
@click.option(
    "--format", "format_", type=click.Choice(["text", "markdown", "json"]), default="text", help="Format of --dry-run."
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

    Existing pins are kept unless you ask to change them. Anything that cannot be determined here is listed in [unpinned] with the
    reason. A [variant.NAME] is written to llm.NAME.lock.
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
