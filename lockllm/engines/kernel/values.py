"""Option values as Python engines read them: numbers, human numbers, JSON; and the leaves of a JSON value."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from lockllm.facts.env import is_secret

_LONGEST = 1_000_000
_DEEPEST = 30
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])\Z")
_SI = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)\Z")
_HUMAN_INSIDE = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
_TEXT_INSIDE = re.compile(r'("(?:[^"\\]|\\.)*")')
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_UNRESOLVED = re.compile(r"\$[A-Za-z_({0-9@*]|\{\{|<[A-Za-z_ -]+>|%\(")
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_TOKEN_COUNTS = re.compile(
    r"tokens|tokeniz|token_(?:id|count|size|len|budget|limit|threshold|str|interval|shard)"
    r"|(?:max|min|num)_\w*token|(?:bos|eos|pad|unk|stop|image|start|end|mask|sep|cls|special)_token",
    re.IGNORECASE,
)


class Kind(enum.Enum):
    """What an option's argument is."""

    TEXT = "text"
    INT = "int"
    NUMBER = "number"
    HUMAN = "human"  # an int that may be written 32k (1000) or 32K (1024)
    HUMAN_AUTO = "human-auto"  # the same, or -1 or `auto`
    SI = "si"  # an int that may be written 32k, 1M (1000, 1000000), 32Ki or 1Mi (1024, 1048576)
    JSON = "json"
    STRICT_JSON = "strict-json"  # JSON as it stands: no Python literals, no human numbers
    LOOSE = "loose"  # JSON, else a human number, else the text
    JSON_OR_TEXT = "json-or-text"  # JSON where it is an object, else the text


def convert(kind: Kind, text: str) -> Any:
    """The value of an argument. ValueError says what it should have been."""
    if kind is Kind.TEXT:
        return text
    if kind is Kind.INT:
        return _int(text, "a whole number")
    if kind is Kind.NUMBER:
        return _number(text)
    if kind is Kind.HUMAN:
        return human(text)
    if kind is Kind.HUMAN_AUTO:
        return -1 if text.strip().lower() in ("-1", "auto") else human(text)
    if kind is Kind.SI:
        return si(text)
    if kind is Kind.JSON:
        return from_json(text)
    if kind is Kind.STRICT_JSON:
        return _strict(text)
    if kind is Kind.JSON_OR_TEXT:
        return from_json(text) if text.strip().startswith("{") else text
    return _loose(text)


def human(text: str) -> int:
    """`32k` is 32000, `32K` is 32768. ValueError for text that is neither."""
    found = _HUMAN.match(text.strip()) if len(text) < 40 else None
    if found is None:
        return _int(text, "a whole number, 32k or 32K")
    number, suffix = found.groups()
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    return _int(number, f"a whole number before {suffix}") * _BINARY[suffix]


def si(text: str) -> int:
    """`32k` is 32000, `32Ki` is 32768, `1M` is a million. ValueError for text that is neither."""
    found = _SI.match(text.strip()) if len(text) < 40 else None
    if found is None:
        return _int(text, "a whole number, 32k or 32Ki")
    from decimal import Decimal

    number, suffix = found.groups()
    if suffix.endswith("i"):
        return _int(number, f"a whole number before {suffix}") * _BINARY[suffix[0].upper()]
    return int(Decimal(number) * _DECIMAL[suffix.lower()])


def from_json(text: str) -> Any:
    """JSON, with human numbers, or a Python literal as older releases read it. ValueError for anything else."""
    if len(text) > _LONGEST:
        raise ValueError("JSON of a bearable size")
    for attempt in (text, with_numbers(text)):
        try:
            return json.loads(attempt)
        except RecursionError as why:
            raise ValueError("JSON of a bearable depth") from why
        except ValueError:
            continue
    return _literal(text.strip())


def _strict(text: str) -> Any:
    if len(text) > _LONGEST:
        raise ValueError("JSON of a bearable size")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as why:
        raise ValueError("JSON") from why


def with_numbers(text: str) -> str:
    """JSON with its human numbers spelled out: `{"a": 4k}` is `{"a": 4000}`. ValueError for 1.5K."""
    parts = _TEXT_INSIDE.split(text)
    parts[::2] = [_HUMAN_INSIDE.sub(lambda found: str(human(found.group())), part) for part in parts[::2]]
    return "".join(parts)


def _literal(text: str) -> Any:
    """A Python literal that JSON could hold too: sets, bytes and numbers that are none are refused."""
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape is a warning on the user's terminal
            return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as why:
        raise ValueError("JSON") from why


def is_json(text: str) -> bool:
    """Whether a text is JSON as it stands."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def unresolved(text: object) -> bool:
    """Whether a text holds a variable or a template that nobody filled in."""
    return isinstance(text, str) and bool(_UNRESOLVED.search(text))


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The leaves of a JSON value, each with its path. Lists are leaves; so is an empty object, as `{}`."""
    if isinstance(value, dict) and len(path) < _DEEPEST:
        if not value and path:
            yield path, "{}"
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    else:
        yield path, value


def secret_name(name: str) -> bool:
    """Whether an option or key of that name holds a secret; counts and names of tokens do not."""
    return is_secret(_TOKEN_COUNTS.sub("", name))


def stray(word: str, words: Sequence[str]) -> str:
    """A word of a command line that belongs to no option, unless it may be a second key: what follows an option of that kind."""
    at = words.index(word) if word in words else 0
    before = next((each for each in reversed(words[:at]) if each.startswith("-")), "")
    plain = len(word) < 40 and word.isprintable() and not secret_name(word) and not secret_name(before)
    return repr(word) if plain else "an argument"


def without_userinfo(value: Any, secrets: list[str]) -> Any:
    """A value whose URLs carry no `user:password@`; what was taken out goes to `secrets`."""
    if isinstance(value, str):
        secrets += [found.group()[:-1] for found in _USERINFO.finditer(value)]
        return _USERINFO.sub("", value)
    if isinstance(value, (list, tuple)):
        return tuple(without_userinfo(each, secrets) for each in value)
    return value


def _int(text: str, wanted: str) -> int:
    try:
        if len(text) > 30:
            raise ValueError(wanted)
        return int(text)
    except ValueError as why:
        raise ValueError(wanted) from why


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError as why:
        raise ValueError("a number") from why
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("a finite number")
    return number


def _loose(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return human(text)
    except ValueError:
        return text
