"""A file or a place that moved while every value stayed is told as that."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.documents.lock import Lock
from lockllm.facts import keys, registry
from lockllm.facts.fact import Kind
from lockllm.facts.observation import By, Observation
from lockllm.judge.report import Report
from lockllm.judge.verify import verify

GENERATION = 'checkpoint.files."generation_config.json"'
LOCKED: dict[str, Any] = {
    GENERATION: {"size": 10, "sha256": "1" * 64}, "checkpoint.generation_config.top_p": 0.9, "sampling.top_p": 0.9,
    "sampling.temperature": 1.0, "checkpoint.stop_token_ids": [2], "serve.generation_config": "auto",
    "chat_template.sha256": "c" * 64, "chat_template.source": "tokenizer_config.json", "engine.name": "vllm",
}  # fmt: skip


def judged(**found: Any) -> Report:
    values = {keys.parse(key): registry.read(registry.fact(key), value) for key, value in LOCKED.items()}
    shown = {**LOCKED, **{key.replace("__", "."): value for key, value in found.items()}}
    readings = tuple(registry.seen(key, value, "seen", By.FILE) for key, value in shown.items())
    return verify(Lock(values=values, edition=2), Observation(readings=readings))


def kind(report: Report, key: str) -> tuple[str, Kind]:
    result = next(each for each in report.results if each.fact.key == key)
    return result.status.value, result.fact.kind


def test_another_spelling_of_the_same_generation_config_moves_nothing_but_the_file() -> None:
    report = judged(**{GENERATION: {"size": 12, "sha256": "2" * 64}})
    assert kind(report, GENERATION) == ("mismatch", Kind.IDENTITY)
    assert "nothing but the file's bytes moved" in next(
        each.fact.effect for each in report.results if each.fact.key == GENERATION
    )
    assert report.exit_code == 1


@pytest.mark.parametrize(
    "more", [{"sampling__top_p": 0.8}, {"checkpoint__generation_config__top_k": 5}, {"checkpoint__stop_token_ids": [2, 3]}]
)  # fmt: skip
def test_a_value_that_moved_with_the_file_is_what_the_file_moves(more: dict[str, Any]) -> None:
    assert kind(judged(**{GENERATION: {"size": 12, "sha256": "2" * 64}, **more}), GENERATION) == ("mismatch", Kind.STEP)


def test_what_nothing_reads_from_the_file_does_not_count() -> None:
    report = judged(**{GENERATION: {"size": 12, "sha256": "2" * 64}, "host__gpu": "NVIDIA A10", "serve__seed": 3})
    assert kind(report, GENERATION) == ("mismatch", Kind.IDENTITY)


def test_a_template_of_another_place_with_the_same_text_has_moved_its_place_alone() -> None:
    assert kind(judged(chat_template__source="--chat-template"), "chat_template.source") == ("mismatch", Kind.IDENTITY)
    other = judged(chat_template__source="--chat-template", chat_template__sha256="d" * 64)
    assert kind(other, "chat_template.source") == ("mismatch", Kind.STEP)


@pytest.mark.parametrize("prefix", ["", "sha256:"])
def test_the_folder_that_auto_reads_given_by_name_is_no_difference(prefix: str) -> None:
    assert kind(judged(serve__generation_config=prefix + "1" * 64), "serve.generation_config")[0] == "match"
    assert kind(judged(serve__generation_config=prefix + "2" * 64), "serve.generation_config")[0] == "mismatch"
    assert kind(judged(serve__generation_config="vllm"), "serve.generation_config")[0] == "mismatch"
