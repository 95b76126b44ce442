"""`lockllm verify`: a lock judged against a host."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from lockllm import api
from lockllm.api import files
from lockllm.cli import _options
from lockllm.output import FORMATS, report_pieces
from lockllm.output.escape import readable


@click.command(short_help="Check a host against llm.lock.")
@click.argument("locks", nargs=-1, metavar="[LOCK]...")
@_options.sources
@click.option(
    "--observation", metavar="FILE", help="Judge an observation recorded elsewhere; `-` reads standard input."
)
@click.option("--oms", metavar="FILE", help="OpenSSF Model Signing statement with the digests the files must have.")
@click.option(
    "--stage",
    type=click.Choice(["preflight", "live", "all"]),
    help="What to look at; default: all if a server is found, else preflight.",
)
@click.option("--only", multiple=True, metavar="GLOB", help="Judge only these facts; repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Ignore these facts; repeatable.")
@click.option("--allow-unknown", multiple=True, metavar="GLOB", help="Facts that this host can never show; repeatable.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", help="Format of the report.")
@_options.look
@click.pass_context
def command(
    ctx: click.Context,
    /,
    locks: tuple[str, ...],
    observation: str | None,
    oms: str | None,
    stage: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    allow_unknown: tuple[str, ...],
    format_: str,
    color: str,
    full: bool,
    quiet: bool,
    verbose: bool,
    **sources: Any,
) -> None:
    """Check a host against llm.lock, or against several LOCKs: it is enough that one of them passes completely.

    Reports every difference: expected, found, where it was seen, what it does to the output, and how to fix it. What cannot be
    seen is unknown, never ok. Exit codes: 0 everything matches; 1 something differs; 3 nothing differs, but something due could
    not be seen. LOCKLLM_GATE=warn or off prints the report and exits 0.
    """
    if oms is None:
        read = [files.read_lock(name) for name in locks or ("llm.lock",)]
    else:
        from lockllm.api import oms_file

        read = oms_file.locks(oms, locks)
    chosen: dict[str, Any] = {
        "stage": stage,
        "only": only,
        "skip": skip,
        "allow_unknown": allow_unknown,
        "gate": _options.gate(os.environ),
    }
    if observation is not None:
        report = api.verify(read, observation, **chosen)
    else:
        with _options.look_through(sources, progress=not quiet) as found:
            report = api.verify(read, **chosen, **found)
    first = ""
    for piece in report_pieces(report, format_, **_options.text_options(color, full, quiet, verbose)):
        first = first or piece
        click.echo(piece, nl=False, color=True)
    if report.exit_code:
        from lockllm.cli._refusal import termination_log

        termination_log(first if format_ == "text" else "")
    for warning in report.warnings if format_ not in ("text",) else ():
        click.echo(f"lockllm: warning: {readable(warning)}", err=True)
    sys.stdout.flush()
    ctx.exit(report.exit_code)
