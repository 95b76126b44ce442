"""What `apply_chat_template` does around a rendering, by release of transformers (run: 4.44.2 to 5.24.0)."""

from __future__ import annotations

import re
from typing import NamedTuple

NEWEST = "5.24.0"
"""The newest release of transformers whose rules were read."""
_NEWEST = (5, 24)


class Rules(NamedTuple):
    """The differences between releases that reach a prompt. Plain: the child reads it without msgspec."""

    clock: bool = True  # `strftime_now`, `break` and `continue` exist, a final message can be continued: 4.45
    any_field: bool = True  # a field other than `content` can be continued, and a missing one is told: 5.x
    reasoning: bool = True  # the names of past reasoning are aliases: 5.21
    guarded: bool = True  # `dict` and `namespace` are guarded: 5.22
    without_nulls: bool = True  # keys of a message whose value is null are left out: 5.24


def release(version: str) -> tuple[int, int] | None:
    """The first two numbers of a version, or None for text that is none."""
    found = re.match(r"v?(\d{1,6})\.(\d{1,6})", version.strip())
    return (int(found.group(1)), int(found.group(2))) if found else None


def rules(version: str | None) -> Rules | None:
    """The rules of that release of transformers; those of the newest read where None is given.

    None for a release that was not read: older than 4.43, or newer than the newest.
    """
    if version is None:
        return Rules()
    number = release(version)
    if number is None or number < (4, 43) or number > _NEWEST:
        return None
    return Rules(
        clock=number >= (4, 45),
        any_field=number >= (5, 0),
        reasoning=number >= (5, 21),
        guarded=number >= (5, 22),
        without_nulls=number >= (5, 24),
    )
