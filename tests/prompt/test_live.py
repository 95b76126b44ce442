"""What running servers said of rendered conversations, read into probes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest

from lockllm.engines import Answer, Probe
from lockllm.facts.observation import CheckStatus, Unobserved
from lockllm.prompt import live, probes

NOW = dt.datetime(2026, 3, 5, 14, 30, 7, tzinfo=dt.timezone.utc)


def answer(body: Any, status: int = 200, path: str = "/tokenize") -> Answer:
    return Answer(probe=Probe(path=path, method="POST"), status=status, headers={}, text="", json=body)


def served(answers: dict[str, Answer], engine: str = "vllm", now: dt.datetime = NOW, silence: str = "") -> live.Served:
    return live.Served(engine=engine, began=now, ended=now, answers=answers, silence=silence)


def values(answers: dict[str, Answer], engine: str = "vllm") -> dict[str, Any]:
    found = live.readings(served(answers, engine), clock=False)
    return {each.fact.key: each.value for each in found if not isinstance(each, Unobserved)}


def numbers(texts: Sequence[str]) -> list[tuple[int, ...]]:
    return [tuple(map(ord, text)) for text in texts]


def test_every_request_only_renders_or_tokenizes() -> None:
    for engine, path in (
        ("vllm", "/tokenize"),
        ("sglang", "/tokenize"),
        ("llama.cpp", "/apply-template"),
        ("tgi", "/chat_tokenize"),
    ):
        asked = live.requests(engine)
        assert {each.path for each in asked.values()} == {path}
        assert not any(each.generates for each in asked.values())
        assert set(asked) <= set(probes.PROBES)
        assert len(asked) <= 13
        assert all(each.body is not None and each.body["messages"] for each in asked.values())
    assert live.requests("transformers") == live.requests("lmdeploy") == {}


def test_ids_and_texts_become_probes() -> None:
    found = values({"user": answer({"tokens": [1, 85, 91], "count": 3, "max_model_len": 2048})})
    assert found == {
        "prompt_probes.user.token_count": 3,
        "prompt_probes.user.token_ids": probes.token_ids_sha256([1, 85, 91]),
        "prompt_probes.version": 1,
    }
    rendered = values({"user": answer({"prompt": "<|im_start|>user\nx"}, path="/apply-template")}, "llama.cpp")
    assert set(rendered) == {"prompt_probes.user.text", "prompt_probes.version"}
    tgi = {"tokenize_response": [{"id": 5, "text": "a", "start": 0, "stop": 1}], "templated_text": "a"}
    assert values({"user": answer(tgi)}, "tgi")["prompt_probes.user.token_count"] == 1


@pytest.mark.parametrize(
    "odd",
    [
        answer({"error": "no"}, 404), answer(None), answer([]), answer({"tokens": "x"}), answer({"tokens": [True]}),
        answer({"tokens": [None, "x"]}), answer({"prompt": 5}), answer({"tokens": []}),
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_is_no_reading(odd: Answer) -> None:
    (found,) = live.readings(served({"user": odd}), clock=False)
    assert isinstance(found, Unobserved)
    check = live.as_served(served({"user": odd}), [{"user": "x"}], "", numbers, clock=False)
    assert check.status is CheckStatus.UNKNOWN


def test_a_server_that_does_not_answer_is_told_with_its_reason() -> None:
    silent = served({}, silence="POST http://h/tokenize: answers 403")
    (found,) = live.readings(silent, clock=False)
    assert found == Unobserved(("prompt_probes",), "POST http://h/tokenize: answers 403")
    assert live.as_served(silent, [{"user": "x"}], "", numbers, clock=False).status is CheckStatus.UNKNOWN


@pytest.mark.parametrize("clock", [True, None])
def test_ids_of_another_day_are_never_compared_with_the_locked_ones(clock: bool | None) -> None:
    (found,) = live.readings(served({"user": answer({"tokens": [1]})}), clock=clock)
    assert isinstance(found, Unobserved)


def test_what_is_served_is_compared_with_what_the_template_gives() -> None:
    said = served({"user": answer({"tokens": [97]}), "system": answer({"tokens": [98]})})
    same = live.as_served(said, [{"user": "a", "system": "b"}], "", numbers, clock=False)
    assert (same.status, same.detail) == (
        CheckStatus.PASS,
        "the server's prompts are those that its template gives: 2 compared",
    )
    other = live.as_served(said, [{"user": "a", "system": "c"}], "", numbers, clock=False)
    assert other.status is CheckStatus.FAIL
    assert other.detail.endswith("template gives: system")
    at_midnight = live.as_served(
        said, [{"user": "a", "system": "c"}, {"user": "d", "system": "b"}], "", numbers, clock=True
    )
    assert at_midnight.status is CheckStatus.PASS


def test_an_engine_with_a_renderer_of_its_own_proves_nothing_by_a_difference() -> None:
    said = served({"user": answer({"prompt": "hello"}), "tools": answer({"prompt": "any"})}, "llama.cpp")
    for text, status in (("<s>hello", CheckStatus.PASS), ("hello", CheckStatus.PASS), ("other", CheckStatus.UNKNOWN)):
        assert live.as_served(said, [{"user": text, "tools": "x"}], "<s>", numbers, clock=False).status is status


def test_the_clock_is_that_of_the_server_whatever_its_zone() -> None:
    just = dt.datetime(2026, 3, 5, 23, 59, 59, 900_000, tzinfo=dt.timezone.utc)
    said = live.Served(engine="vllm", began=just, ended=just + dt.timedelta(seconds=1))
    shown = {each.isoformat() for each in live.moments(said, "Asia/Tokyo")}
    assert {"2026-03-05T23:59:59", "2026-03-06T00:00:00", "2026-03-06T08:59:59", "2026-03-06T09:00:00"} <= shown
    assert live.moments(said, "No/Such") == live.moments(said, None) == live.moments(said, "../../etc/passwd")
