"""The long tables of a lock, read at once: thousands of lines of one shape, which a general parser takes a line at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lockllm.facts.checkpoint import MOST_FILES

HEADER = "\n[checkpoint.files]\n"
"""Where the first of them begins."""
_NAME = r'"([^"\\\x00-\x1f\x7f]+)"'
_FILE = re.compile(_NAME + r' = \{ size = (0|[1-9][0-9]{0,17}), sha256 = "([0-9a-f]{64})" \}\n', re.ASCII)
_BLAKE3 = _NAME + r' = "([0-9a-f]{64})"\n'


class TooMuch(ValueError):
    """A document that is bounded nowhere: what it has too much of."""


def loads(text: str, parser: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What `parser` makes of the text, to the byte and the error, without showing it the lines that `lock` wrote itself."""
    if '"""' in text or "'''" in text:
        return parser(text)
    rest = text.replace("\r\n", "\n")
    taken: dict[str, dict[str, Any]] = {}
    for key, take in (("files", _files), ("blake3", _blake3)):
        head, header, tail = rest.partition(f"\n[checkpoint.{key}]\n")
        if not header:
            continue
        taken[key], count, end = take(tail)
        if len(taken[key]) < count:
            return parser(text)  # which tells what appears twice
        rest = head + header + tail[end:]
    if not taken:
        return parser(text)
    try:
        data = parser(rest)
    except ValueError:
        return parser(text)  # which may have an earlier error to tell
    checkpoint = data["checkpoint"]
    if not isinstance(checkpoint, dict):
        return parser(text)  # a list of tables
    for key, found in taken.items():
        if not found.keys().isdisjoint(checkpoint[key]):
            return parser(text)
        checkpoint[key] = {**found, **checkpoint[key]}
    return data


def _files(tail: str) -> tuple[dict[str, Any], int, int]:
    """Files of the usual form at the beginning of a text, how many lines they take, and where they end."""
    files: dict[str, Any] = {}
    end = count = 0
    while found := _FILE.match(tail, end):
        name, size, sha256 = found.groups()
        files[name] = {"size": int(size), "sha256": sha256}
        end, count = found.end(), count + 1
        if count > MOST_FILES:
            raise TooMuch(f"the file names more than {MOST_FILES:,} files")
    return files, count, end


def _blake3(tail: str) -> tuple[dict[str, Any], int, int]:
    """The same of BLAKE3 digests."""
    digests: dict[str, Any] = {}
    end = count = 0
    line = re.compile(_BLAKE3, re.ASCII)
    while found := line.match(tail, end):
        digests[found[1]] = found[2]
        end, count = found.end(), count + 1
        if count > MOST_FILES:
            raise TooMuch(f"the file names more than {MOST_FILES:,} files")
    return digests, count, end
