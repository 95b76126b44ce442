"""Situations, each a folder below tests/cases: a lock, what a host showed, and what `verify` says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lockllm.cli import run
from lockllm.documents import lock as locks
from lockllm.documents import observation as observations

CASES = sorted(path.parent for path in (Path(__file__).parent.parent / "cases").glob("*/llm.lock"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_situation_is_told_as_it_was_reviewed(
    case: Path,
    golden: Callable[[Path, str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(case)
    monkeypatch.delenv("LOCKLLM_GATE", raising=False)
    arguments = (case / "arguments").read_text().splitlines() if (case / "arguments").exists() else []
    codes = set()
    for format_, name in (("text", "expect.txt"), ("json", "expect.json")):
        codes.add(run(["verify", "--observation", "observation.json", "--format", format_, *arguments]))
        golden(case / name, capsys.readouterr().out)
    (code,) = codes
    golden(case / "expect.code", f"{code}\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_documents_of_a_situation_are_written_as_they_are_read(case: Path) -> None:
    text = (case / "llm.lock").read_text()
    assert locks.write(locks.read(text)) == text
    seen = observations.read((case / "observation.json").read_bytes())
    assert observations.read(observations.write(seen).encode()) == observations.read(
        observations.write(observations.read(observations.write(seen).encode())).encode()
    )
