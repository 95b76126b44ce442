"""Two texts of a chat template, line by line: what a reviewer reads before any digest."""

from __future__ import annotations

import re

_LONGEST_LINE = 160
_MOST_LINES = 3_000
_MOST_TEXT = 400_000
_END_OF_TAG = re.compile(r"(?<=[%}]\})")


def template_diff(before: str, after: str, *, limit: int = 120) -> list[tuple[str, str]]:
    """The lines of a unified diff as (mark, text): mark is `+`, `-`, ` ` or `@` (ours); texts are foreign, not escaped.

    A template in one long line is broken after its tags. Past `limit` lines the last one says how many are left out.
    """
    if len(before) + len(after) > _MOST_TEXT:
        return [("@", f"@@ the texts are too long to compare here ({len(before)} and {len(after)} characters)")]
    one, other = _lines(before), _lines(after)
    if len(one) + len(other) > _MOST_LINES:
        return [("@", f"@@ the texts are too long to compare here ({len(one)} and {len(other)} lines)")]
    from difflib import unified_diff

    found = [
        ("@", line) if line.startswith("@@") else (line[0], _tail_seen(line[1:]))
        for line in list(unified_diff(one, other, n=2, lineterm=""))[2:]
    ]
    return found if len(found) <= limit else [*found[:limit], ("@", f"@@ {len(found) - limit} more lines")]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += "\n"  # told apart from a text that ends in a newline
    else:
        lines.pop()
    return [part for line in lines for part in _parts(line)]


def _parts(line: str) -> list[str]:
    return [line] if len(line) <= _LONGEST_LINE else [part for part in _END_OF_TAG.split(line) if part]


def _tail_seen(line: str) -> str:
    """A line whose blanks at its end, and the newline missing after it, can be seen."""
    if line.endswith("\n"):
        return _tail_seen(line[:-1]) + " (no newline at the end)"
    bare = line.rstrip(" \t")
    return bare + line[len(bare) :].replace(" ", "\\x20").replace("\t", "\\t")
