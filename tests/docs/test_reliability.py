"""docs/reliability.md names tests that are there, and every test of abuse."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "reliability.md").read_text())


def named_in(path: Path) -> set[str]:
    return set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))


def test_every_test_that_is_named_is_there() -> None:
    assert len(NAMED) > 40
    assert [f"{file}::{name}" for file, name in NAMED if name not in named_in(ROOT / file)] == []


def test_every_test_of_abuse_is_named() -> None:
    named = {name for file, name in NAMED if file.startswith("tests/abuse")}
    held = {name for path in (ROOT / "tests" / "abuse").glob("test_*.py") for name in named_in(path)}
    assert held - named == set()
