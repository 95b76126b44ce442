"""Start logs: lines freed of what terminals and collectors add, and the dumps of settings that engines print."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_WRAPPERS = (
    re.compile(r"\[pod/[^\]\s]+\]\s"),  # kubectl logs --prefix
    re.compile(r"[\w.-]+-\d+\s+\|\s"),  # docker compose
    re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] "),  # CRI
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./@-]+\[\d+\]: "),  # journald, syslog
)
_MOST_LINES = 200_000
_MOST_BYTES = 32 << 20
_LONGEST = 2_000


def lines(raw: bytes) -> list[str]:
    """The first lines of a log: empty ones without end are not held."""
    text = io.TextIOWrapper(io.BytesIO(raw), "utf-8", "replace")
    return [line.rstrip("\n") for line in islice(text, _MOST_LINES)]


def clean(lines: Sequence[str]) -> list[str]:
    """The lines as the engine printed them: no colors, no collector's prefix, progress bars cut at their returns."""
    found: list[str] = []
    size = 0
    for line in lines[:_MOST_LINES]:
        size += len(line)
        if size > _MOST_BYTES:
            break
        for part in _docker(line.rstrip("\n")).split("\r"):
            plain = _ANSI.sub("", part) if "\x1b" in part else part
            for wrapper in _WRAPPERS:
                match = wrapper.match(plain)
                if match:
                    plain = plain[match.end() :]
                    break
            if plain.strip():
                found.append(plain.rstrip())
    return found


def _docker(line: str) -> str:
    """The text of a line of docker's json-file driver."""
    if line.startswith('{"log":"'):
        try:
            value = json.loads(line)["log"]
        except (ValueError, KeyError, RecursionError):
            return line
        return value.rstrip("\n") if isinstance(value, str) else line
    return line


def split(text: str, separator: str = ",") -> Iterator[str]:
    """The parts of a dump at its outermost separators; quotes and brackets hold theirs."""
    depth, begin, quote, at = 0, 0, "", 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"" and (at == 0 or text[at - 1] in " ,=:([{" + separator):
            quote = char
        elif char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        elif char == separator and depth <= 0:
            yield text[begin:at].strip()
            begin = at + 1
        at += 1
    if text[begin:].strip():
        yield text[begin:].strip()


def fields(text: str) -> dict[str, str]:
    """`a='x', b=1` or `{'a': 'x', 'b': 1}` as texts by name."""
    body = text.strip()
    separator = "="
    if body.startswith("{"):
        body = body[1:-1] if body.endswith("}") else body[1:]
        separator = ":"
    found: dict[str, str] = {}
    for part in split(body):
        name, mark, value = part.partition(separator)
        if mark:
            found[name.strip().strip("'\"")] = value.strip()
    return found


def value(text: str | None) -> Any:
    """A Python literal of a dump; the text where it is none; None for None and for what is missing."""
    if text is None or text == "None":
        return None
    if len(text) > _LONGEST:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
