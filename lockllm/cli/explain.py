"""`lockllm explain`: what a fact is."""

from __future__ import annotations

import click

from lockllm import api
from lockllm.facts import check, registry
from lockllm.output.explained import check_text, checks_text, group_text, text


@click.command(short_help="Describe a fact: its effect, and where engines set and show it.")
@click.argument("fact")
@click.option("--engine", metavar="NAME", help="Show only this engine.")
def command(fact: str, engine: str | None) -> None:
    """Describe a fact: what it is, what it does to the output, and where each engine sets, defaults, and shows it.

    FACT is a key such as serve.dtype, a group such as host, or a finding such as check.files_complete; `check` lists all findings.
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
