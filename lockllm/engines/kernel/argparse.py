"""A command line read as Python's argparse reads it: the grammar that vLLM and SGLang share.

Exact spellings, `--flag=value`, unambiguous abbreviations, short forms (`-tp=2`), `nargs`, `--x`/`--no-x`, repeats (the
last one wins), `--`; on request also what vLLM adds: `_` for `-` and dotted JSON (`--a.b.c 1`, `--a.list+ x`).
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.engines.kernel.values import Kind, convert, unresolved

_NEGATIVE = re.compile(r"-(?:\d+|\d*\.\d+)\Z")
_MOST = 2_000  # words of one command: ten times as many as any has, and each may be held against each


class Take(enum.Enum):
    """How many arguments an option takes, as argparse's `action` and `nargs` say it."""

    SWITCH = "switch"  # none: its presence is the value
    BOTH = "both"  # none: --x is true, --no-x is false
    BOOLEAN = "boolean"  # the word true or false, which may be left out at the end or before an option
    ONE = "one"
    MAYBE = "maybe"  # none or one
    MANY = "many"  # one or more
    ANY = "any"  # none or more
    APPEND = "append"  # one; every occurrence adds to a list


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a release: its canonical name (long, no dashes, `_`), its spellings, and what it takes."""

    name: str
    flags: tuple[str, ...]  # "--tensor-parallel-size", "-tp"
    off: tuple[str, ...] = ()  # spellings that set it to false: "--no-enable-prefix-caching"
    take: Take = Take.ONE
    kind: Kind = Kind.TEXT
    bare: Any = True  # the value of a switch, or of an option whose argument is left out


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Every option of one release."""

    options: tuple[Option, ...]
    flags: Mapping[str, tuple[Option, bool]]  # spelling -> option, and whether it sets it (false: an `off` spelling)


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says with one option."""

    name: str
    value: Any  # converted; the text as it stands where it cannot be
    flag: str  # as typed
    known: bool = True  # false: the table has no such option
    typed: tuple[str, ...] = ()  # its arguments as they stand


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A word that the parser of that release refuses."""

    flag: str
    reason: str


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A command line, read."""

    words: tuple[Word, ...]  # every occurrence, in the order in which they take effect
    positionals: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    repeated: tuple[str, ...] = ()  # options given again with another value: only the last one counts

    def last(self) -> dict[str, Word]:
        """The word in force on each option: the last one."""
        return {word.name: word for word in self.words}


_HELP = ("-h", "--help")
"""Options that argparse adds by itself."""


def _repeated(words: Sequence[Word], options: Table) -> tuple[str, ...]:
    adds = {option.name for option in options.options if option.take is Take.APPEND}
    first: dict[str, Word] = {}
    lost: dict[str, str] = {}
    for word in words:
        before = first.setdefault(word.name, word)
        if word.known and word.name not in adds and word.value != before.value:
            lost[word.name] = word.flag
    return tuple(lost.values())


class _Match(msgspec.Struct):
    """An option that a word spells: what it names, whether it sets or unsets, and the value behind `=`."""

    option: Option | None  # None: unknown
    on: bool
    flag: str
    value: str | None
    ambiguous: tuple[str, ...] = ()


def table(options: Sequence[Option]) -> Table:
    """The spellings of a release's options, ready for `parse`."""
    flags: dict[str, tuple[Option, bool]] = {}
    for option in options:
        flags.update(dict.fromkeys(option.flags, (option, True)))
        flags.update(dict.fromkeys(option.off, (option, False)))
    return Table(options=tuple(options), flags=flags)


def parse(argv: Sequence[str], options: Table, *, underscores: bool = False, dotted: bool = False) -> Parsed:
    """Read a command line. `underscores`: `_` in a name is `-`; `dotted`: `--a.b 1` is a part of the JSON of `--a`."""
    problems: list[Problem] = []
    if len(argv) > _MOST:
        problems.append(Problem(flag="", reason=f"more than {_MOST} arguments; the rest is not read"))
    rest = [_dashes(word) if underscores else word for word in argv[:_MOST]]
    if dotted:
        rest = _gather_dotted(rest, problems)
    words: list[Word] = []
    positionals: list[str] = []
    at = 0
    while at < len(rest):
        if rest[at] == "--":
            positionals += rest[at + 1 :]
            break
        if rest[at].partition("=")[0] in _HELP and rest[at] not in options.flags:
            problems.append(
                Problem(flag=rest[at].partition("=")[0], reason="it prints the help, and nothing is served")
            )
            at += 1
            continue
        match = _option(rest[at], options)
        at += 1
        if match is None:
            positionals.append(rest[at - 1])
            continue
        arguments = list(_arguments(rest, at, options))
        used = _apply(match, arguments, words, problems)
        at += used
    repeated = _repeated(words, options)
    return Parsed(words=tuple(words), positionals=tuple(positionals), problems=tuple(problems), repeated=repeated)


def canonical(flag: str) -> str:
    """The name of an option that no table has: no leading dashes, `-` to `_`."""
    return flag.lstrip("-").partition("=")[0].replace("-", "_").replace(".", "_")


def _dashes(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail + equals + value


def _option(word: str, options: Table) -> _Match | None:
    """Which option a word is, as argparse classifies it; None for an argument."""
    if not word.startswith("-") or word == "-" or not word:
        return None
    if word in options.flags:
        option, on = options.flags[word]
        return _Match(option=option, on=on, flag=word, value=None)
    name, equals, value = word.partition("=")
    explicit = value if equals else None
    if name in options.flags:
        option, on = options.flags[name]
        return _Match(option=option, on=on, flag=name, value=explicit)
    found = _abbreviated(name, explicit, word, options)
    if found is not None:
        return found
    if _NEGATIVE.match(word) or " " in word:
        return None
    return _Match(option=None, on=True, flag=name, value=explicit)


def _abbreviated(name: str, explicit: str | None, word: str, options: Table) -> _Match | None:
    if name.startswith("--"):
        hits = [flag for flag in options.flags if flag.startswith(name)]
    else:
        hits = [flag for flag in options.flags if flag.startswith(name) and len(name) > 1]
        short = word[:2]
        if short in options.flags and len(word) > 2:
            option, on = options.flags[short]
            if not hits:
                return _Match(option=option, on=on, flag=short, value=word[2:])
            hits.append(short)
    if not hits:
        return None
    targets = {(options.flags[flag][0].name, options.flags[flag][1]) for flag in hits}
    if len(hits) > 1 and (len(targets) > 1 or not name.startswith("--")):
        return _Match(option=None, on=True, flag=name, value=explicit, ambiguous=tuple(sorted(hits)))
    option, on = options.flags[hits[0]]
    return _Match(option=option, on=on, flag=name, value=explicit)


def _arguments(argv: Sequence[str], at: int, options: Table) -> Iterator[str]:
    """The arguments that follow an option, up to the next option or `--`."""
    for word in argv[at:]:
        if word == "--" or _option(word, options) is not None:
            return
        yield word


def _apply(match: _Match, arguments: Sequence[str], words: list[Word], problems: list[Problem]) -> int:
    """Add what the match says to `words`; the number of arguments that it took."""
    option = match.option
    if option is None:
        return _unknown(match, arguments, words, problems)
    if option.take in (Take.SWITCH, Take.BOTH) or not match.on:
        if match.value is not None:
            problems.append(Problem(flag=match.flag, reason="it takes no value"))
        value = option.bare if match.on else False
        told = _truth(match.value)
        if told is not None:
            value = value if told else (not value if isinstance(value, bool) else value)
        words.append(Word(name=option.name, value=value, flag=match.flag))
        return 0
    taken = [match.value] if match.value is not None else _taken(option, arguments)
    if not taken and option.take in (Take.ONE, Take.APPEND, Take.MANY):
        problems.append(Problem(flag=match.flag, reason="its value is missing"))
        return 0
    value = _value(option, match, taken, problems)
    if option.take is Take.APPEND:
        value = (*next((word.value for word in reversed(words) if word.name == option.name), ()), *value)
    words.append(Word(name=option.name, value=value, flag=match.flag, typed=tuple(taken)))
    return 0 if match.value is not None else len(taken)


def _taken(option: Option, arguments: Sequence[str]) -> list[str]:
    if option.take in (Take.MANY, Take.ANY):
        return list(arguments)
    return list(arguments[:1])


def _value(option: Option, match: _Match, taken: Sequence[str], problems: list[Problem]) -> Any:
    if not taken:
        return option.bare
    if option.take is Take.BOOLEAN:
        told = _truth(taken[0])
        if told is None:
            problems.append(Problem(flag=match.flag, reason=f"{taken[0]!r} is neither true nor false"))
        return taken[0] if told is None else told
    values = []
    for text in taken:
        try:
            values.append(convert(option.kind, text))
        except ValueError as why:
            values.append(text)
            if not unresolved(text):
                problems.append(Problem(flag=match.flag, reason=f"its value is not {why}"))
    return tuple(values) if option.take in (Take.MANY, Take.ANY, Take.APPEND) else values[0]


def _unknown(match: _Match, arguments: Sequence[str], words: list[Word], problems: list[Problem]) -> int:
    if match.ambiguous:
        reason = "it may be " + ", ".join(match.ambiguous[:5])
    else:
        reason = "no such option in this release"
    problems.append(Problem(flag=match.flag, reason=reason))
    if match.value is not None:
        told, used = [match.value], 0
    else:
        told, used = list(arguments), len(arguments)
    value: Any = True if not told else _plain(told[0]) if len(told) == 1 else tuple(map(_plain, told))
    words.append(Word(name=canonical(match.flag), value=value, flag=match.flag, known=False))
    return used


def _plain(text: str) -> Any:
    """A value of an option that no table has: JSON where it looks like a number, a truth value, a list or an object."""
    if re.fullmatch(r"-?\d+(\.\d+)?|true|false|[\[{].*", text, re.DOTALL):
        try:
            return convert(Kind.JSON, text)
        except ValueError:
            return text
    return text


def _truth(text: str | None) -> bool | None:
    return {"true": True, "false": False}.get(text.lower()) if text is not None else None


def _gather_dotted(argv: Sequence[str], problems: list[Problem]) -> list[str]:
    """All dotted parts of one option (vLLM) become one JSON value at the end, where it outranks a whole JSON."""
    rest: list[str] = []
    gathered: dict[str, dict[str, Any]] = {}
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        name, equals, value = word.partition("=")
        if word == "--" or not name.startswith("-") or "." not in name or _NEGATIVE.match(word) or " " in name:
            rest.append(word)
            continue
        if not equals:
            if at >= len(argv):
                problems.append(Problem(flag=name, reason="its value is missing"))
                continue
            value = argv[at]
            at += 1
        key, *parts = name.removesuffix("+").split(".")
        told = value.split(",") if name.endswith("+") else convert(Kind.LOOSE, value)
        _merge(gathered.setdefault(key, {}), parts, told)
    for key, told in gathered.items():
        rest += [key, json.dumps(told)]
    return rest


def _merge(into: dict[str, Any], parts: Sequence[str], value: Any) -> None:
    for part in parts[:-1]:
        held = into.get(part)
        if not isinstance(held, dict):
            held = into[part] = {}
        into = held
    held = into.get(parts[-1])
    if isinstance(held, list) and isinstance(value, list):
        into[parts[-1]] = held + value
    elif isinstance(held, dict) and isinstance(value, dict):
        held.update(value)
    else:
        into[parts[-1]] = value
