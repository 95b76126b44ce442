"""What a report says to do, by what is wrong and what is known of the checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.documents.lock import Lock
from lockllm.facts import keys, registry
from lockllm.facts.checkpoint import AGAIN
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Observation, Reading
from lockllm.judge.report import Result, Status
from lockllm.judge.verify import verify

COMMIT = "c" * 40
CONFIG = registry.fact('checkpoint.files."config.json"')
BYTES = [{"size": 1, "sha256": each * 64} for each in "ab"]
HUB = {"checkpoint.repo": "org/model", "checkpoint.commit": COMMIT}


def judged(row: Any, values: dict[str, Any], expected: Any, found: Any, *, source: str = "", **seen: Any) -> Result:
    held = {keys.parse(key): registry.read(registry.fact(key), raw) for key, raw in values.items()}
    absent: frozenset[Path] = frozenset()
    if expected is ABSENT:
        absent = frozenset({row.path})
    else:
        held[row.path] = registry.read(row, expected)
    readings = [registry.seen(row.path, found, source, By.PROCESS)] if found is not None else []
    readings += [registry.seen(key, value, "cache", By.FILE) for key, value in seen.items()]
    report = verify(Lock(values=held, absent=absent, edition=2), Observation(readings=tuple(readings)))
    return next(each for each in report.results if each.fact == row)


@pytest.mark.parametrize(
    ("key", "name"),
    [('checkpoint.files."config.json"', "config.json"), ('checkpoint.files."a b.bin"', "a b.bin"),
     ('checkpoint.blake3."config.json"', "config.json"), ("checkpoint.content_sha256", None), ("checkpoint.format", None)],
)  # fmt: skip
def test_damaged_files_are_downloaded_again_by_a_command_that_runs(key: str, name: str | None) -> None:
    row = registry.fact(key)
    assert row.fix == AGAIN
    values = BYTES if "files" in row.path else ("1" * 64, "2" * 64)
    what = f"the locked {name or 'files'}"
    words = {"a b.bin": "'a b.bin' ", "config.json": "config.json ", None: ""}[name]
    command = f"hf download org/model {words}--revision {COMMIT} --force-download"
    into = judged(row, HUB, *values)
    assert into.fix == f"download {what} into the model's folder: {command} --local-dir FOLDER"
    cached = judged(row, HUB, *values, **{"checkpoint.commit": COMMIT})
    assert cached.fix == f"download {what} again: {command}"
    for known in ({}, {"checkpoint.repo": "org/model"}, {"checkpoint.commit": COMMIT}):
        assert judged(row, known, *values).fix == f"put {what} back into the model's folder"


def test_what_no_download_fixes_has_its_own_fix() -> None:
    row = registry.fact("serve.dtype")
    assert judged(row, HUB, "bfloat16", "float16").fix == row.fix
    assert judged(CONFIG, HUB, BYTES[0], BYTES[0]).fix == AGAIN  # a match: nobody reads it


ELSEWHERE = [
    row for row in registry.ROWS if (row.unless or row.denied) and row.verified and row.type.name != "list of texts"
]


@pytest.mark.parametrize("row", ELSEWHERE, ids=lambda row: row.key)
def test_an_option_that_names_other_files_is_dropped(row: Any) -> None:
    one, other = ("1" * 64, "2" * 64)
    assert judged(row, {}, one, other, source="argument --tokenizer: x").fix == (
        "drop --tokenizer, or give it the locked files"
    )
    assert judged(row, {}, one, other, source="argument -t").fix == "drop -t, or give it the locked files"
    for source in ("tokenizer.json", "an argument --tokenizer", ""):
        assert judged(row, {}, one, other, source=source).fix == row.fix
    same = judged(row, {}, one, one, source="argument --tokenizer")
    assert (same.status, same.fix) == (Status.MATCH, row.fix)
    unseen = judged(row, {}, one, None)
    assert unseen.fix == "give a source that shows it (a start log: --log FILE), or lock without it"


def test_another_option_that_differs_keeps_its_fix() -> None:
    row = registry.fact("serve.dtype")
    assert judged(row, {}, "bfloat16", "float16", source="argument --dtype").fix == row.fix


TEMPLATE: Path = ("serve", "chat_template")


@pytest.mark.parametrize(
    ("edition", "locked", "found", "source", "status"),
    [
        (1, "t.jinja", "sha256:" + "1" * 64, "argument --chat-template t.jinja", Status.MATCH),
        (2, "t.jinja", "sha256:" + "1" * 64, "argument --chat-template t.jinja", Status.MISMATCH),
        (1, "t.jinja", "sha256:" + "1" * 64, "argument --chat-template other.jinja", Status.MISMATCH),
        (1, "jinja", "sha256:" + "1" * 64, "argument --chat-template t.jinja", Status.MISMATCH),
        (1, "t.jinja", "other", "argument --chat-template t.jinja", Status.MISMATCH),
        (1, "t.jinja", ABSENT, "argument --chat-template t.jinja", Status.MISMATCH),
    ],
)
def test_a_lock_of_the_first_edition_holds_the_name_of_a_file(
    edition: int, locked: str, found: Any, source: str, status: Status
) -> None:
    row = registry.find(TEMPLATE)
    lock = Lock(values={TEMPLATE: locked}, edition=edition)
    report = verify(lock, Observation(readings=(Reading(row, found, source, By.PROCESS),)))
    assert [each.status for each in report.results] == [status]
