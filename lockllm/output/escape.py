"""Foreign text made harmless, once for each format: whatever a host shows stays data in what we print."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = re.compile(r"[ -~]*\Z")
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
# What CI systems obey when they meet it anywhere in a log: `##[error]`, `##vso[task...]`, `##teamcity[...]`.
_MARKER = r"#(?=#[A-Za-z]*\[)"  # these are compiled, and kept by `re`, where they are needed: most short runs need none
_PROSE = r":(?=\S)|[^A-Za-z0-9 ,.:;()%+=/'\"-]"
_SPAN = r"(?! )[^`|<>&\\]+(?<! )\Z"
_XML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})
_KEPT = 512  # texts that are not made harmless again: thousands of results share effect, fix and expected value


def visible(text: str) -> str:
    """One line of printable ASCII that stands for the text: all else is spelled `\\n`, `\\xNN` or `\\uNNNN`."""
    return line(text.replace("\\", "\\\\"))


def line(text: str) -> str:
    """As `visible`, but a backslash stays one, so that it may be done twice. Every encoder below does it first."""
    plain = text if _PLAIN.match(text) else "".join(map(_shown, text))
    return re.sub(_MARKER, r"\\x23", plain) if "##" in plain else plain


def literal(text: str) -> str:
    """A text in double quotes, as one line of printable ASCII."""
    return '"' + visible(text).replace('"', '\\"') + '"'


def readable(text: str) -> str:
    """One line that may hold letters of every script, but nothing that is invisible, moves, reorders or commands."""
    shown = (_shown(char) if char != " " and unicodedata.category(char) in _HIDDEN else char for char in text)
    return re.sub(_MARKER, r"\\x23", "".join(shown))


def log_line(text: str, *, begins: bool = True) -> str:
    """A line that no CI system takes for a command of its own. `begins`: it stands at the start of a line."""
    text = line(text)
    start = len(text) - len(text.lstrip())
    return text[:start] + "\\x3a" + text[start + 1 :] if begins and text.startswith("::", start) else text


@lru_cache(maxsize=_KEPT)
def xml(text: str) -> str:
    """Content or attribute value of an XML document."""
    return line(text).translate(_XML)


@lru_cache(maxsize=_KEPT)
def prose(text: str) -> str:
    """A sentence inside Markdown: no mark-up, mention, reference, link or HTML survives, and no table cell ends."""
    text = re.sub(_PROSE, lambda found: f"&#{ord(found.group())};", line(text).strip())
    # @name and #1 are seen, nobody is called.
    text = text.replace("&#64;", "&#64;&#8203;").replace("&#35;", "&#35;&#8203;")
    return re.sub(r"(?i)\bwww\.", "www&#46;", text) if "www." in text.lower() else text


@lru_cache(maxsize=_KEPT)
def code(text: str) -> str:
    """A value inside Markdown, set as code; safe in a table cell."""
    text = line(text)
    if re.match(_SPAN, text):
        return f"`{text}`"
    return "<code>" + re.sub(r"[^A-Za-z0-9 ]", lambda found: f"&#{ord(found.group())};", text) + "</code>"


def fenced(lines: Iterable[str], language: str) -> list[str]:
    """A code block of foreign lines; its fence is longer than any that they hold."""
    inside = list(map(readable, lines))
    longest = max((len(run) for line in inside for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *inside, fence]


def command_data(text: str) -> str:
    """The message of a GitHub workflow command."""
    return re.sub(_MARKER, r"\\x23", visible(text)).replace("%", "%25")


def command_property(text: str) -> str:
    """A property of a GitHub workflow command."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def valid_unicode(text: str) -> str:
    """The text with each byte that was no UTF-8 spelled `\\xNN`: what a strict JSON parser accepts."""
    if text.isascii():
        return text
    return "".join(_shown(char) if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)


def _shown(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    point = ord(char)
    if 0x20 <= point < 0x7F:
        return char
    if 0xDC80 <= point <= 0xDCFF:  # a byte of a file name that is no UTF-8
        point -= 0xDC00
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
