"""What running servers said of rendered conversations, read into probes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Answer, Probe
from lockllm.facts.observation import CheckStatus, Unobserved
from lockllm.prompt import live, probes

NOW = dt.datetime.fromisoformat("2026-03-05T14:30:07")


def answer(body: Any, status: int = 200, path: str = "/tokenize") -> Answer:
    return Answer(probe=Probe(path=path, method="POST"), status=status, headers={}, text="", json=body)


def values(*args: Any, **rest: Any) -> dict[str, Any]:
    return {each.fact.key: each.value for each in live.readings(*args, **rest) if not isinstance(each, Unobserved)}


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
        for each in asked.values():
            assert each.body is not None
            assert all(isinstance(message["content"], str) for message in each.body["messages"])
    assert live.requests("transformers") == live.requests("lmdeploy") == {}


def test_ids_and_texts_become_probes() -> None:
    found = values({"user": answer({"tokens": [1, 85, 91], "count": 3, "max_model_len": 2048})})
    assert found == {
        "prompt_probes.user.token_count": 3,
        "prompt_probes.user.token_ids": probes.token_ids_sha256([1, 85, 91]),
        "prompt_probes.version": 1,
    }
    rendered = values({"user": answer({"prompt": "<|im_start|>user\nx"}, path="/apply-template")})
    assert set(rendered) == {"prompt_probes.user.text", "prompt_probes.version"}
    tgi = {"tokenize_response": [{"id": 5, "text": "a", "start": 0, "stop": 1}], "templated_text": "a"}
    assert values({"user": answer(tgi)})["prompt_probes.user.token_count"] == 1


@pytest.mark.parametrize(
    "odd",
    [
        answer({"error": "no"}, 404), answer(None), answer([]), answer({"tokens": "x"}), answer({"tokens": [True]}),
        answer({"tokens": [None, "x"]}), answer({"prompt": 5}), answer({"tokens": []}),
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_is_no_reading(odd: Answer) -> None:
    (found,) = live.readings({"user": odd})
    assert isinstance(found, Unobserved)


def test_a_template_that_reads_the_clock_is_compared_with_today(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.BPE(vocab={chr(code): code for code in range(256)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.save(str(tmp_path / "tokenizer.json"))
    template = "{{ strftime_now('%F') }}{{ messages[0].content }}"
    said = [ord(char) for char in "2026-03-05" + "Name three primes."]
    answers = {"user": answer({"tokens": said, "count": len(said)})}
    (skipped,) = live.readings(answers, clock=True)
    assert isinstance(skipped, Unobserved)

    def status(moment: dt.datetime) -> CheckStatus:
        return live.as_rendered_today(answers, template, {}, str(tmp_path / "tokenizer.json"), [moment]).status

    assert status(NOW) is CheckStatus.PASS
    assert status(NOW + dt.timedelta(days=1)) is CheckStatus.FAIL
    assert live.as_rendered_today({}, template, {}, "none", [NOW]).status is CheckStatus.UNKNOWN
