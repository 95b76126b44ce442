"""Reading foreign files within bounds: regular files only, so many bytes, so many values, so deep."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from lockllm.checkpoint import links, stamps

SMALL = 64 * 2**20
"""The longest configuration file that is read whole."""
_VALUES = 1_000_000  # values in one JSON text: about 100 bytes of memory each
_DIGITS = 40


class Malformed(Exception):
    """A file of the checkpoint that is not what its name says: one clause, without the file's name."""


def why(error: OSError) -> str:
    """An operating system's error in plain words: `permission denied`."""
    return (error.strerror or type(error).__name__).lower()


def open_regular(path: str) -> int:
    """A descriptor of a regular file, opened without waiting. Malformed for a FIFO, a device, a directory; OSError as it comes."""
    descriptor = links.opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise Malformed(f"is {kind(mode)}, not a file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def kind(mode: int) -> str:
    """What a mode says that a path is, with its article."""
    kinds = {
        stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device", stat.S_IFLNK: "a link", stat.S_IFREG: "a file",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "something else")


def read_small(path: str, limit: int = SMALL) -> bytes:
    """The whole file, if it is a regular one of at most `limit` bytes. Malformed says why not."""
    try:
        descriptor = open_regular(path)
    except OSError as error:
        raise Malformed(why(error)) from error
    try:
        parts = []
        left = limit + 1
        while left > 0 and (part := os.read(descriptor, min(left, 2**20))):
            parts.append(part)
            left -= len(part)
        raw = b"".join(parts)
        if left > 0:
            stamps.read(path, descriptor, raw)
    except OSError as error:
        raise Malformed(why(error)) from error
    finally:
        os.close(descriptor)
    if left <= 0:
        raise Malformed(f"is longer than {limit:,} bytes")
    return raw


def read_head(path: str, count: int) -> bytes:
    """The first bytes of a regular file. Malformed says why not."""
    try:
        descriptor = open_regular(path)
        try:
            return os.read(descriptor, count)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Malformed(why(error)) from error


def parse(raw: bytes, values: int = _VALUES) -> tuple[Any, tuple[str, ...]]:
    """A JSON text and the keys that stand twice in one object (the last one counts, as in every reader)."""
    twice: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) < len(found) and len(twice) < 10:
            seen: set[str] = set()
            for key, _ in found:
                if key in seen:
                    twice.append(key)
                seen.add(key)
        return made

    if sum(map(raw.count, (b",", b"[", b"{", b":"))) > values:
        raise Malformed(f"holds more than {values:,} values")
    try:
        text = raw.decode()
        value = json.loads(text, object_pairs_hook=pairs, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise Malformed(f"is no UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise Malformed("is nested too deep") from error
    except ValueError as error:
        where = f"line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else "a number"
        detail = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise Malformed(f"is no JSON ({where}: {detail})") from error
    return value, tuple(dict.fromkeys(twice))


def parse_object(raw: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """As `parse`, for a text that must be a JSON object."""
    value, twice = parse(raw)
    if not isinstance(value, dict):
        raise Malformed(f"is {_named(value)}, not a JSON object")
    return value, twice


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _named(value: object) -> str:
    names = {
        list: "a list",
        str: "a text",
        bool: "true or false",
        type(None): "null",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "something else")
