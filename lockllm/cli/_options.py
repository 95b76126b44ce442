"""Options that several commands share, and what they mean together."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lockllm.errors import UsageError

if TYPE_CHECKING:
    from lockllm.api.host import Sources
    from lockllm.facts.fact import Path

F = TypeVar("F", bound=Callable[..., Any])


def _stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


class _Seconds(click.FloatRange):
    """A finite number of seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As click does; NaN is refused."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return number


_DAY = 86_400  # seconds

sources = _stack(
    click.option("--server", metavar="URL", help="URL of a running server, such as http://127.0.0.1:8000."),
    click.option("--pid", type=click.IntRange(min=1), metavar="N", help="Process ID of a running server."),
    click.option("--python", metavar="PATH", help="Interpreter of the serving environment; lockllm runs it once."),
    click.option("--checkpoint", metavar="PATH", help="The checkpoint, if the server does not say which one it loads."),
    click.option("--log", metavar="FILE", help="The server's start log; `-` reads standard input."),
    click.option(
        "--gpu",
        type=click.Choice(["auto", "nvidia", "rocm", "none"]),
        default="auto",
        show_default=True,
        help="Which GPU library to query; auto does so only if there is a sign of a GPU.",
    ),
    click.option("--api-key-env", metavar="NAME", help="Environment variable that holds the server's API key."),
    click.option(
        "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header to send to the server; repeatable."
    ),
    click.option(
        "--wait",
        type=_Seconds(min=0, max=_DAY),
        default=0.0,
        metavar="SECONDS",
        help="How long to wait for a server that is still loading.",
    ),
    click.option(
        "--timeout",
        type=_Seconds(min=0.1, max=_DAY),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for all requests to the server.",
    ),
    click.option("--quick", is_flag=True, help="Compare sizes and claimed digests; do not hash weights."),
    click.option("--rehash", is_flag=True, help="Ignore the digest cache and hash again."),
    click.option("--cached", is_flag=True, help="Use the digest cache on network and FUSE file systems too."),
    click.option(
        "--deep",
        is_flag=True,
        help="Also hash packages to find edits, and run the serving interpreter for what only an import shows.",
    ),
    click.option(
        "--probe-generate",
        is_flag=True,
        help="Let the server generate a token or two if that shows more: vLLM's sampling defaults in force.",
    ),
)
"""Sources of an observation: `observe`, `verify`."""

look = _stack(
    click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to color the text."
    ),
    click.option("--full", is_flag=True, help="Print full digests and values."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing if everything matches."),
    click.option("-v", "--verbose", is_flag=True, help="Also list what matches."),
)
"""How text looks."""


COMMAND = "lockllm.command"
"""Where `AfterDashes` puts the arguments after `--`."""


class AfterDashes(click.Command):
    """A command that puts everything after the first `--`, unparsed, into `ctx.meta[COMMAND]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, up to `--`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = tuple(args[at + 1 :])
            if not ctx.meta[COMMAND]:
                example = f"lockllm {ctx.info_name} -- vllm serve MODEL"
                raise UsageError("there is no command after --", where="the command line", fix=example)
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """`[OPTIONS] [PATH | -- CMD...]`."""
        return ["[OPTIONS]", "[PATH | -- CMD...]"]


def text_options(color: str, full: bool, quiet: bool, verbose: bool, *, err: bool = False) -> dict[str, Any]:
    """Options of the text output: colored on a terminal unless NO_COLOR is set; as wide as the terminal, up to 100."""
    on_terminal = (sys.stderr if err else sys.stdout).isatty()
    colored = color == "always" or (color == "auto" and on_terminal and not os.environ.get("NO_COLOR"))
    width = 80
    if on_terminal:
        import shutil

        width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    return {"color": colored, "width": max(width, 40), "full": full, "quiet": quiet, "verbose": verbose}


@contextmanager
def look_through(options: Mapping[str, Any], *, progress: bool = True, cache: str = "auto") -> Iterator[Sources]:
    """The sources that the options name; progress of hashing is shown meanwhile."""
    from lockllm.cli._progress import hashing

    given: Any = {name: value for name, value in options.items() if name not in ("api_key_env", "cached")}
    with hashing(enabled=progress and not options.get("quick")) as advance:
        given["api_key"] = api_key(options.get("api_key_env"), os.environ)
        given["cache"] = "any" if options.get("cached") else cache
        given["progress"] = advance
        yield given


def text_diff(before: str, after: str, path: str) -> str:
    """The change of a file as `diff -u` shows it."""
    import difflib

    from lockllm.output.escape import readable

    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="")
    return "".join(readable(line) + "\n" for line in lines)


def listed(changes: Mapping[Path, Any]) -> str:
    """Changes of a spec, one a line."""
    from lockllm.documents import toml
    from lockllm.facts import keys

    return "".join(
        f"  removed {keys.dotted(path)}\n" if value is None else f"  {keys.dotted(path)} = {toml.value(value)}\n"
        for path, value in changes.items()
    )


def warn(text: str) -> None:
    """Print a warning to stderr."""
    from lockllm.output.escape import readable

    click.echo(f"lockllm: warning: {readable(text)}", err=True)


def gate(environ: Mapping[str, str]) -> str:
    """LOCKLLM_GATE: enforce, warn or off."""
    word = environ.get("LOCKLLM_GATE", "enforce").strip().lower() or "enforce"
    if word not in ("enforce", "warn", "off"):
        raise UsageError(f"LOCKLLM_GATE is {word!r}", where="the environment", fix="set it to enforce, warn or off")
    return word


def api_key(name: str | None, environ: Mapping[str, str]) -> str | None:
    """The key in the variable that `--api-key-env` names."""
    if name is None:
        return None
    key = environ.get(name)
    if not key:
        raise UsageError(
            f"the variable {name} is not set", where="--api-key-env", fix=f"export {name}, or name another variable"
        )
    return key
