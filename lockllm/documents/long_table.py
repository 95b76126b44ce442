"""The long table of a lock, read at once: hundreds of lines of one shape, which a general parser takes a line at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lockllm.facts.checkpoint import MOST_FILES

HEADER = "\n[checkpoint.files]\n"
"""Where that table begins."""
_LINE = re.compile(
    r'"([^"\\\x00-\x1f\x7f]+)" = \{ size = (0|[1-9][0-9]{0,17}), sha256 = "([0-9a-f]{64})" \}\n', re.ASCII
)


class TooMuch(ValueError):
    """A document that is bounded nowhere: what it has too much of."""


def loads(text: str, parser: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What `parser` makes of the text, to the byte and the error, without showing it the lines that `lock` wrote itself."""
    if '"""' in text or "'''" in text:
        return parser(text)
    head, header, tail = text.replace("\r\n", "\n").partition(HEADER)
    if not header:
        return parser(text)
    files: dict[str, Any] = {}
    at = count = 0
    while found := _LINE.match(tail, at):
        name, size, sha256 = found.groups()
        files[name] = {"size": int(size), "sha256": sha256}
        at, count = found.end(), count + 1
        if count > MOST_FILES:
            raise TooMuch(f"the file names more than {MOST_FILES:,} files")
    try:
        data = parser(head + header + tail[at:])
    except ValueError:
        return parser(text)  # which may have an earlier error to tell
    rest = data["checkpoint"]["files"]
    if len(files) < count or not files.keys().isdisjoint(rest):
        return parser(text)
    data["checkpoint"]["files"] = {**files, **rest}
    return data
