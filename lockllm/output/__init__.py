"""Records -> text: a report, a diff, an inspection in each format. Nothing is printed and no exit code decided here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lockllm.judge.report import Diff, Report

FORMATS = ("text", "json", "junit", "sarif", "github", "markdown")
"""What `verify --format` takes."""
DIFF_FORMATS = ("text", "markdown", "json")
"""What `diff --format` takes."""
_TEXT_OPTIONS = frozenset({"color", "width", "full", "quiet", "verbose"})


def render_report(report: Report, format: str = "text", **options: Any) -> str:  # noqa: A002
    """A report in that format. Options that the format has no use for (`color`, `width`, ...) change nothing."""
    return _render("report", report, format, FORMATS, options)


def render_diff(diff: Diff, format: str = "text", **options: Any) -> str:  # noqa: A002
    """A diff in that format."""
    return _render("diff", diff, format, DIFF_FORMATS, options)


def _render(what: str, record: Report | Diff, format_: str, known: tuple[str, ...], options: dict[str, Any]) -> str:
    if format_ not in known:
        raise ValueError(f"{format_!r} is none of {', '.join(known)}")
    unknown = set(options) - _TEXT_OPTIONS
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))} is no option of an output")
    write = getattr(import_module(f"{__name__}.{format_}"), what)
    if format_ == "text":
        return str(write(record, **options))
    if format_ == "markdown":
        return str(write(record, full=bool(options.get("full"))))
    return str(write(record))
