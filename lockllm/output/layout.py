"""A page of plain text: wrapped lines, aligned labels, tables, and colour where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from lockllm.output.escape import log_line

_STYLES = {
    "bad": "\x1b[1;31m",
    "good": "\x1b[1;32m",
    "unsure": "\x1b[1;33m",
    "strong": "\x1b[1m",
    "quiet": "\x1b[2m",
    "out": "\x1b[31m",
    "in": "\x1b[32m",
}
_END = "\x1b[0m"
_LABEL = 10
_NARROWEST = 40


class Page:
    """Lines in the making. Every text that is put on it is printable ASCII already (`escape.visible`)."""

    def __init__(self, width: int, color: bool) -> None:
        self.width = max(width, _NARROWEST)
        self._color = color
        self._lines: list[str] = []

    def line(self, text: str, *, indent: int = 0, hang: int = 0, style: str = "") -> None:
        """A text, wrapped at the page's width; further lines are indented by `hang` more."""
        first, further = " " * indent, " " * (indent + hang)
        for number, part in enumerate(wrapped(text, self.width - indent, hang)):
            self._add((first if number == 0 else further, ""), (part, style))

    def head(self, word: str, text: str, style: str, *, indent: int = 0) -> None:
        """A word that stands out, and what it is about."""
        self._labelled(word + "  ", text, indent, style, "")

    def field(self, label: str, text: str, *, indent: int = 0, label_width: int = _LABEL, style: str = "") -> None:
        """A label and its text, which starts where every other one starts."""
        self._labelled(label.ljust(label_width), text, indent, "quiet", style)

    def table(self, rows: Sequence[tuple[str, str]], *, indent: int, widest: int = 44) -> None:
        """Two columns. A name that is too long for its column stands on a line of its own."""
        fitting = [len(name) for name, _ in rows if len(name) <= widest]
        column = max(fitting, default=0) + 2
        for name, text in rows:
            beside = indent + column + len(text) <= self.width
            if len(name) <= widest and (beside or indent + column <= self.width // 2):
                self.field(name, text, indent=indent, label_width=column)
                continue
            self._add((" " * indent, ""), (name, "quiet"))
            self.line(text, indent=indent + 4)

    def raw(self, text: str, *, style: str = "", indent: int = 0) -> None:
        """One line that must not be wrapped."""
        self._add((" " * indent, ""), (text, style))

    def blank(self) -> None:
        """An empty line, never two."""
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def text(self) -> str:
        """All of it, ending in a newline; empty where nothing was put down."""
        while self._lines and not self._lines[-1]:
            self._lines.pop()
        return "\n".join(self._lines) + "\n" if self._lines else ""

    def _labelled(self, label: str, text: str, indent: int, label_style: str, style: str) -> None:
        parts = wrapped(text, self.width - indent - len(label), 0) or [""]
        self._add((" " * indent, ""), (label, label_style), (parts[0], style))
        for part in parts[1:]:
            self._add((" " * (indent + len(label)), ""), (part, style))

    def _add(self, *segments: tuple[str, str]) -> None:
        if not self._color:
            self._lines.append(log_line("".join([text for text, _ in segments])).rstrip())
            return
        begun, line = False, ""
        for text, style in segments:
            text = log_line(text, begins=not begun)
            begun = begun or bool(text.strip())
            line += self._paint(text, style)
        self._lines.append(line.rstrip())

    def _paint(self, text: str, style: str) -> str:
        if not style or not text.strip():
            return text
        plain = text.rstrip()
        return f"{_STYLES[style]}{plain}{_END}{text[len(plain) :]}"


def wrapped(text: str, width: int, hang: int) -> list[str]:
    """The text in lines of at most `width` characters, broken at spaces; a longer word keeps its line to itself."""
    text = text.strip(" ")
    room = max(width, 8)
    if len(text) <= room:
        return [text]
    lines: list[str] = []
    at = 0
    while len(text) - at > room:
        end = text.rfind(" ", at, at + room + 1)
        if end < 0:
            end = text.find(" ", at)
        if end < 0:
            break
        lines.append(text[at:end].rstrip(" "))
        at = end
        while text[at] == " ":
            at += 1
        room = max(width - hang, 8)
    return [*lines, text[at:]]


def columns(names: Sequence[str], *, more: int = 0) -> str:
    """Names in one sentence; `more` says how many are left out."""
    return ", ".join(names) + (f", and {more} more" if more else "")
