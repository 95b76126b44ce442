"""Hashing grows with bytes, whatever their number of files, and memory does not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.hashing import growth
from benchmarks.side_by_side import Row


def rows() -> Iterator[Row]:
    """Minutes long: 64 GiB are hashed once."""
    with tempfile.TemporaryDirectory() as made:
        yield from growth(Path(made))
