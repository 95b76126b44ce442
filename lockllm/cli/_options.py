"""Options that several commands share, and what they mean together."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from lockllm.errors import UsageError
from lockllm.facts import keys, registry
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import Observation

F = TypeVar("F", bound=Callable[..., Any])


def _stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


class _Seconds(click.FloatRange):
    """A time that a clock can count: neither without end nor no number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As a range of numbers does."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value} is no time", param, ctx)
        return number


_DAY = 86_400  # seconds

sources = _stack(
    click.option("--server", metavar="URL", help="A running server, such as http://127.0.0.1:8000."),
    click.option("--pid", type=click.IntRange(min=1), metavar="N", help="The process of a running server."),
    click.option("--python", metavar="PATH", help="The interpreter of the serving environment; it is run once."),
    click.option("--checkpoint", metavar="PATH", help="The checkpoint, where it cannot be told from the server."),
    click.option("--log", metavar="FILE", help="The server's start log; `-` is standard input."),
    click.option(
        "--gpu", type=click.Choice(["auto", "nvidia", "rocm", "none"]), default="auto", show_default=True,
        help="What to ask for GPUs; auto asks only where there is a sign of one.",
    ),
    click.option("--api-key-env", metavar="NAME", help="The variable that holds the server's API key."),
    click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header for the server; repeatable."),
    click.option("--wait", type=_Seconds(min=0, max=_DAY), default=0.0, metavar="SECONDS", help="Wait for a server that is still loading."),
    click.option("--timeout", type=_Seconds(min=0.1, max=_DAY), default=10.0, show_default=True, metavar="SECONDS",
                 help="The longest time for all questions to the server."),
    click.option("--quick", is_flag=True, help="Compare sizes and claimed digests; hash no weights."),
    click.option("--rehash", is_flag=True, help="Hash again what the digest cache holds."),
    click.option("--cached", is_flag=True, help="Use the digest cache on network and FUSE file systems too."),
    click.option("--deep", is_flag=True, help="Look for edited packages too, and ask what only an import can tell."),
)  # fmt: skip
"""Where an observation comes from: `observe`, `verify`."""

look = _stack(
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Color the text."),
    click.option("--full", is_flag=True, help="Print whole digests and values."),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing where all is well."),
    click.option("-v", "--verbose", is_flag=True, help="Print what matches too."),
)
"""How text looks."""


COMMAND = "lockllm.command"
"""Where `AfterDashes` keeps the words after `--`."""


class AfterDashes(click.Command):
    """A command that keeps all after the first `--` apart, as it stands: in `ctx.meta[COMMAND]`, where `--` is there."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, up to `--`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """`[OPTIONS] [PATH | -- CMD...]`."""
        return ["[OPTIONS]", "[PATH | -- CMD...]"]


def text_options(color: str, full: bool, quiet: bool, verbose: bool, *, err: bool = False) -> dict[str, Any]:
    """Options of the text output: colored on a terminal unless NO_COLOR is set; as wide as the terminal, at most 100."""
    on_terminal = (sys.stderr if err else sys.stdout).isatty()
    colored = color == "always" or (color == "auto" and on_terminal and not os.environ.get("NO_COLOR"))
    width = 80
    if on_terminal:
        import shutil

        width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    return {"color": colored, "width": max(width, 40), "full": full, "quiet": quiet, "verbose": verbose}


def globs(
    option: str, texts: Sequence[str], held: Sequence[Path], *, must_hit: bool = True, of: str = "locked"
) -> tuple[str, ...]:
    """Globs of the command line over the held facts. An unquoted file name is taken where it names exactly one fact."""
    found = []
    for text in texts:
        try:
            glob = keys.Glob(text)
        except ValueError as cause:
            raise UsageError(
                f"{option} {text!r} is no key or glob",
                where="the command line",
                fix='write host.* or checkpoint.files."config.json"',
            ) from cause
        if any(glob.matches(path) for path in held):
            found.append(text)
            continue
        named = list(dict.fromkeys(path for path in held if text in (path[-1], ".".join(path), ".".join(path[-2:]))))
        if len(named) > 1:  # a file stands under its sha256 first
            named = [path for path in named if path[:2] == ("checkpoint", "files")] or named
        if len(named) == 1:
            found.append(keys.dotted(named[0]))
            continue
        if must_hit:
            raise _missed(option, text, named, held, of)
        found.append(text)
    return tuple(found)


def _missed(option: str, text: str, named: Sequence[Path], held: Sequence[Path], of: str) -> UsageError:
    if named:
        told = [keys.dotted(path) for path in named]
        what = f"{option} {text!r} names {len(told)} facts: {', '.join(told[:3])}"
        return UsageError(what, where="the command line", fix="write one of them in full")
    known = [keys.dotted(path) for path in held]
    meant = registry.nearest(text, [*known, *dict.fromkeys(path[0] for path in held)])
    where = "observation" if of == "observed" else "lock"
    return UsageError(
        f"{option} {text!r} hits no {of} fact".replace("no  ", "no "),
        where="the command line",
        fix=f"did you mean {meant}?" if meant else f"see the keys in the {where}",
    )


def select(seen: Observation, only: Sequence[str], skip: Sequence[str]) -> Observation:
    """An observation narrowed to the facts that the globs choose."""
    import msgspec

    held = [each.fact.path for each in seen.readings] + [each.path for each in seen.unobserved]
    held += [(*path, "x") for path in seen.complete] + [tuple(each.name.split(".")) for each in seen.checks]
    held += [row.path for row in registry.ROWS]
    wanted = globs("--only", only, held, of="observed")
    unwanted = globs("--skip", skip, held, must_hit=False)
    if not wanted and not unwanted:
        return seen
    inside, outside = [keys.Glob(text) for text in wanted], [keys.Glob(text) for text in unwanted]

    def chosen(path: Path) -> bool:
        return (not inside or any(glob.matches(path) for glob in inside)) and not any(
            glob.matches(path) for glob in outside
        )

    return msgspec.structs.replace(
        seen,
        readings=tuple(each for each in seen.readings if chosen(each.fact.path)),
        unobserved=tuple(each for each in seen.unobserved if chosen(each.path)),
        checks=tuple(each for each in seen.checks if chosen(tuple(each.name.split(".")))),
        complete=frozenset(path for path in seen.complete if chosen((*path, "x"))),
    )


def gate(environ: Mapping[str, str]) -> str:
    """LOCKLLM_GATE: enforce, warn or off."""
    word = environ.get("LOCKLLM_GATE", "enforce").strip().lower() or "enforce"
    if word not in ("enforce", "warn", "off"):
        raise UsageError(f"LOCKLLM_GATE is {word!r}", where="the environment", fix="set it to enforce, warn or off")
    return word


def stage(word: str | None) -> Stage | None:
    """The stage of that name."""
    return Stage(word) if word else None


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
