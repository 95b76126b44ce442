"""Config files in YAML, as engines read them (YAML 1.1, PyYAML's safe loader): the part that people write.

Block and flow mappings and lists, plain and quoted scalars, `|` and `>` texts, comments. Anchors, tags, merges and
several documents are refused rather than guessed at.
"""

from __future__ import annotations

import json
import re
from typing import Any

_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(
    r"[-+]?(\d[\d_]*\.[\d_]*([eE][-+]\d+)?|\.\d[\d_]*([eE][-+]\d+)?|\.(inf|Inf|INF)|\d[\d_]*\.[\d_]*)\Z"
)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#"'\[\]{}&*!|>%@`,-][^#]*?|-[^\s#][^#]*?)\s*:(?=\s|\Z)""")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\s+|.)")
_NAMED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
    "N": "\x85",
    "_": "\xa0",
}
_DEEPEST = 40
_LONGEST = 4 << 20


class YamlError(ValueError):
    """A text that is no YAML, or a part of YAML that config files of engines do not use."""


def read(text: str) -> Any:
    """The value that a YAML text holds. YamlError where it cannot be told."""
    if len(text) > _LONGEST:
        raise YamlError("it is too long")
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return _Blocks(text).document()


class _Blocks:
    """Lines with their indentation, walked once."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, str]] = []
        self.at = 0
        for line in text.replace("\r\n", "\n").split("\n"):
            if line.startswith("%") or line.rstrip() in ("---", "..."):
                if any(content for _, content in self.lines):
                    if line.rstrip() == "...":
                        break
                    raise YamlError("it holds several documents")
                continue
            stripped = line.lstrip(" ")
            if stripped.startswith("\t"):
                raise YamlError("a tab indents a line")
            self.lines.append((len(line) - len(stripped), stripped.rstrip()))

    def document(self) -> Any:
        self._skip()
        if self.at >= len(self.lines):
            return None
        value = self._block(self.lines[self.at][0], 0)
        self._skip()
        if self.at < len(self.lines):
            raise YamlError(f"line {self.at + 1} does not fit its neighbors")
        return value

    def _skip(self) -> None:
        while self.at < len(self.lines) and (not self.lines[self.at][1] or self.lines[self.at][1].startswith("#")):
            self.at += 1

    def _block(self, indent: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise YamlError("it is nested too deeply")
        content = self.lines[self.at][1]
        if content == "-" or content.startswith("- "):
            return self._list(indent, depth)
        if _KEY.match(content):
            return self._mapping(indent, depth)
        self.at += 1
        return self._inline(content, indent)

    def _list(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while True:
            self._skip()
            if self.at >= len(self.lines) or self.lines[self.at][0] != indent:
                return found
            content = self.lines[self.at][1]
            if content != "-" and not content.startswith("- "):
                return found
            rest = content[1:].lstrip()
            if not rest or rest.startswith("#"):
                self.at += 1
                found.append(self._nested(indent, depth))
                continue
            inner = indent + len(content) - len(rest)
            self.lines[self.at] = (inner, rest)
            found.append(self._block(inner, depth + 1))

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            self._skip()
            if self.at >= len(self.lines) or self.lines[self.at][0] != indent:
                return found
            match = _KEY.match(self.lines[self.at][1])
            if match is None:
                raise YamlError(f"line {self.at + 1} is no `key: value`")
            key = _scalar(match.group(1))
            name = key if isinstance(key, str) else match.group(1).strip()
            if name == "<<":
                raise YamlError("it merges mappings")
            rest = self.lines[self.at][1][match.end() :].strip()
            self.at += 1
            if not rest or rest.startswith("#"):
                found[name] = self._nested(indent, depth)
            elif re.match(r"[|>][+-]?\d?\s*(#|\Z)", rest):
                found[name] = self._text(indent, rest)
            else:
                found[name] = self._inline(rest, indent)

    def _nested(self, indent: int, depth: int) -> Any:
        """What stands below a key or a dash: a deeper block, a list at the key's own indentation, or nothing."""
        self._skip()
        if self.at >= len(self.lines):
            return None
        inner, content = self.lines[self.at]
        if inner > indent:
            return self._block(inner, depth + 1)
        if inner == indent and (content == "-" or content.startswith("- ")):
            return self._list(indent, depth + 1)
        return None

    def _text(self, indent: int, head: str) -> str:
        parts: list[str] = []
        inner: int | None = None
        while self.at < len(self.lines):
            own, content = self.lines[self.at]
            if content and own <= indent:
                break
            inner = own if inner is None and content else inner
            parts.append(" " * max(0, own - (inner or 0)) + content)
            self.at += 1
        while parts and not parts[-1]:
            parts.pop()
        text = "\n".join(parts) if head[0] == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(parts))
        return text if "-" in head[:3] else text + "\n"

    def _inline(self, text: str, indent: int) -> Any:
        """A scalar or a flow value, which may go on over deeper lines."""
        while _open(text) and self.at < len(self.lines):
            following = self.lines[self.at][1]
            text += "\n" if not following else following if text.endswith("\n") else " " + following
            self.at += 1
        if text[0] in "[{":
            value, end = _Flow(text).value(0)
            if text[end:].strip() and not text[end:].strip().startswith("#"):
                raise YamlError("something stands behind a closing bracket")
            return value
        plain = _uncommented(text)
        while text[0] not in "\"'" and self.at < len(self.lines) and self.lines[self.at][0] > indent:
            following = self.lines[self.at][1]
            if not following or following.startswith("#") or _KEY.match(following):
                break
            plain += " " + _uncommented(following)
            self.at += 1
        return _scalar(plain)


class _Flow:
    """`{a: 1, b: [x, y]}`, read from one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def value(self, at: int, depth: int = 0) -> tuple[Any, int]:
        if depth > _DEEPEST:
            raise YamlError("it is nested too deeply")
        at = self._blanks(at)
        char = self.text[at : at + 1]
        if char == "{":
            return self._mapping(at + 1, depth)
        if char == "[":
            return self._list(at + 1, depth)
        return self._scalar(at)

    def _blanks(self, at: int) -> int:
        while at < len(self.text) and self.text[at] in " \t\n":
            at += 1
        return at

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            at = self._blanks(at)
            if self.text[at : at + 1] == "]":
                return found, at + 1
            value, at = self.value(at, depth + 1)
            found.append(value)
            at = self._comma(at, "]")

    def _mapping(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        while True:
            at = self._blanks(at)
            if self.text[at : at + 1] == "}":
                return found, at + 1
            key, at = self._scalar(at, key=True)
            at = self._blanks(at)
            value: Any = None
            if self.text[at : at + 1] == ":":
                value, at = self.value(at + 1, depth + 1)
            found[str(key)] = value
            at = self._comma(at, "}")

    def _comma(self, at: int, close: str) -> int:
        at = self._blanks(at)
        char = self.text[at : at + 1]
        if char == ",":
            return at + 1
        if char == close:
            return at
        raise YamlError("a bracket is not closed")

    def _scalar(self, at: int, key: bool = False) -> tuple[Any, int]:
        if self.text[at : at + 1] in tuple("\"'"):
            end = _quote_end(self.text, at)
            return _scalar(self.text[at:end]), end
        end = at
        while end < len(self.text) and self.text[end] not in ",]}[{":
            if self.text[end] == ":" and (key or self.text[end + 1 : end + 2] in ("", " ")):
                break
            end += 1
        return _scalar(self.text[at:end].strip()), end


def _open(text: str) -> bool:
    """Whether a flow value or a quoted text is not closed yet."""
    if text[0] in "\"'":
        try:
            _quote_end(text, 0)
        except YamlError:
            return True
        return False
    if text[0] not in "[{":
        return False
    depth, at = 0, 0
    while at < len(text):
        if text[at] in "\"'":
            try:
                at = _quote_end(text, at)
            except YamlError:
                return True
            continue
        depth += (text[at] in "[{") - (text[at] in "]}")
        at += 1
    return depth > 0


def _quote_end(text: str, at: int) -> int:
    quote, end = text[at], at + 1
    while end < len(text):
        if quote == '"' and text[end] == "\\":
            end += 2
        elif text[end] == quote:
            if quote == "'" and text[end + 1 : end + 2] == "'":
                end += 2
                continue
            return end + 1
        else:
            end += 1
    raise YamlError("a quote is not closed")


def _uncommented(text: str) -> str:
    if text[0] in "\"'":
        end = _quote_end(text, 0)
        rest = text[end:].strip()
        if rest and not rest.startswith("#"):
            raise YamlError("something stands behind a closing quote")
        return text[:end]
    return re.sub(r"\s+#.*\Z", "", text).strip()


def _scalar(text: str) -> Any:
    """A scalar with YAML 1.1's own ideas: `no` and `off` are false, `010` is eight."""
    if text[:1] == '"':
        return _ESCAPE.sub(_escaped, text[1:-1])
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    if text[:1] in ("&", "*", "!"):
        raise YamlError("it holds anchors or tags")
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INT.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        try:
            return float(text.replace("_", ""))
        except ValueError:
            return text
    return text


def _escaped(found: re.Match[str]) -> str:
    code = found.group(1)
    if len(code) > 1 and code[0] in "xuU":
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    return "" if code.isspace() and len(code) > 1 else _NAMED.get(code, code)


def _integer(text: str) -> Any:
    sign = -1 if text.startswith("-") else 1
    plain = text.lstrip("+-").replace("_", "")
    if len(plain) > 400:
        return text
    if plain.startswith("0b"):
        return sign * int(plain[2:], 2)
    if plain.startswith("0x"):
        return sign * int(plain[2:], 16)
    if len(plain) > 1 and plain.startswith("0"):
        return sign * int(plain, 8)
    return sign * int(plain)
