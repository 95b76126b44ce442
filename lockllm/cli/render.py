"""`lockllm render`: a chat template rendered as the engine would."""

from __future__ import annotations

import json
import sys

import click

from lockllm import api


@click.command(short_help="Render a chat template as the engine would.")
@click.argument("path", required=False)
@click.option("--template", "template", metavar="FILE", help="The template. Without it: the one that wins in PATH.")
@click.option(
    "--request",
    "request",
    metavar="FILE",
    help="Body of a chat completion; `-` is standard input. Default: one user turn. With --engine, "
    "`add_generation_prompt` is true where the body leaves it out, as servers read it; else false.",
)
@click.option(
    "--special-tokens", "tokens", metavar="FILE", help="JSON of bos_token and others, or a tokenizer_config.json."
)
@click.option(
    "--now", "now", metavar="ISO", help="The time that the template is told, e.g. 2026-03-05T14:30:07. Default: now."
)
@click.option("--engine", metavar="NAME", help="The engine: its rules choose among several templates.")
@click.option("--engine-version", "version", metavar="V", help="Its release, where the rules moved.")
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

    PATH is a checkpoint: a directory, a snapshot or repository of the Hub's cache, or a .gguf file; its special tokens are
    taken too. With --engine the text is that of the server (transformers serve, vLLM, SGLang); without it that of
    `apply_chat_template`. TGI, llama.cpp and Ollama have renderers of their own: ask the server.
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
