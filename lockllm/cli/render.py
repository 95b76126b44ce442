"""`lockllm render`: a chat template rendered as the engine would."""

from __future__ import annotations

import json
import sys

import click

from lockllm import api


@click.command(short_help="Render a chat template as the engine would.")
@click.argument("path", required=False)
@click.option("--template", "template", metavar="FILE", help="Template to render; default: the one in force in PATH.")
@click.option(
    "--request",
    "request",
    metavar="FILE",
    help="Body of a chat completion; `-` reads standard input. Default: one user turn. With --engine, "
    "`add_generation_prompt` defaults to true, as in servers; otherwise to false.",
)
@click.option(
    "--special-tokens", "tokens", metavar="FILE", help="JSON with bos_token and others, or a tokenizer_config.json."
)
@click.option(
    "--now", "now", metavar="ISO", help="Time that the template sees, such as 2026-03-05T14:30:07. Default: now."
)
@click.option("--engine", metavar="NAME", help="Engine whose rules choose among several templates.")
@click.option("--engine-version", "version", metavar="V", help="Release of the engine, if its rules changed.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    path: str | None,
    template: str | None,
    request: str | None,
    tokens: str | None,
    now: str | None,
    engine: str | None,
    version: str | None,
    form: str,
) -> None:
    """Render a chat template as the engine would.

    PATH is a checkpoint: a directory, a snapshot or repository of the Hub's cache, or a .gguf file; its special tokens are used
    too. With --engine the text is the server's (transformers serve, vLLM, SGLang); without it, that of
    `apply_chat_template`. TGI, llama.cpp, and Ollama have their own renderers: ask the server.
    """
    from lockllm.prompt.command import shown as printable

    rendering = api.render(
        path,
        request=request,
        template=template,
        special_tokens=tokens,
        now=now,
        engine=engine,
        engine_version=version,
    )
    if rendering.caveat:
        click.echo(f"lockllm: warning: {rendering.caveat}", err=True)
    if form == "json":
        document = {"text": rendering.text, "sha256": rendering.sha256, "source": rendering.source}
        click.echo(json.dumps(document))
        return
    click.echo(printable(rendering.text, sys.stdout.isatty()).encode(), nl=False)
