"""What vLLM refuses of a command line whose options it knows: stray words, values, and keys inside JSON, by release.

The parser of each release was run (0.6.0 to 0.33.0): the lists of `choices` and the keys of its configuration classes
are its own, and only what it refused stands in the tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from lockllm.engines import Form
from lockllm.engines.kernel.argparse import Parsed, Problem, Word
from lockllm.engines.kernel.release_data import Steps
from lockllm.engines.kernel.release_data import words as words_at
from lockllm.engines.kernel.releases import at_least, below
from lockllm.engines.kernel.values import Kind, is_json, stray, unresolved, with_numbers
from lockllm.engines.vllm.options import DATA, NULLABLE, READ, following, names, nearest, options

_LITERALS = "0.8.5"
"""The last release that reads `--compilation-config` as a Python literal; all else was ever JSON."""
_NUMBERS = "0.20.0"
"""The first release whose configuration classes take 80m and 4K inside their JSON."""
_ADDED = {"quantization": frozenset({"ascend"})}
"""Values that a platform plugin adds to the parser's own list (vllm-ascend)."""
_NOTHING = frozenset({"", "None"})
"""How an option that may be None is told so."""


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    """What a release takes: by option, or by the path of a key inside an option's JSON."""

    values: Mapping[str, frozenset[str]]
    keys: Mapping[str, frozenset[str]]
    parsers: Mapping[str, frozenset[str]] = {}  # what is registered for tools and for reasoning
    json: frozenset[str] = frozenset()  # options whose value must be JSON
    text: frozenset[str] = frozenset()  # those of them that may be a text without braces
    literal: frozenset[str] = frozenset()  # those of them that take a Python literal
    numbers: bool = False  # whether JSON for a configuration class may hold 80m and 4K


def lists(version: str | None, read: str) -> Lists:
    """The lists of a version. One between two that were read may be like either: it takes what one of them takes."""
    before, after = nearest(version), following(version)
    if before is None or after is None:
        return _of(read)
    one, other = _of(before), _of(after)
    return Lists(
        values=_both(one.values, other.values),
        keys=_both(one.keys, other.keys),
        parsers=_both(one.parsers, other.parsers),
        json=one.json & other.json,
        text=one.text | other.text,
        literal=one.literal | other.literal,
        numbers=one.numbers or other.numbers,
    )


def problems(form: Form, module: bool, parsed: Parsed, known: Lists, version: str | None) -> list[Problem]:
    """Every word that is refused: by the parser, and by what reads its values."""
    unset = {word.flag for word in parsed.words if _unset(word)}
    found = [
        each for each in parsed.problems if each.flag not in unset or not each.reason.startswith("its value is not")
    ]
    for extra in parsed.positionals[0 if module and below(version, "0.10.0") else 1 :]:
        shown = stray(extra, form.args) if extra.strip() else "a blank argument"
        found.append(Problem(flag="", reason=f"{shown} belongs to no option"))
    found += _config(form)
    if not module:
        found += _model(form, parsed, version)
    for word in _unregistered(parsed, known):
        known_names = ", ".join(sorted(known.parsers[word.name]))
        found.append(Problem(flag=word.flag, reason=f"{str(word.value)[:40]!r} is none of {known_names}"))
    for word in parsed.words:
        open_ = _unset(word) or unresolved(word.value)
        if word.name in known.json and not _unset(word) and not all(_is_json(word, text, known) for text in word.typed):
            found.append(Problem(flag=word.flag, reason="its value is no JSON"))
        elif word.name in known.keys and not isinstance(word.value, dict) and not open_:
            found.append(Problem(flag=word.flag, reason="its JSON is no object"))
        if word.name == "lora_modules":
            found += _adapters(word)
        found += _values(word, known)
        found += _keys(word.flag, word.name, word.value, known)
    return found


def _config(form: Form) -> Iterator[Problem]:
    """`--config FILE`: once, and a YAML file by its name."""
    at = [number for number, word in enumerate(form.args) if word == "--config"]
    if len(at) > 1:
        yield Problem(flag="--config", reason="more than one file is named")
    elif at and at[0] + 1 == len(form.args):
        yield Problem(flag="--config", reason="its value is missing")
    elif at and not unresolved(name := form.args[at[0] + 1]) and name.rpartition(".")[2] not in ("yaml", "yml"):
        yield Problem(flag="--config", reason="its file is no .yaml or .yml")


def _model(form: Form, parsed: Parsed, version: str | None) -> Iterator[Problem]:
    """`vllm serve MODEL`: required up to 0.8.2; `--model` in its place since 0.11.1, never beside it."""
    named = any(word.partition("=")[0] == "--model" for word in form.args)
    if (named and below(version, "0.11.1")) or (not parsed.positionals and below(version, "0.8.3")):
        yield Problem(flag="--model" if named else "", reason="`vllm serve` takes the model as its first argument")
    elif named and version is not None and parsed.positionals:
        yield Problem(flag="--model", reason="the model is named twice")
    elif not named and not parsed.positionals and at_least(version, "0.17.0") and "served_model_name" in parsed.last():
        if "--config" not in form.args:
            yield Problem(flag="--served-model-name", reason="`vllm serve` takes the model as its first argument")


def in_force(parsed: Parsed) -> dict[str, Word]:
    """The last word on each option; one that may be None is left unset by an empty text or `None`."""
    return {name: word for name, word in parsed.last().items() if not _unset(word)}


def last_releases_that_take(parsed: Parsed, known: Lists) -> Iterator[str]:
    """For every value or key that these lists refuse: the last releases that take it."""
    for word in _unregistered(parsed, known):
        yield from _takers(word.name, word.name, str(word.value), "parsers")
    for word in parsed.words:
        if word.name == "compilation_config" and not all(map(is_json, word.typed)):
            yield _LITERALS
        for path, entry, table in _refused(word, known):
            yield from _takers(word.name, path, entry, table)


def _takers(name: str, path: str, entry: str, table: str) -> Iterator[str]:
    newer = False
    for read in reversed(READ):
        taken = getattr(_of(read), table).get(path)
        takes = name in names(read) and (taken is None or entry in taken)
        if takes and not newer:
            yield read
        newer = takes


def _unregistered(parsed: Parsed, known: Lists) -> Iterator[Word]:
    """Parsers for tools and reasoning that the release does not bring, where no plugin may bring them."""
    words = in_force(parsed)
    automatic = "enable_auto_tool_choice" in words and words["enable_auto_tool_choice"].value is True
    for name, plugin, counts in (
        ("tool_call_parser", "tool_parser_plugin", automatic),
        ("reasoning_parser", "reasoning_parser_plugin", True),
    ):
        word, registered = words.get(name), known.parsers.get(name)
        if word is None or registered is None or plugin in words or not counts or unresolved(word.value):
            continue
        if word.value and word.value not in registered and word.name not in known.values:
            yield word


@lru_cache(maxsize=64)
def _of(read: str) -> Lists:
    table = options(read).options
    return Lists(
        values=_at(DATA.values, read),
        keys=_at(DATA.keys, read),
        parsers=_at(DATA.registered, read),
        json=frozenset(option.name for option in table if option.kind in (Kind.JSON, Kind.JSON_OR_TEXT)),
        text=frozenset(option.name for option in table if option.kind is Kind.JSON_OR_TEXT),
        literal=frozenset({"compilation_config"} if at_least(_LITERALS, read) else ()),
        numbers=at_least(read, _NUMBERS),
    )


def _at(section: Mapping[str, Steps], read: str) -> dict[str, frozenset[str]]:
    """The lists in force at a release."""
    found = {}
    for path, steps in section.items():
        held = words_at(steps, read)
        if held is not None:
            held |= _ADDED.get(path, frozenset())
            found[path] = held | _NOTHING if "None" in held else held
    return found


def _unset(word: Word) -> bool:
    if word.name not in NULLABLE or not isinstance(word.value, str):
        return False
    return word.value in _NOTHING or (word.name == "reasoning_parser" and word.value.lower() == "none")


def _both(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {path: one[path] | other[path] for path in one.keys() & other.keys()}


def _values(word: Word, known: Lists) -> Iterator[Problem]:
    taken = known.values.get(word.name)
    for value in _texts(word.value) if taken is not None else ():
        if value not in (taken or ()):
            shown = ", ".join(sorted(taken or ()))
            yield Problem(flag=word.flag, reason=f"{value[:40]!r} is none of {shown}")


def _keys(flag: str, path: str, value: Any, known: Lists) -> Iterator[Problem]:
    for inner, entry, table in _inside(path, value, known):
        at = ".".join(inner.split(".")[1:])
        if table == "keys":
            where = f"in {at}" if at else "in its JSON"
            yield Problem(flag=flag, reason=f"this release knows no key {entry[:40]!r} {where}")
        else:
            taken = ", ".join(sorted(known.values[inner] - _NOTHING))
            yield Problem(flag=flag, reason=f"{entry[:40]!r} in {at} is none of {taken}")


def _refused(word: Word, known: Lists) -> Iterator[tuple[str, str, str]]:
    taken = known.values.get(word.name)
    for value in _texts(word.value) if taken is not None else ():
        if value not in (taken or ()):
            yield word.name, value, "values"
    yield from _inside(word.name, word.value, known)


def _inside(path: str, value: Any, known: Lists) -> Iterator[tuple[str, str, str]]:
    """Where a JSON value holds what the lists refuse: the path, the key or value, and by which list."""
    if isinstance(value, dict):
        taken = known.keys.get(path)
        for key, inner in value.items():
            if taken is not None and key not in taken:
                yield path, str(key), "keys"
            elif taken is not None:
                yield from _inside(f"{path}.{key}", inner, known)
    elif "." in path and isinstance(value, (str, int)) and not isinstance(value, bool) and not unresolved(value):
        allowed = known.values.get(path)
        if allowed is not None and str(value) not in allowed:
            yield path, str(value), "values"


def _is_json(word: Word, text: str, known: Lists) -> bool:
    """Whether that release reads the text as the JSON that it must be."""
    if is_json(text) or unresolved(text) or word.name in known.literal:
        return True
    if word.name in known.text and not re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL):
        return True
    try:
        return known.numbers and word.name in known.keys and is_json(with_numbers(text))
    except ValueError:  # 1.5K
        return False


def _adapters(word: Word) -> Iterator[Problem]:
    """`name=path`, or the JSON of an object that has a name and a path."""
    for text in _texts(word.value):
        if not text or ("=" in text and "," not in text) or unresolved(text):
            continue
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            yield Problem(flag=word.flag, reason="an entry is neither name=path nor JSON")
            continue
        if not isinstance(told, dict) or not {"name", "path"} <= told.keys():
            yield Problem(flag=word.flag, reason="an entry has no name and path")


def _texts(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, (str, int, float)) and not isinstance(each, bool) and not unresolved(each):
            yield str(each)
