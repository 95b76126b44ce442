"""What SGLang's own parsers take and refuse: lists of words, options on their way out, the file of `--config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockllm.engines.sglang import options
from lockllm.facts.observation import CheckStatus
from tests.engines import replay
from tests.engines.sglang.test_given import failing, given

FLAGS = [line.split() for line in (Path(__file__).parent / "data" / "flags.txt").read_text().splitlines()]
NO_OPTION = frozenset(
    """
    --aux-hidden-state-capture --custom-sigquit-handler --enable-cp-tp-group-sharing --ep-join-mode
    --ep-join-rank-offset --fp4-gemm-runner-backend --fp8-gemm-runner-backend --grpc-worker-threads
    --hierarchical-sparse-attention-extra-config --speculative-boundary-reduction --stat-loggers
    --uses-mamba-radix-cache --watermark-context-window --watermark-default-enabled --watermark-enforce-all
    --watermark-key --watermark-key-b --watermark-max-probability --watermark-mixing-probability
    """.split()
)
"""Fields of the sources that some release keeps off its command line, or spells otherwise there (`no_cli`, `cli_name`)."""


def test_every_option_of_the_sources_is_in_the_table() -> None:
    for flag, first, last in FLAGS:
        at, until = options.VERSIONS.index(first), options.VERSIONS.index(last)
        without = [each for each in options.VERSIONS[at : until + 1] if flag not in options.of(each).flags]
        assert not without or flag in NO_OPTION, f"{flag}: {without}"


def test_the_table_has_no_option_that_the_sources_lack() -> None:
    named = {flag for flag, _, _ in FLAGS}
    for version in options.VERSIONS:
        assert set(options.of(version).flags) - named == {off for o in options.of(version).options for off in o.off}


@pytest.mark.parametrize(
    ("words", "version", "refused"),
    [
        ("--dtype fp16", "0.5.23", True),
        ("--dtype half", "0.5.23", False),
        ("--attention-backend cutlass_mla", "0.5.18", False),
        ("--attention-backend cutlass_mla", "0.5.20", True),
        ("--attention-backend trtllm_mha", "0.4.10", True),
        ("--attention-backend fa3", "0.4.5", False),  # between two that were read, either may hold
        ("--device musa", "0.4.4", True),
        ("--device musa", "0.4.6", False),  # any word since
        ("--schedule-policy $POLICY", "0.5.23", False),
        ("--lora-target-modules q_proj nothing", "0.5.23", True),
        ("--kv-cache-dtype fp8", "0.5.23", True),
        ("--kv-cache-dtype fp8", None, True),
        ("--quantization gguf", None, False),
    ],
)
def test_an_option_with_a_list_of_words_refuses_others(words: str, version: str | None, refused: bool) -> None:
    found = given(*words.split(), version=version)
    assert ("check.flags_accepted" in failing(found)) is refused
    assert replay.facts(found.readings)  # what was asked is told all the same


def test_a_refused_word_is_named_with_those_that_would_do() -> None:
    assert failing(given("--sampling-backend", "torch"))["check.flags_accepted"] == (
        "--sampling-backend: 'torch' is none of its words in this release: ascend, flashinfer, intel_xpu, pytorch, token_oracle"
    )


@pytest.mark.parametrize(
    ("text", "version", "value"),
    [
        ("8k", "0.5.23", 8000),
        ("8Ki", "0.5.23", 8192),
        ("1M", "0.5.10", 1_000_000),
        ("25.6k", "0.5.12", 25600),
        ("8K", "0.5.23", None),
        ("1.5Ki", "0.5.23", None),
        ("8k", "0.5.9", None),  # whole numbers only
        ("8192", "0.5.9", 8192),
    ],
)
def test_lengths_take_suffixes_since_0_5_10(text: str, version: str, value: int | None) -> None:
    found = given("--context-length", text, version=version)
    assert ("check.flags_accepted" in failing(found)) is (value is None)
    if value is not None:
        assert replay.facts(found.readings)["serve.max_model_len"] == value


def test_json_is_read_strictly_where_the_parser_does() -> None:
    single = "{'enable_thinking': False}"
    assert "not JSON" in failing(given("--default-chat-template-kwargs", single))["check.flags_accepted"]
    assert failing(given("--default-chat-template-kwargs", '{"enable_thinking": false}')) == {}


def test_an_option_that_was_replaced_is_refused_or_does_nothing_or_still_holds() -> None:
    assert "refuses it" in failing(given("--enable-ep-moe", version="0.5.3"))["check.flags_accepted"]
    assert failing(given("--enable-ep-moe", version="0.5.2")) == {}
    idle = given("--enable-piecewise-cuda-graph", version="0.5.10")
    assert "does nothing with it" in failing(idle)["check.settings_take_effect"]
    assert replay.facts(idle.readings) == {}
    assert replay.facts(given("--disable-cuda-graph").readings) == {"serve.enforce_eager": True}


def from_file(text: str, *args: str, version: str | None = "0.5.23") -> Any:
    return given("--config", "c.yaml", *args, files={"c.yaml": text}, version=version)


def test_a_key_with_underscores_is_told_and_not_taken_by_sglang() -> None:
    found = from_file("tp_size: 2\n")
    assert failing(found) == {
        "check.flags_accepted": "tp_size: a key is an option as it is spelled, and --tp_size is none"
    }
    assert replay.facts(found.readings) == {"serve.tensor_parallel_size": 2}
    assert failing(from_file("tensor-parallel-size: 2\n")) == {}


@pytest.mark.parametrize(
    ("text", "version", "refused"),
    [
        ("disable-cuda-graph: true\n", "0.5.12", False),
        ("disable-cuda-graph: true\n", "0.5.23", True),  # an option on its way out
        ("lora-paths: [a=org/a]\n", "0.5.7", False),
        ("lora-paths: [a=org/a]\n", "0.5.23", True),
        ("enable-tf32-matmul: true\n", "0.5.22", False),
        ("enable-tf32-matmul: true\n", "0.5.23", True),  # it got its --no- there
        ("quantization: null\n", "0.5.23", True),  # written as None, which is none of its words
        ("context-length: 8k\n", "0.5.23", False),
    ],
)
def test_some_options_stop_the_start_when_they_stand_in_the_file(text: str, version: str, refused: bool) -> None:
    assert ("check.flags_accepted" in failing(from_file(text, version=version))) is refused


def test_a_list_and_an_object_in_the_file_are_arguments() -> None:
    found = from_file("lora-target-modules: [q_proj, k_proj]\ncuda-graph-config: {decode: {max_bs: 32}}\n")
    assert replay.facts(found.readings) == {
        "serve.args.lora_target_modules": ["q_proj", "k_proj"],
        "serve.args.cuda_graph_config.decode.max_bs": 32,
    }


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--config", "c.yaml", "--config", "d.yaml"), "given twice"),
        (("--tp", "2", "--config"), "names no file"),
        (("--config", "c.json"), "ends in .yaml"),
    ],
)
def test_a_file_that_sglang_would_not_take_is_told(args: tuple[str, ...], word: str) -> None:
    found = given(*args, files={"c.yaml": "tp-size: 2\n", "c.json": "{}"})
    assert word in failing(found)["check.settings_take_effect"]


def test_a_file_is_no_option_before_0_5_3() -> None:
    assert "no such option" in failing(from_file("tp-size: 2\n", version="0.5.2"))["check.flags_accepted"]


def test_an_empty_file_gives_nothing() -> None:
    for text in ("", "# nothing\n"):
        found = from_file(text, "--tp", "2")
        assert replay.facts(found.readings) == {"serve.tensor_parallel_size": 2}
        assert (failing(found), found.warnings) == ({}, ())


def test_flags_that_a_start_refuses_are_not_hidden_by_the_ones_before() -> None:
    detail = failing(given("--dtype", "fp16", "--enable-ep-moe", "--nope"))["check.flags_accepted"]
    assert all(flag in detail for flag in ("--dtype", "--enable-ep-moe", "--nope"))


def test_a_newer_release_is_not_held_to_the_lists() -> None:
    checks = given("--attention-backend", "brand_new", version="0.7.0").checks
    assert [check.status for check in checks] == [CheckStatus.UNKNOWN]
