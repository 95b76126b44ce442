"""`lockllm completion`: a completion script for a shell."""

from __future__ import annotations

import os

import click

from lockllm.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
_FIX = "name one: lockllm completion " + "|".join(SHELLS)


@click.command(short_help="Print a completion script for a shell.")
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print a completion script for a shell (default: the one in the variable SHELL).

    \b
    bash   lockllm completion bash > ~/.local/share/bash-completion/completions/lockllm
    zsh    lockllm completion zsh > "${fpath[1]}/_lockllm"
    fish   lockllm completion fish > ~/.config/fish/completions/lockllm.fish
    """
    from click.shell_completion import get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    completion = get_completion_class(name) if name in SHELLS else None
    if completion is None:
        what = f"there is no completion script for the shell {name!r}" if name else "the variable SHELL is not set"
        raise UsageError(what, where="the command line" if shell else "the environment", fix=_FIX)
    root = ctx.find_root()
    click.echo(completion(root.command, {}, "lockllm", "_LOCKLLM_COMPLETE").source())
