"""The command line: a lazy group, and the one place where errors become text and exit codes."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from lockllm import __version__
from lockllm.errors import ArgumentError, LockllmError

COMMANDS = {
    "init": "Write an llm.toml from a checkpoint, a command line or a running server.",
    "lock": "Resolve llm.toml into llm.lock.",
    "verify": "Check a host against llm.lock.",
    "exec": "Verify a server about to be started, then start it.",
    "observe": "Record what this host shows, for use elsewhere.",
    "command": "Print the command that realizes a lock.",
    "canary": "Tell numerical noise of a running server from a step in what it does.",
    "diff": "Compare two locks for review.",
    "inspect": "Print the facts and findings of a checkpoint, a command line or a start log.",
    "render": "Render a chat template as the engine would.",
    "explain": "Describe a fact: its effect, and where engines set and show it.",
    "fingerprint": "Print the short ID of a lock or an observation.",
    "schema": "Print the JSON Schema of a document.",
    "completion": "Print a completion script for a shell.",
}
_LONG = ("init", "lock", "verify", "exec", "observe", "inspect", "render")
"""Commands that may run long, in several threads."""
_SIGINT, _SIGPIPE = 2, 13
"""POSIX numbers: importing `signal` would cost a tenth of a short run."""
_NO_VARIABLE = ""
"""The name of a variable that cannot be set."""
_POSITIONAL = ("fact", "lock")
_TRACKER = "https://github.com/lockllm/lockllm/issues"


class LazyGroup(click.Group):
    """A group that imports a command when it runs, and none to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"lockllm.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; the error for an unknown name suggests the nearest one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from lockllm.facts.registry import nearest

            meant = nearest(name, list(COMMANDS))
            hint = f"did you mean `lockllm {meant}`?" if meant else "see `lockllm --help`"
            raise click.UsageError(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success; 1 something differs, or a lock is stale; 2 wrong usage or input; 3 nothing differs, but "
    "something due could not be seen; 4 reading or writing failed. See docs/exit-codes.md.",
)
@click.version_option(__version__, "-V", "--version", prog_name="lockllm", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Pin everything that turns a model's weights into tokens, and report what changed.

    Edit llm.toml, run `lockllm lock`, commit llm.lock; run `lockllm verify` where the server runs.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and exit. Returns only where `sys.exit` is caught."""
    gc.set_threshold(100_000, 50, 50)  # a short run leaves no garbage cycles
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in _LONG and not _only_judges(words):
        from lockllm.cli import _signals

        _signals.install()
    try:
        code = run(argv)
    except OSError:  # standard error cannot be written either
        code = 4
        _silence(sys.stderr)
    gc.freeze()  # the interpreter collects twice more at exit: a tenth of a short run
    sys.exit(code)


def _only_judges(words: Sequence[str]) -> bool:
    """Whether it is a `verify` of an observation, which is over at once."""
    return words[0] == "verify" and any(word.partition("=")[0] == "--observation" for word in words)


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process
        nowhere = open(os.devnull, "w")  # noqa: SIM115 - it stays open to the end
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that the terminal cannot encode are escaped
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else list(argv)
    completes = not words and "_LOCKLLM_COMPLETE" in os.environ  # a completion script names no command
    try:
        code = cli.main(
            args=words, prog_name="lockllm", standalone_mode=False, complete_var=None if completes else _NO_VARIABLE
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except LockllmError as error:
        print_error(error)
        return max((error, *error.also), key=lambda each: each.exit_code == 2).exit_code
    except click.ClickException as error:
        _print_usage_error(error)
        return 2
    except (KeyboardInterrupt, click.Abort):
        print("\nlockllm: interrupted; no file was left half written", file=sys.stderr)
        return 128 + _SIGINT
    except BrokenPipeError:
        _silence()
        return 128 + _SIGPIPE
    except SystemExit:  # click exits so when the reader is gone, and after a completion
        if completes:
            raise
        _silence()
        return 128 + _SIGPIPE
    except OSError as error:
        return _system_error(error)
    except ImportError as error:
        return _import_failed(error)
    except MemoryError:
        return _exhausted("memory")
    except RuntimeError as error:
        return _exhausted("threads") if "start new thread" in str(error) else _bug(error)
    except Exception as error:  # noqa: BLE001 - the last resort: a user never sees a traceback
        return _bug(error)


def print_error(error: LockllmError) -> None:
    """Print an error, and every further one of the same document, to stderr."""
    for each in (error, *error.also):
        lines = [f"lockllm: {_clean(each.what)}"]
        where = _option(each.where) if isinstance(each, ArgumentError) else _clean(each.where)
        lines += [f"  in    {where}"] if where else []
        lines += [f"  fix   {_clean(each.fix)}"] if each.fix else []
        print("\n".join(lines).encode("utf-8", "backslashreplace").decode("utf-8"), file=sys.stderr)


def _option(argument: str) -> str:
    """The option that stands for an argument of the API."""
    return "the command line" if argument in _POSITIONAL else f"--{argument.replace('_', '-')}"


def _clean(text: str) -> str:
    """Text that may quote a person or a host: escaped, without passwords and tokens."""
    from lockllm.engines.shown import redaction
    from lockllm.output.escape import readable

    return readable(redaction.text(text))


def _print_usage_error(error: click.ClickException) -> None:
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "lockllm"
    print(f"lockllm: {_clean(_usage(error))}\n  fix   see `{path} --help`", file=sys.stderr)


def _usage(error: click.ClickException) -> str:
    """What is wrong with a command line; click's own message where it names the cause."""
    if isinstance(error, click.NoSuchOption):
        from lockllm.facts.registry import nearest

        meant = nearest(error.option_name, list(error.possibilities or ()))
        return f"no such option {error.option_name}" + (f"; did you mean {meant}?" if meant else "")
    message = " ".join(error.format_message().split()).rstrip(".")
    bad = isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter)
    if isinstance(error, click.BadParameter) and bad and error.param is not None:
        named = error.param.opts[0] if isinstance(error.param, click.Option) else error.param.human_readable_name
        message = f"{named}: {error.message.rstrip('.')}"
    return message[:1].lower() + message[1:]


def _system_error(error: OSError) -> int:
    from lockllm.output.escape import readable

    reason = (error.strerror or str(error)).lower()
    what, fix = f"the output cannot be written: {reason}", "check where standard output goes"
    if not _has_folder():
        what, fix = "the current directory no longer exists", "change to one that exists: cd DIRECTORY"
    elif error.filename:
        what, fix = f"{readable(str(error.filename))} cannot be accessed: {reason}", "check its permissions"
    print(f"lockllm: {what}\n  fix   {'free some space' if error.errno == errno.ENOSPC else fix}", file=sys.stderr)
    if not error.filename:
        _silence()
    return 4


def _has_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _exhausted(of: str) -> int:
    print(f"lockllm: out of {of}: this process's limit is too low\n  fix   raise the limit (ulimit)", file=sys.stderr)
    return 4


def _bug(error: Exception) -> int:
    import traceback

    from lockllm.output.escape import visible

    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"
    print(
        f"lockllm: a bug in lockllm: {type(error).__name__} at {place}: {visible(str(error))[:300]}\n"
        f"  fix   report it at {_TRACKER} with this line and `lockllm --version`",
        file=sys.stderr,
    )
    if os.environ.get("LOCKLLM_DEBUG"):
        traceback.print_exc()
    return 70


def _import_failed(error: ImportError) -> int:
    print(
        f"lockllm: a package it needs cannot be imported: {_clean(str(error))[:300]}\n"
        "  fix   install lockllm in its own environment, and run it as `python -I -m lockllm`",
        file=sys.stderr,
    )
    return 4


def _silence(stream: Any = None) -> None:
    """Discard further output to stdout (or another stream), including what Python flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())
