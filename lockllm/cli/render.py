"""`lockllm render`: a chat template rendered as the engine would."""

from __future__ import annotations

import json
import sys

import click


@click.command(short_help="Render a chat template as the engine would.")
@click.argument("path", required=False)
@click.option("--template", "template", metavar="FILE", help="The template. Without it: the one that wins in PATH.")
@click.option(
    "--request",
    "request",
    metavar="FILE",
    help="Body of a chat completion; `-` is standard input. Default: one user turn.",
)
@click.option(
    "--special-tokens", "tokens", metavar="FILE", help="JSON of bos_token and others, or a tokenizer_config.json."
)
@click.option(
    "--now", "now", metavar="ISO", help="The time that the template is told, e.g. 2026-03-05T14:30:07. Default: now."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    path: str | None, template: str | None, request: str | None, tokens: str | None, now: str | None, form: str
) -> None:
    """Render a chat template as the engine would.

    PATH is a checkpoint folder. The text is that of servers which render with transformers (transformers serve, vLLM,
    SGLang). TGI, llama.cpp and Ollama have renderers of their own: ask the server.
    """
    from lockllm.prompt.command import compose, shown

    found, rendered = compose(path, template, request, tokens, now)
    if form == "json":
        click.echo(json.dumps({"text": rendered.text, "sha256": rendered.sha256, "source": found.source}))
        return
    click.echo(shown(rendered.text, sys.stdout.isatty()).encode(), nl=False)
