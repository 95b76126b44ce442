"""What the judge remembers from one call to the next is forgotten before each test."""

from __future__ import annotations

import pytest

from lockllm.judge import fingerprint, policy, ready


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> None:
    """A planted fault must not hide behind a value that an earlier run worked out."""
    for cache in (fingerprint._written, fingerprint._table, policy.compile_globs, ready._ready):
        cache.cache_clear()
