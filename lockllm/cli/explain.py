"""`lockllm explain`: what a fact is."""

from __future__ import annotations

import click

from lockllm import api, engines
from lockllm.facts import check, registry
from lockllm.output.explained import check_text, checks_text, group_text, text


@click.command(short_help="Say what a fact is, what it moves, and where it is set and seen.")
@click.argument("fact")
@click.option("--engine", type=click.Choice(engines.available()), help="Only this engine's words.")
def command(fact: str, engine: str | None) -> None:
    """Say what a fact is, what it moves, and where each engine sets, defaults and shows it.

    FACT is a key such as serve.dtype, a group such as host, or a finding such as check.files_complete; `check` lists all.
    """
    row = next((row for row in check.CHECKS if row.name in (fact, f"check.{fact}")), None)
    if row is not None:
        click.echo(check_text(row), nl=False)
        return
    if fact == "check":
        click.echo(checks_text(check.CHECKS), nl=False)
        return
    if fact in registry.GROUP:
        click.echo(group_text(registry.GROUP[fact], registry.ROWS, registry.FAMILIES), nl=False)
        return
    click.echo(text(api.explain(fact, engine=engine)), nl=False)
