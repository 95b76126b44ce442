"""Explanations as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from lockllm.facts.check import CheckRow
from lockllm.facts.fact import Fact, Family, Group
from lockllm.judge.explain import Explanation
from lockllm.output.escape import readable

_WIDTH = 80
_LABEL = 14


def text(explanation: Explanation) -> str:
    """One fact: its row, then each engine."""
    lines = [explanation.key, *_wrapped(explanation.about, "  "), ""]
    for label, value in explanation.lines:
        lines += _labeled(label, value)
    for name, words in explanation.engines:
        lines += ["", f"{name}"]
        for label, value in words:
            lines += _labeled(label, readable(value))
    return "\n".join(lines) + "\n"


def group_text(group: Group, rows: Sequence[Fact[Any]], families: Sequence[Family[Any]]) -> str:
    """One group: its facts, a line each."""
    lines = [group.name, *_wrapped(group.about, "  "), ""]
    for row in rows:
        if row.group == group.name:
            lines += [f"  {row.key}", *_wrapped(row.about, "      ")]
    for family in families:
        if family.path[0] == group.name:
            lines += [f"  {'.'.join(family.path)}.<name>", *_wrapped(family.row.about, "      ")]
    return "\n".join(lines) + "\n"


def check_text(row: CheckRow) -> str:
    """One finding."""
    return "\n".join([row.name, *_wrapped(row.about, "  "), "", *_labeled("if it fails", row.effect)]) + "\n"


def checks_text(rows: Sequence[CheckRow]) -> str:
    """All findings."""
    lines = ["check", *_wrapped("findings that need no lock: what a host says against itself", "  "), ""]
    for row in rows:
        lines += [f"  {row.name}", *_wrapped(row.about, "      ")]
    return "\n".join(lines) + "\n"


def _labeled(label: str, value: str) -> list[str]:
    first, *rest = _wrapped(value, " " * _LABEL) or [""]
    return [f"  {label:<{_LABEL - 2}}{first.strip()}", *rest]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
