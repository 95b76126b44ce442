"""`lockllm canary`: what a running server does, compared with a recorded baseline."""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import Any

import click
import msgspec

from lockllm.api import files
from lockllm.canary import asking, baseline, report
from lockllm.canary import check as checking
from lockllm.canary.statistics import LEAST_RUNS
from lockllm.cli import _options
from lockllm.errors import UsageError
from lockllm.observe.web import http
from lockllm.output.escape import readable

_SERVER = (
    click.option("--server", required=True, metavar="URL", help="The running server, such as http://127.0.0.1:8000."),
    click.option("--model", default="", metavar="NAME", help="The model to ask for; default: the first that the server lists."),
    click.option("--api-key-env", metavar="NAME", help="The variable that holds the server's API key."),
    click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header for the server; repeatable."),
    click.option("--timeout", type=click.FloatRange(min=0.1, max=3600), default=60.0, show_default=True, metavar="SECONDS",
                 help="The longest time for one request."),
    click.option("-q", "--quiet", is_flag=True, help="Show no progress."),
)  # fmt: skip


def _server(function: Any) -> Any:
    for option in reversed(_SERVER):
        function = option(function)
    return function


@click.group(short_help="Tell numerical noise of a running server from a step in what it does.")
def command() -> None:
    """Tell numerical noise of a running server from a step in what it does.

    `record` asks a server fixed questions under changing load and keeps the answers; `check` asks again and says noise (exit 0),
    step (exit 1, with the likely kind), or cannot tell (exit 3). Both generate tokens, a few for each request.
    """


@command.command()
@_server
@click.option(
    "-o", "--output", default="llm.canary", show_default=True, metavar="FILE", help="Write the baseline here."
)
@click.option(
    "--runs",
    type=click.IntRange(LEAST_RUNS, 200),
    default=LEAST_RUNS,
    show_default=True,
    help="How often to ask everything.",
)
@click.option(
    "--budget", type=click.IntRange(min=1), metavar="REQUESTS", help="Refuse to start where more requests are needed."
)
@click.option(
    "--lock",
    "lock_file",
    metavar="LOCK",
    help="The lock that the server was started by; default: llm.lock if it exists.",
)
@click.option("--update", is_flag=True, help="Replace an existing baseline and keep its history.")
@click.option("--why", default="", metavar="TEXT", help="With --update: the explanation that the history keeps.")
def record(
    server: str,
    model: str,
    api_key_env: str | None,
    headers: tuple[str, ...],
    timeout: float,
    quiet: bool,
    output: str,
    runs: int,
    budget: int | None,
    lock_file: str | None,
    update: bool,
    why: str,
) -> None:
    """Record how a server answers: a baseline of at least 20 runs, written to llm.canary.

    The runs are made alone, with several requests at once, beside neighbors that generate, and with a cold and a warm cache, because
    numerical noise depends on all of these. Record while the server is what you want it to be.
    """
    history = _history(output, update, why)
    lock_file = lock_file or ("llm.lock" if os.path.exists("llm.lock") else "")
    lock = files.read_lock(lock_file) if lock_file else None
    client = _client(server, model, api_key_env, headers, timeout)
    client.measure()
    each = len(asking.chosen(client.endpoint))
    if budget is not None and runs * each > budget:
        fix = f"pass --budget {runs * each}, or leave it out"
        raise UsageError(f"{runs} runs need {runs * each} requests", where="--budget", fix=fix)
    if not quiet:
        beside = "neighbors generate beside some of them"
        click.echo(f"recording {runs} runs of {each} requests, {runs * each} in all; {beside}", err=True)
    from lockllm.cli._progress import requests as progress

    with progress(enabled=not quiet) as advance:
        made = asking.record(client, runs, advance)
    named = ""
    if lock is not None:
        from lockllm import api

        named = api.fingerprint(lock)
    now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    endpoint = client.finished()
    made_baseline = baseline.build(made, endpoint, made_at=now, lock=named, history=history)
    files.write_text(output, baseline.write(made_baseline))
    exact = [group for group in made_baseline.groups if made_baseline.saturated(group)]
    click.echo(f"wrote {readable(output)}: {runs} runs, {len(made_baseline.states)} probes", err=True)
    click.echo(f"exact   {', '.join(exact) or 'nothing: every group shows numerical noise'}", err=True)
    for gap in endpoint_gaps(endpoint):
        click.echo(f"gap     {gap}", err=True)


@command.command()
@click.argument("file", default="llm.canary", metavar="[FILE]")
@_server
@click.option(
    "--format",
    "format_",
    type=click.Choice(report.FORMATS),
    default="text",
    show_default=True,
    help="How to print the report.",
)
@click.pass_context
def check(
    ctx: click.Context,
    file: str,
    server: str,
    model: str,
    api_key_env: str | None,
    headers: tuple[str, ...],
    timeout: float,
    quiet: bool,
    format_: str,
) -> None:
    """Compare a running server with the baseline in FILE (default: llm.canary).

    One round of requests settles most checks; what is not within the noise of the baseline is asked again, in at most four rounds.
    Exit codes: 0 noise; 1 a step; 3 cannot tell.
    """
    recorded = baseline.read(
        files.read_bytes(file, baseline.CanaryError, "make one with `lockllm canary record --server URL`"), file
    )
    client = _client(server, model, api_key_env, headers, timeout)
    client.endpoint = recorded.endpoint if not model else msgspec.structs.replace(recorded.endpoint, model=model)

    def ask(turn: int, groups: Any) -> Any:
        return client.run(
            asking.chosen(recorded.endpoint, groups), asking.ROUND_CONDITIONS[turn % len(asking.ROUND_CONDITIONS)]
        )

    verdict = checking.check(recorded, ask)
    if verdict.status == "unknown" and client.trouble:
        verdict = msgspec.structs.replace(verdict, reason=f"{verdict.reason}: {client.trouble}")
    if verdict.kinds and os.path.exists("llm.lock"):
        verdict = checking.locked_facts(verdict, list(files.read_lock("llm.lock").values))
    click.echo(report.render(verdict, recorded, file, server, format_), nl=False)
    sys.stdout.flush()
    ctx.exit(verdict.exit_code)


def _client(
    server: str, model: str, api_key_env: str | None, headers: tuple[str, ...], timeout: float
) -> asking.Client:
    parsed = http.parse(server)
    sent = http.key_headers(_options.api_key(api_key_env, os.environ), headers)
    return asking.Client(parsed, sent, seconds=timeout, model=model)


def _history(output: str, update: bool, why: str) -> tuple[baseline.Past, ...]:
    if not os.path.exists(output):
        return ()
    if not update:
        raise UsageError(
            "the file exists",
            where=output,
            fix="pass --update to replace it and keep its history, or name another with -o",
        )
    old = baseline.read(files.read_bytes(output, baseline.CanaryError, "name another file with -o"), output)
    return (*old.history, baseline.Past(made_at=old.made_at, lock=old.lock, why=why))


def endpoint_gaps(endpoint: baseline.Endpoint) -> list[str]:
    """What this server does not show, and what a check cannot see for it."""
    gaps = []
    if not endpoint.completions:
        gaps.append("no plain completions: a step of the weights cannot be told from one of the template")
    if not endpoint.chat_logprobs:
        gaps.append("no log probabilities: only steps that change first tokens or sampled texts are seen")
    if not endpoint.seeds:
        gaps.append("seeds do not repeat a text: sampling defaults are not watched")
    if not endpoint.sentences:
        gaps.append("no context length, no plain completions, or no counts of tokens: the long prompt is left out")
    return gaps
