"""Which releases of vLLM read a variable: `lockllm/facts/variables/vllm.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockllm.engines.kernel.releases import order
from tools.refresh.snapshot import Snapshot

Spans = Mapping[str, tuple[str, str]]
"""Variable -> first and last release that reads it; empty: the newest one does."""


def place(root: Path) -> Path:
    """The data file in a checkout."""
    return root / "lockllm" / "facts" / "variables" / "vllm.json"


def load(path: Path) -> Spans:
    """The spans of a data file."""
    return {name: (first, last) for name, (first, last) in json.loads(path.read_text()).items()}


def merge(before: Spans, releases: Sequence[str], told: Snapshot) -> Spans:
    """The spans with what a release reads. One that reads a variable widens its span; a newest one that does not ends it."""
    found = dict(before)
    number = releases.index(told.release)
    newest = number + 1 == len(releases)
    for name in told.variables:
        first, last = found.get(name, (told.release, told.release))
        first = min(first, told.release, key=order)
        reached = not last or order(last) <= order(told.release)
        found[name] = (first, "" if newest or not last else told.release if reached else last)
    for name, (first, last) in before.items():
        if newest and not last and name not in told.variables and number:
            found[name] = (first, releases[number - 1])
    return dict(sorted(found.items()))


def text(spans: Spans) -> str:
    """The data file: a variable a line."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(held)}" for name, held in spans.items()) + "\n}\n"
