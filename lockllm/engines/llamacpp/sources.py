"""Where a llama-server takes its settings from: config.ini, variables, the command line; the last word on each wins.

Order of llama.cpp's common/arg.cpp: /etc/llama.cpp/config.ini, the user's config.ini, LLAMA_ARG_*, arguments. The ini
files are read since 2026-08 (absent in b9873, there in b10809).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.engines.llamacpp.options import BY_FLAG, BY_NAME, BY_VARIABLE, GONE, NEVER, Kind, Option

SYSTEM_FILE = "/etc/llama.cpp/config.ini"
INI_SINCE, INI_NOT_UNTIL = 10809, 9873
_TRUE = frozenset(("on", "enabled", "true", "1"))
_FALSE = frozenset(("off", "disabled", "false", "0"))
_FLASH = _TRUE | _FALSE | {"auto"}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")
_SECTION = re.compile(r"\s*\[([^\]]*)\]")
_MOST_LINES = 10_000
_ACCUMULATING = (Kind.LIST, Kind.LIST1)


class Setting(msgspec.Struct, frozen=True):
    """The last word on one option, and who said it."""

    option: Option
    value: Any
    source: str  # `argument -c`, `variable LLAMA_ARG_CTX_SIZE`, `/etc/llama.cpp/config.ini: ctx-size`


class Problem(msgspec.Struct, frozen=True):
    """An argument or line that a build does not take."""

    text: str
    what: str
    sure: bool  # no build takes it; else it depends on the build


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was set, by canonical name, and what went wrong."""

    by_name: Mapping[str, Setting]
    problems: tuple[Problem, ...] = ()
    unknown: Mapping[str, Any] = {}  # options outside the table, kept: canonical name -> value
    dead: tuple[str, ...] = ()  # LLAMA_ARG_* variables that no option reads
    ini: tuple[str, ...] = ()  # config files that were applied


def user_file(env: Mapping[str, str]) -> str | None:
    """The user's config.ini, by the server's own HOME."""
    root = env.get("XDG_CONFIG_HOME") or (f"{env['HOME']}/.config" if env.get("HOME") else "")
    return f"{root}/llama.cpp/config.ini" if root else None


def read(args: Sequence[str], env: Mapping[str, str], files: Mapping[str, str], build: int | None) -> Settings:
    """All settings of a command line, its environment and its config files."""
    found: dict[str, Setting] = {}
    problems: list[Problem] = []
    applied = []
    for name in (SYSTEM_FILE, user_file(env)):
        if not name or name not in files:
            continue
        if build is not None and build <= INI_NOT_UNTIL:
            problems.append(Problem(name, f"{name} is there, but b{build} reads no config.ini", False))
            continue
        applied.append(name)
        for key, text in _ini(files[name]):
            _keep(found, key, text, f"{name}: {key}", problems)
    dead = _variables(found, env)
    unknown = _arguments(found, args, problems)
    return Settings(by_name=found, problems=tuple(problems), unknown=unknown, dead=dead, ini=tuple(applied))


def truth(text: object) -> bool | None:
    """What a word says of a switch: on, off, or neither."""
    word = str(text).strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def convert(option: Option, text: str) -> Any:
    """An argument as its option's kind reads it; the text as it stands where it is no such value."""
    kind = option.kind
    if kind in (Kind.INT, Kind.SLOTS, Kind.SEED, Kind.LAYERS):
        return int(text) if re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text) else text
    if kind is Kind.NUMBER or kind is Kind.LOOSE:
        return number(text)
    return text


def number(text: str) -> Any:
    """A number where the text is one, whole where it is whole."""
    if len(text) > 40 or not _NUMBER.match(text.strip()):
        return text
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 and "e" not in text.lower() else value


def _ini(text: str) -> Iterator[tuple[str, str]]:
    """Keys of the sections `*`, then of `default`; keys before any section count as `*`."""
    sections: dict[str, list[tuple[str, str]]] = {"*": [], "default": []}
    section = "*"
    for line in text.splitlines()[:_MOST_LINES]:
        line = line.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if head := _SECTION.match(line):
            section = head.group(1).strip()
            continue
        key, equals, value = line.partition("=")
        if equals and section in sections:
            sections[section].append((key.strip(), value.strip()))
    yield from sections["*"]
    yield from sections["default"]


def _keep(found: dict[str, Setting], key: str, text: str, source: str, problems: list[Problem]) -> None:
    flag = "--" + key.lstrip("-").replace("_", "-")
    option = BY_FLAG.get(flag)
    if option is None:
        problems.append(Problem(key, f"{source} is no option of llama-server", False))
    elif option.kind in (Kind.FLAG, Kind.SWITCH):
        on = truth(text) is not False
        found[option.name] = Setting(option, on if flag in option.flags else not on, source)
    elif option.kind in _ACCUMULATING:
        found[option.name] = Setting(option, (text,), source)
    else:
        found[option.name] = Setting(option, convert(option, text), source)


def _variables(found: dict[str, Setting], env: Mapping[str, str]) -> tuple[str, ...]:
    """Applies LLAMA_ARG_*; returns those that nothing reads. `LLAMA_ARG_NO_X`, whatever it holds, is asked before X."""
    dead = []
    for name, text in env.items():
        option = BY_VARIABLE.get(name)
        if option is not None:
            if option.kind in (Kind.FLAG, Kind.SWITCH):
                said = truth(text)
                if said is not None and (said or option.kind is Kind.SWITCH):
                    found[option.name] = Setting(option, said, f"variable {name}")
            elif option.kind in _ACCUMULATING:
                found[option.name] = Setting(option, (text,), f"variable {name}")
            else:
                found[option.name] = Setting(option, convert(option, text), f"variable {name}")
        elif name.startswith("LLAMA_ARG_") and not name.startswith("LLAMA_ARG_NO_"):
            dead.append(name)
    for name in env:
        if name.startswith("LLAMA_ARG_NO_") and name not in BY_VARIABLE:
            option = BY_VARIABLE.get("LLAMA_ARG_" + name.removeprefix("LLAMA_ARG_NO_"))
            if option is not None and option.kind is Kind.SWITCH:
                found[option.name] = Setting(option, False, f"variable {name}")
            else:
                dead.append(name)
    return tuple(dead)


def _arguments(found: dict[str, Setting], args: Sequence[str], problems: list[Problem]) -> dict[str, Any]:
    unknown: dict[str, Any] = {}
    lists: dict[str, list[str]] = {}
    at = 0
    while at < len(args):
        word, inline = args[at], None
        at += 1
        flag = _spelled(word)
        option = BY_FLAG.get(flag)
        if option is None and flag.startswith("--") and "=" in flag:
            flag, _, inline = word.partition("=")
            flag = _spelled(flag)
            option = BY_FLAG.get(flag)
            what = f"{flag}=VALUE is refused: llama-server takes the value as an argument of its own"
            problems.append(Problem(flag, what, True))
        if option is None:
            at = _stray(word, flag, inline, args, at, unknown, problems)
            continue
        if flag in GONE:
            problems.append(Problem(flag, f"{flag} is gone from newer builds", False))
        value, at = _value(option, flag, inline, args, at, problems)
        source = f"argument {flag}"
        if option.kind in _ACCUMULATING and isinstance(value, str):
            lists.setdefault(option.name, []).append(value)
            found[option.name] = Setting(option, tuple(lists[option.name]), source)
        elif value is not None:
            found[option.name] = Setting(option, value, source)
    return unknown


def _spelled(word: str) -> str:
    """`--top_k` is `--top-k`; short spellings stand as they are."""
    if not word.startswith("--"):
        return word
    name, equals, rest = word.partition("=")
    return name.replace("_", "-") + equals + rest


def _value(
    option: Option, flag: str, inline: str | None, args: Sequence[str], at: int, problems: list[Problem]
) -> tuple[Any, int]:
    kind = option.kind
    if kind in (Kind.FLAG, Kind.SWITCH):
        on = flag not in option.off
        if inline is not None and truth(inline) is False:
            on = not on
        return on, at
    following = inline if inline is not None else args[at] if at < len(args) else None
    if kind in (Kind.FLASH, Kind.OPTIONAL):
        if following is None or (inline is None and following.lower() not in _FLASH):
            if kind is Kind.FLASH:
                problems.append(Problem(flag, f"{flag} without a value is refused since it is on, off or auto", False))
            return True, at
    elif following is None:
        problems.append(Problem(flag, f"{flag} lacks its value", True))
        return None, at
    if inline is None:
        at += 1
    assert following is not None
    if kind is Kind.PAIR:
        second = args[at] if at < len(args) else ""
        return f"{following} {second}", at + 1
    if kind in (Kind.FLASH, Kind.OPTIONAL):
        return (int(following) if following in ("0", "1") else following), at
    return convert(option, following), at


def _stray(
    word: str,
    flag: str,
    inline: str | None,
    args: Sequence[str],
    at: int,
    unknown: dict[str, Any],
    problems: list[Problem],
) -> int:
    """An argument outside the table: an option that is kept, or a word that belongs to none."""
    if not word.startswith("-") or word in ("-", "--") or _NUMBER.match(word):
        problems.append(Problem(word, "an argument belongs to no option", True))
        return at
    value: Any = True
    if inline is not None:
        value = number(inline)
    elif at < len(args) and (not args[at].startswith("-") or _NUMBER.match(args[at])):
        value = number(args[at])
        at += 1
    unknown[flag.lstrip("-").replace("-", "_")] = value
    problems.append(Problem(flag, f"llama-server has no option {flag}", flag in NEVER))
    return at


def named(settings: Settings, name: str) -> Setting | None:
    """The setting of an option by its canonical name."""
    assert name in BY_NAME, name
    return settings.by_name.get(name)
