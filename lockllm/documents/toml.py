"""TOML as we read and write it: bounded reading with the line of a key, and our own bytes when writing."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lockllm.documents import long_table
from lockllm.errors import LockllmError
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse, quoted, segment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LONGEST = 64 * 2**20
"""Bytes of the largest document that is read."""
# Characters besides the long table of files: the library takes up to two seconds for as many, and 100 MB.
_SHORT = 2**20
_LINE = 2**20  # characters: it takes 100 bytes of memory for each digit of a number
_CHAINS = 20_000_000  # the sum of squares of the dots in lines that have many: what it takes for keys such as a.a.a.a
_KEYED = 2_000  # characters of a line in which its key is looked for, to tell where a problem stands
_TABLE = r"\s*\[\[?\s*(.*?)\s*\]\]?\s*(?:#.*)?\Z"  # these two are compiled where a problem is told
_KEY = r"""\s*((?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_.\s-])+?)\s*="""


def decode(data: bytes, name: str, error: type[LockllmError]) -> str:
    """The text of a document. Raises `error` for one that is huge, binary or in another encoding."""
    if len(data) > LONGEST:
        raise error(
            f"the file holds more than {LONGEST:,} bytes",
            where=name,
            fix="check that it is the right file",
        )
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode()
    except UnicodeDecodeError as cause:
        line = data[: cause.start].count(b"\n") + 1
        raise error(
            f"the file is not UTF-8: byte 0x{data[cause.start]:02x}",
            where=f"{name}, line {line}",
            fix="save it as UTF-8",
        ) from cause
    if "\0" in text:
        raise error("the file is binary", where=name, fix="check that it is the right file")
    return text


def load(text: str, name: str, error: type[LockllmError]) -> dict[str, Any]:
    """The data of a TOML text. Raises `error` with the line where it is none (duplicate keys are found here)."""
    try:
        return long_table.loads(text, _within)
    except long_table.TooMuch as cause:
        raise error(str(cause), where=name, fix="check that it is the right file") from cause
    except tomllib.TOMLDecodeError as cause:
        message = re.sub(r"\s*\(at (?:line \d+, column \d+|end of document)\)", "", str(cause))
        found = re.search(r"at line (\d+)", str(cause))
        where = f"{name}, line {found.group(1)}" if found else f"{name}, at its end"
        if found and (twice := _twice(text, int(found.group(1)), message)):
            raise error(f"{twice} appears twice", where=where, fix="remove one of them") from cause
        raise error(
            f"this is not TOML: {message[:1].lower()}{message[1:]}", where=where, fix="correct that line"
        ) from cause
    except (RecursionError, ValueError) as cause:
        raise error(
            "this TOML is nested too deeply or holds an impossible value", where=name, fix="flatten it"
        ) from cause


def _within(text: str) -> dict[str, Any]:
    """What the library makes of a text that is bounded in all that costs it time or memory out of proportion."""
    if len(text) > _SHORT:
        raise long_table.TooMuch(f"the file holds more than {_SHORT:,} characters besides its table of files")
    lines = text.split("\n")
    if max(map(len, lines)) > _LINE:
        raise long_table.TooMuch(f"a line holds more than {_LINE:,} characters")
    if sum(dots * dots for line in lines if (dots := line.count(".")) > 50) > _CHAINS:
        raise long_table.TooMuch("keys are chained too long")
    data: dict[str, Any] = tomllib.loads(text)
    return data


def _twice(text: str, number: int, message: str) -> str | None:
    """The key or table that a line gives a second time."""
    if "twice" not in message and "overwrite" not in message:
        return None
    line = text.split("\n")[number - 1]
    found = re.match(_TABLE, line[:_KEYED]) if line.lstrip().startswith("[") else re.match(_KEY, line[:_KEYED])
    return found.group(1).strip() if found else None


def line_of(text: str, path: Path) -> int | None:
    """The line, from 1, on which a key stands; the deepest part of it that can be found."""
    lines = _keyed(text)
    return next((lines[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in lines), None)


@lru_cache(maxsize=2)  # a document of many problems is searched once
def _keyed(text: str) -> dict[Path, int]:
    """The first line of each key and table."""
    lines: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            found = re.match(_TABLE, line[:_KEYED])
            table = here = _path(found.group(1)) if found else ()
        else:
            key = re.match(_KEY, line[:_KEYED])
            if key is None:
                continue
            here = (*table, *_path(key.group(1)))
        lines.setdefault(here, number)
    return lines


def place(name: str, text: str, path: Path) -> str:
    """`llm.toml, line 9`."""
    line = line_of(text, path)
    return f"{name}, line {line}" if line else name


def value(data: Any) -> str:
    """One TOML value on one line."""
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int):
        return str(data)
    if isinstance(data, float):
        if not math.isfinite(data):
            return repr(data)
        text = repr(data)
        return text if "." in text or "e" in text else f"{text}.0"
    if isinstance(data, str):
        return quoted(data)
    if isinstance(data, (list, tuple)):
        return "[" + ", ".join(map(value, data)) + "]"
    if isinstance(data, Mapping):
        inner = ", ".join(f"{segment(str(key))} = {value(each)}" for key, each in data.items())
        return "{ " + inner + " }" if inner else "{}"
    if hasattr(data, "isoformat"):
        return str(data.isoformat())
    raise TypeError(f"{type(data).__name__} has no TOML form")


def _path(key: str) -> Path:
    try:
        return parse(re.sub(r"\s*\.\s*", ".", key.strip()) if '"' not in key and "'" not in key else key.strip())
    except ValueError:
        return ()
