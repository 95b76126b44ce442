"""What is taken out of values and sentences, and what stays."""

from __future__ import annotations

import pytest

from lockllm.engines.shown import redaction
from lockllm.facts.observation import By
from lockllm.facts.registry import seen


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        ("https://u:p@h/x?token=t#f", "https://h/x"),
        ("s3://bucket/m?X-Amz-Signature=s", "s3://bucket/m"),
        ("redis://:p@h:1", "redis://h:1"),
        ("Authorization: Bearer abcdef", "Authorization: ***"),
        ("hf_ABCDEFghijklmnopqr", "***"),
        ("sk-abcdefghijklmnopqrst", "***"),
        ('{"api_key": "k", "size": 3}', '{"api_key": "***", "size": 3}'),
        ('{"token": "k"', '{"token": "***"'),
        ("password=p,user=u", "password=***,user=u"),
        (("a=b", "secret: s"), ("a=b", "secret: ***")),
        ("x" * 500 + "_password=p", "x" * 500 + "_password=***"),
        ("--api-key=k --2nd-token: t", "--api-key=*** --2nd-token: ***"),
        ({"key": "k", "sizes": [1, 2]}, {"key": "***", "sizes": (1, 2)}),
    ],
)
def test_a_secret_is_taken_out_of_a_value(value: object, clean: object) -> None:
    assert redaction.value(value) == clean


@pytest.mark.parametrize(
    "value",
    [
        "org/model", "/models/qwen@v2", "http://127.0.0.1:8000/v1", "fa3", "num_tokens=5", "max_new_tokens: 16", "use_token=true",
        "api_key=$KEY", "task-hf_small", "bfloat16", 3, None, 0.5, True, ("q_proj", "k_proj"),
        "torch_dtype=bfloat16", "attn_q_b=CPU,token_embd=CPU", "eos_token=</s>", "key_frames=8",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(value: object) -> None:
    assert redaction.value(value) == value


def test_a_known_secret_is_hidden_wherever_it_stands_and_a_short_one_as_a_word() -> None:
    assert redaction.text("the key sk-local-1 is in x-sk-local-1-y", ["sk-local-1"]) == "the key *** is in x-***-y"
    assert redaction.text("abcd and abcdef", ["abcd"]) == "*** and abcdef"
    assert redaction.text("it is none, or true", ["none", "true", "it"]) == "it is none, or true"
    assert not redaction.holds("12345", ["1234"])


def test_a_reading_under_a_secret_s_name_is_left_out() -> None:
    told = [
        seen("serve.args.kv.password", "p", "argument", By.PLAN),
        seen("serve.dtype", "float16", "argument", By.PLAN),
    ]
    assert [each.fact.key for each in redaction.readings(told)] == ["serve.dtype"]
