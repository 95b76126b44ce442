"""`lockllm exec`: verify the planned server, then become it."""

from __future__ import annotations

import os
from typing import Any

import click

from lockllm import api
from lockllm.cli import _options, _refusal, _signals, tell
from lockllm.errors import LockllmError
from lockllm.launch.become import become, program
from lockllm.output import render_report
from lockllm.output.escape import readable


@click.command(
    short_help="Verify a planned server, then become it.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--lock", "lock_file", default="llm.lock", show_default=True, metavar="FILE", help="The lock.")
@click.option("--warn-only", is_flag=True, help="Print the report and start all the same.")
@click.option("--allow-unknown", multiple=True, metavar="GLOB", help="Facts that this host can never show; repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave these facts out; repeatable.")
@click.option("--checkpoint", metavar="PATH", help="The checkpoint, where the command cannot be read.")
@click.option("--python", metavar="PATH", help="The interpreter that the command runs with; it is run once.")
@click.option(
    "--gpu", type=click.Choice(["auto", "nvidia", "rocm", "none"]), default="auto", help="What to ask for GPUs."
)
@click.option("--quick", is_flag=True, help="Compare sizes and claimed digests; hash no weights.")
@click.option("--cached", is_flag=True, help="Use the digest cache; without it every byte is hashed.")
@_options.look
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    lock_file: str,
    warn_only: bool,
    allow_unknown: tuple[str, ...],
    skip: tuple[str, ...],
    argv: tuple[str, ...],
    color: str,
    full: bool,
    quiet: bool,
    verbose: bool,
    **sources: Any,
) -> None:
    """Verify files, packages, GPUs and the planned command against a lock, then become the command.

    CMD's own options are the planned server, so CMD is the engine's own command: a few programs of the system may stand before
    it (env, nice, timeout, tini ...), and no shell or script, which could start anything (exit 3). On success this process
    replaces itself: same pid, signals and exit code are CMD's. A difference or an unknown refuses the start (exit 1 or 3)
    before a byte of the model is loaded.
    """
    path = program(argv[0], os.environ)
    gate = "warn" if warn_only and _options.gate(os.environ) == "enforce" else _options.gate(os.environ)
    try:
        with _options.look_through({**sources, "command": argv}, cache="off") as found:
            report = api.verify(
                lock_file, stage="preflight", skip=skip, allow_unknown=allow_unknown, gate=gate, **found
            )
    except LockllmError as error:
        if gate == "enforce":
            raise
        tell(error)
        click.echo("lockllm: the gate is off: started all the same", err=True)
        _signals.restore()
        become(path, argv)
    text = render_report(report, "text", **_options.text_options(color, full, quiet, verbose, err=True))
    if report.exit_code:
        verb = "does not match" if report.status == "mismatch" else "cannot be seen to match"
        refusal = f"lockllm: refused to start: {readable(argv[0])} {verb} {readable(lock_file)}\n{text}"
        click.echo(refusal, nl=False, err=True, color=True)
        _refusal.termination_log(click.unstyle(refusal))
        ctx.exit(report.exit_code)
    click.echo(text, nl=False, err=True, color=True)
    _signals.restore()
    become(path, argv)
