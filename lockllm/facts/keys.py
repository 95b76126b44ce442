"""One spelling of a fact's key, and globs over keys."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockllm.facts.fact import Path

_PLAIN = re.compile(r"[ !#-\[\]-~]*\Z")
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_DOTTED = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\Z")
_SEGMENT = r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^."'\s][^."']*?))\s*(?:\.|\Z)"""
_WILD = re.compile(r"[*?\[]")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def quoted(text: str) -> str:
    """A TOML basic string: printable ASCII stays, everything else is escaped."""
    if _PLAIN.match(text):
        return f'"{text}"'
    parts = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            parts.append("\\" + char)
        elif 0x20 <= code < 0x7F:
            parts.append(char)
        elif 0xD800 <= code <= 0xDFFF:
            parts.append("\\uFFFD")
        elif code <= 0xFFFF:
            parts.append(f"\\u{code:04X}")
        else:
            parts.append(f"\\U{code:08X}")
    return '"' + "".join(parts) + '"'


def segment(name: str) -> str:
    """One part of a key: bare where TOML allows it, else quoted."""
    return name if _BARE.match(name) else quoted(name)


@lru_cache(maxsize=20_000)
def dotted(path: Path) -> str:
    """`("checkpoint", "files", "config.json")` -> `checkpoint.files."config.json"`."""
    return ".".join(map(segment, path))


@lru_cache(maxsize=20_000)
def parse(key: str) -> Path:
    """The path that a dotted key spells. Raises ValueError for text that spells none."""
    head, quote, last = key.partition('."')
    if quote and _DOTTED.match(head) and "\\" not in last and last.find('"') == len(last) - 1 > 0:
        return (*head.split("."), last[:-1])
    if not quote and _DOTTED.match(key):
        return tuple(key.split("."))
    path: list[str] = []
    at = 0
    next_segment = re.compile(_SEGMENT).match
    while at < len(key):
        found = next_segment(key, at)
        if found is None or found.end() == at:
            raise ValueError(f"{key!r} is not a dotted key")
        double, single, bare = found.groups()
        path.append(_unescape(double) if double is not None else single if single is not None else bare)
        at = found.end()
        if at == len(key) and key.endswith(".") and found.group(0).endswith("."):
            raise ValueError(f"{key!r} ends in a dot")
    if not path:
        raise ValueError("a key is missing")
    return tuple(path)


class Glob:
    """A pattern over keys: matched segment by segment; a bare group or a trailing `.*` covers all below."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._everything = text.strip() == "*"
        self._parts = () if self._everything else parse(text)
        self._wild = any(map(_WILD.search, self._parts))

    @property
    def group(self) -> str:
        """Its first segment; empty for `*`."""
        return self._parts[0] if self._parts else ""

    def enters(self, group: str) -> bool:
        """Whether a fact of that group may be meant."""
        return self._everything or self._parts[0] == group or fnmatch.fnmatchcase(group, self._parts[0])

    @property
    def exact(self) -> bool:
        """Whether it has no wildcard at all."""
        return not self._everything and not self._wild

    def matches(self, path: Path) -> bool:
        """Whether the fact at that path is meant."""
        if self._everything:
            return True
        if len(path) < len(self._parts):
            return False
        if not self._wild:
            return path[: len(self._parts)] == self._parts
        return all(fnmatch.fnmatchcase(name, part) for name, part in zip(path, self._parts, strict=False))

    @property
    def weight(self) -> tuple[int, int]:
        """How precise it is: more literal segments, then more segments; the most precise policy wins."""
        literal = sum(1 for part in self._parts if not _WILD.search(part))
        return literal, len(self._parts)


@lru_cache(maxsize=64)
def file_globs(globs: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern for globs over file names, for `match`: `*` crosses `/`, a trailing `/` covers a folder."""
    whole = (glob + "*" if glob.endswith("/") else glob for glob in globs)
    return re.compile("|".join(map(fnmatch.translate, whole)) or r"(?!)")


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[1:]:
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            raise ValueError(f"\\{code} is not an escape")
        return _ESCAPES[code]

    try:
        return re.sub(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", one, text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} holds an escape that is none") from error
