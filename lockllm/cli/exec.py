"""`lockllm exec`: verify a server about to be started, then become it."""

from __future__ import annotations

import os
from typing import Any

import click

from lockllm import api
from lockllm.cli import _options, _refusal, _signals, print_error
from lockllm.errors import LockllmError
from lockllm.launch.become import become, program
from lockllm.output import render_report
from lockllm.output.escape import readable


@click.command(
    short_help="Verify a server about to be started, then start it.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--lock", "lock_file", default="llm.lock", show_default=True, metavar="FILE", help="The lock.")
@click.option("--warn-only", is_flag=True, help="Print the report and start the server anyway.")
@click.option("--allow-unknown", multiple=True, metavar="GLOB", help="Facts that this host can never show; repeatable.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Ignore these facts; repeatable.")
@click.option("--checkpoint", metavar="PATH", help="The checkpoint, if the command does not name it.")
@click.option("--python", metavar="PATH", help="Interpreter of the serving environment; lockllm runs it once.")
@click.option(
    "--gpu", type=click.Choice(["auto", "nvidia", "rocm", "none"]), default="auto", help="Which GPU library to query."
)
@click.option("--quick", is_flag=True, help="Compare sizes and claimed digests; do not hash weights.")
@click.option("--cached", is_flag=True, help="Use the digest cache; without this option every byte is hashed.")
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
    """Verify files, packages, GPUs, and CMD against a lock, then become CMD.

    CMD's options describe the server about to be started, so CMD must be the engine's own command. A few system programs may
    precede it (env, nice, timeout, tini ...). A shell or a script could start anything and is refused (exit 3). On success this
    process replaces itself with CMD: the process ID stays, signals go to CMD, and the exit code is CMD's. A difference (exit 1)
    or an unknown fact (exit 3) refuses the start before a byte of the model is loaded.
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
        print_error(error)
        click.echo("lockllm: the gate is disabled: starting the server anyway", err=True)
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
