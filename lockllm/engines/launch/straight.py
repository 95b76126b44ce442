"""A command that is about to be started, read whole: a few system programs before the engine's own, and nothing guessed.

`unwrap` reads what it can of a command that somebody else started. Here every word must be understood, because the command
starts next: an option that is not in the table, a shell, a script or an unknown launcher ends the reading.

The options are those of GNU coreutils 9.4, util-linux 2.39, numactl 2.0.18, tini 0.19 and dumb-init 1.2.5, as their manuals
list them. Abbreviated long options are not in the table, and so are not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from lockllm import engines
from lockllm.engines.launch import shell
from lockllm.engines.launch.forms import base, find, is_python

_ASSIGN = re.compile(r"([^=]+)=(.*)\Z", re.DOTALL)
_LAYERS = 12
_START_UP = re.compile(r"(BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|ZDOTDIR)\Z", re.DOTALL)
_PYTHON_FLAGS = frozenset("BEIPbqsuv")
_PYTHON_VALUES = ("-W", "-X")

Locate = Callable[[str, Mapping[str, str], str], str]
"""Why the file that a word names, with these variables and in this directory, is no program of the system; empty where it is."""


class Unread(Exception):
    """Why a command cannot be read whole."""


class Straight(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's own command, and what reaches it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str = ""
    wrappers: tuple[str, ...] = ()


class _Own(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one wrapper: flags and options with a value, by their whole names, and words before the command."""

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    words: int = 0
    assigns: bool = False


def _w(flags: str = "", values: str = "", words: int = 0, *, assigns: bool = False) -> _Own:
    return _Own(flags=frozenset(flags.split()), values=frozenset(values.split()), words=words, assigns=assigns)


_INIT = _w("-s -w -g -v", "-p -e")
WRAPPERS: dict[str, _Own] = {
    "env": _w("-i --ignore-environment -", "-u --unset -C --chdir", assigns=True),
    "nice": _w("", "-n --adjustment"),
    "nohup": _w(),
    "timeout": _w("--preserve-status --foreground -v --verbose", "-k --kill-after -s --signal", 1),
    "stdbuf": _w("", "-i --input -o --output -e --error"),
    "setsid": _w("-c --ctty -f --fork -w --wait"),
    "ionice": _w("-t --ignore", "-c --class -n --classdata"),
    "taskset": _w("-a --all-tasks -c --cpu-list", "", 1),
    "chrt": _w(
        "-o --other -f --fifo -r --rr -b --batch -i --idle -R --reset-on-fork -v --verbose -a --all-tasks", "", 1
    ),
    "prlimit": _w("--noheadings --raw --verbose", " ".join(
        f"--{name}" for name in ("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile",
                                 "nproc", "rss", "rtprio", "rttime", "sigpending", "stack")
    )),
    "numactl": _w("-l --localalloc -a --all -b --balancing -t --strict", "-N --cpunodebind -m --membind -p --preferred "
                  "-C --physcpubind -i --interleave -w --weighted-interleave -P --preferred-many"),
    "tini": _INIT,
    "tini-static": _INIT,
    "docker-init": _INIT,
    "catatonit": _w("-g"),
    "dumb-init": _w("-c --single-child -v --verbose", "-r --rewrite"),
}  # fmt: skip
"""Base name of a program of the system -> its words, as far as the command after them is still the one that starts."""

_ATTACHED_ONLY = {"prlimit"}
"""Programs whose long options take their value after `=` alone: it may be left out."""


def straight(argv: Sequence[str], env: Mapping[str, str], locate: Locate) -> Straight:
    """The engine's command behind wrappers of the system. Raises Unread where a word of it is not understood."""
    hidden = sorted(name for name in env if _START_UP.match(name))
    state = Straight(argv=tuple(argv), env=dict(env))
    for _ in range(_LAYERS):
        name = base(state.argv[0])
        if name in shell.SHELLS or name in ("csh", "tcsh", "fish", "rbash", "mksh", "yash"):
            with_files = f", and {hidden[0]} is set" if hidden else ""
            raise Unread(f"{_shown(name)} is a shell{with_files}: what it starts is known only when it has started")
        if name in WRAPPERS:
            why = locate(state.argv[0], state.env, state.cwd)
            if why:
                raise Unread(f"{_shown(state.argv[0])} {why}")
            state = _inner(name, WRAPPERS[name], state)
            continue
        if is_python(name):
            _python(state.argv)
        if find(state.argv) is None and not (engines.include_plugins() and find(state.argv)):
            raise Unread(
                f"{_shown(name)} is no program of an engine that this release knows: what it starts is not known"
            )
        return state
    raise Unread("there are too many wrappers")


def _inner(name: str, own: _Own, state: Straight) -> Straight:
    argv, at, words = state.argv, 1, own.words
    env, cwd = dict(state.env), state.cwd
    clear: list[tuple[str, str]] = []
    while at < len(argv):
        word = argv[at]
        if word == "--":
            at += 1
            break
        if word == "-" and "-" in own.flags:
            clear.append(("-", ""))
            at += 1
            break  # `env - NAME=VALUE`: what follows are no options any more
        if not word.startswith("-") or word == "-":
            break
        found, at = _option(name, own, argv, at)
        clear += found
    for option, value in clear:
        if option in ("-i", "--ignore-environment", "-") and own.assigns:
            env = {}
        elif option in ("-C", "--chdir") and own.assigns:
            cwd = value if value.startswith("/") or not cwd else f"{cwd}/{value}"
    for option, value in clear:
        if option in ("-u", "--unset") and own.assigns:
            env.pop(value, None)
    while own.assigns and at < len(argv) and (pair := _ASSIGN.match(argv[at])):
        env[pair.group(1)] = pair.group(2)
        at += 1
    for _ in range(words):
        if at < len(argv) and argv[at].startswith("-"):
            raise Unread(f"{name} has options where its own words are expected")
        at += 1
    if at >= len(argv):
        raise Unread(f"{name} starts nothing")
    if not argv[at] or argv[at].startswith("-"):
        raise Unread(f"{name} is given {_shown(argv[at])} where a program is expected")
    return Straight(argv=argv[at:], env=env, cwd=cwd, wrappers=(*state.wrappers, name))


def _option(name: str, own: _Own, argv: Sequence[str], at: int) -> tuple[list[tuple[str, str]], int]:
    """One word of options, as getopt reads it: its options with their values, and where the next word is."""
    word = argv[at]
    if word.startswith("--"):
        option, equals, value = word.partition("=")
        if option in own.flags and not equals:
            return [(option, "")], at + 1
        if option in own.values and equals:
            return [(option, value)], at + 1
        if option in own.values and name not in _ATTACHED_ONLY and at + 1 < len(argv):
            return [(option, argv[at + 1])], at + 2
        raise Unread(f"{name} is given {_shown(option)}, an option that this release does not know")
    found: list[tuple[str, str]] = []
    for place, letter in enumerate(word[1:], 1):
        option = f"-{letter}"
        if option in own.flags:
            found.append((option, ""))
        elif option in own.values:
            rest = word[place + 1 :]
            if rest:
                return [*found, (option, rest)], at + 1
            if at + 1 < len(argv):
                return [*found, (option, argv[at + 1])], at + 2
            break
        else:
            break
    else:
        return found, at + 1
    raise Unread(f"{name} is given {_shown(word)}, an option that this release does not know")


def _python(argv: Sequence[str]) -> None:
    """Options before `-m MODULE` or a script. Those that run other code, or leave installed packages out, are not read."""
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        word = argv[at]
        if word in _PYTHON_VALUES:
            at += 2
            continue
        if word[:2] in _PYTHON_VALUES:
            at += 1
            continue
        if word == "-m":
            return
        if set(word[1:]) <= _PYTHON_FLAGS and len(word) > 1:
            at += 1
            continue
        if re.fullmatch(rf"-[{''.join(sorted(_PYTHON_FLAGS))}]*m", word):
            return
        raise Unread(f"{base(argv[0])} is given {_shown(word)}: the code that it runs is not the engine's alone")
    if at >= len(argv) or argv[at] == "-":
        raise Unread(f"{base(argv[0])} is given no program")


def _shown(word: str) -> str:
    return word if word.isprintable() and len(word) < 80 and "=" not in word else "a word"
