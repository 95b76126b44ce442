"""Records -> text: a report, a diff, an inspection in each format. Nothing is printed and no exit code decided here."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from lockllm.judge.report import Diff, Report

FORMATS = ("text", "json", "junit", "sarif", "github", "markdown")
"""What `verify --format` takes."""
DIFF_FORMATS = ("text", "markdown", "json")
"""What `diff --format` takes."""
_PIECE = 2**16  # characters
_TEXT_OPTIONS = frozenset({"color", "width", "full", "quiet", "verbose"})


def render_report(report: Report, format: str = "text", **options: Any) -> str:  # noqa: A002
    """A report in that format. Options that the format has no use for (`color`, `width`, ...) change nothing."""
    return "".join(report_pieces(report, format, **options))


def render_diff(diff: Diff, format: str = "text", **options: Any) -> str:  # noqa: A002
    """A diff in that format."""
    return "".join(diff_pieces(diff, format, **options))


def report_pieces(report: Report, format: str = "text", **options: Any) -> Iterator[str]:  # noqa: A002
    """A report in that format, a piece at a time: what is large is never held whole."""
    return _pieces("report", report, format, FORMATS, options)


def diff_pieces(diff: Diff, format: str = "text", **options: Any) -> Iterator[str]:  # noqa: A002
    """A diff in that format, a piece at a time."""
    return _pieces("diff", diff, format, DIFF_FORMATS, options)


def _pieces(
    what: str, record: Report | Diff, format_: str, known: tuple[str, ...], options: dict[str, Any]
) -> Iterator[str]:
    if format_ not in known:
        raise ValueError(f"{format_!r} is none of {', '.join(known)}")
    unknown = set(options) - _TEXT_OPTIONS
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))} is no option of an output")
    write = getattr(import_module(f"{__name__}.{format_}"), what)
    if format_ == "text":
        return iter((write(record, **options),))
    if format_ == "markdown":
        return iter((write(record, full=bool(options.get("full"))),))
    return _gathered(write(record))


def _gathered(pieces: Iterator[str]) -> Iterator[str]:
    """The same text in pieces that are worth writing."""
    held: list[str] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length > _PIECE:
            yield "".join(held)
            held, length = [], 0
    yield "".join(held)
