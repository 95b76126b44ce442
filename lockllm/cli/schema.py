"""`lockllm schema`: the JSON Schema of a document."""

from __future__ import annotations

import click

from lockllm.output import schema


@click.command(short_help="Print the JSON Schema of a document.")
@click.argument("name", type=click.Choice(schema.NAMES))
def command(name: str) -> None:
    """Print the JSON Schema of a document, for editors and for programs that read lockllm's output.

    `spec` and `lock` describe the TOML files as data.
    """
    click.echo(schema.text(name), nl=False)
