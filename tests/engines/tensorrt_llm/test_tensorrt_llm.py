"""TensorRT-LLM: flags, the YAML file that outranks them, `/version`, start log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Answer, Context, Form, Given, load
from lockllm.facts.observation import CheckStatus, Unobserved
from tests.engines import replay

HERE = Path(__file__).parent
TRTLLM = load("tensorrt-llm")
ROWS = replay.rows(HERE)


def given(*args: str, files: dict[str, str] | None = None, env: dict[str, str] | None = None) -> Given:
    form = Form(engine="tensorrt-llm", args=args, program=("trtllm-serve", "serve"))
    return TRTLLM.given(form, env or {}, files or {}, "1.2.0", False)


@pytest.mark.parametrize("row", [row for row in ROWS if row.get("run_as")], ids=lambda row: row["id"])
def test_a_real_command_gives_what_it_says(row: dict[str, Any]) -> None:
    assert replay.wrong(row) == []


@pytest.mark.parametrize("log", replay.logs(HERE), ids=lambda log: log.stem)
def test_a_start_log_reads_as_it_is(log: Path) -> None:
    assert replay.misread(log, "tensorrt-llm") == []


YAML = """
max_batch_size: 4
attn_backend: FLASHINFER
kv_cache_config:
  enable_block_reuse: false
  dtype: fp8
  free_gpu_memory_fraction: 0.7
cuda_graph_config: null
speculative_config: {decoding_type: Eagle, max_draft_len: 3, speculative_model_dir: /draft}
"""


def test_the_file_wins_over_the_flags() -> None:
    args = ("org/m", "--max_batch_size", "8", "--tp_size", "2", "--config", "c.yaml")
    found = given(*args, files={"c.yaml": YAML})
    facts = replay.facts(found.readings)
    assert facts["serve.max_num_seqs"] == 4
    assert facts["serve.tensor_parallel_size"] == 2
    assert facts["serve.attention_backend"] == "FLASHINFER"
    assert facts["serve.enable_prefix_caching"] is False
    assert facts["serve.kv_cache_dtype"] == "fp8"
    assert facts["serve.enforce_eager"] is True
    assert facts["serve.speculative.method"] == "Eagle"
    assert facts["serve.args.kv_cache_config.free_gpu_memory_fraction"] == 0.7
    assert found.draft is not None
    assert found.draft.text == "/draft"


def test_a_file_that_was_not_read_is_told() -> None:
    found = given("org/m", "--extra_llm_api_options", "c.yaml")
    assert "outranks the command line and was not read" in found.warnings[0]
    assert [each.path for each in found.paths] == ["c.yaml"]


def test_a_file_of_another_shape_is_told() -> None:
    for text in ("- a\n- b\n", "a: *x\n", "{unclosed"):
        assert given("org/m", "--config", "c.yaml", files={"c.yaml": text}).warnings


def test_names_cannot_be_shortened() -> None:
    assert "cannot be shortened" in given("org/m", "--max_batch", "8").checks[0].detail


def test_the_deterministic_switch_counts_only_as_one() -> None:
    context = Context(version="1.2.0", env={"FORCE_DETERMINISTIC": "true"})
    assert [check.status for check in TRTLLM.checks(None, context)] == [CheckStatus.FAIL]
    assert list(TRTLLM.checks(None, Context(version="1.2.0", env={"FORCE_DETERMINISTIC": "1"}))) == []


def test_block_reuse_is_on_by_default() -> None:
    found = replay.facts(TRTLLM.effective(given("org/m"), Context(version="1.2.0")))
    assert found["serve.enable_prefix_caching"] is True
    assert found["serve.attention_backend"] == "TRTLLM"
    assert found["sampling.top_k"] == 0


@pytest.mark.parametrize("version", ["1.4.0", "0.9.0", None])
def test_a_release_whose_rules_were_not_read_is_left_open(version: str | None) -> None:
    found = list(TRTLLM.effective(given("org/m"), Context(version=version)))
    assert all(isinstance(each, Unobserved) for each in found)


def test_endpoints_show_the_version_and_little_else() -> None:
    bodies = {"/version": {"version": "1.2.0"}, "/server_info": {"disaggregated_params": None}}
    asked = [
        Answer(probe=probe, status=200, headers={}, text="", json=bodies[probe.path])
        for probe in TRTLLM.probes
        if probe.path in bodies
    ]
    found = list(TRTLLM.from_http(asked, Context()))
    assert replay.facts(found) == {"engine.name": "tensorrt-llm", "engine.version": "1.2.0"}
    assert TRTLLM.detect(asked)


def test_a_command_says_again_what_it_was_made_from() -> None:
    args = (
        "org/m",
        "--tp_size",
        "2",
        "--max_seq_len",
        "4096",
        "--ep_size",
        "2",
        "--trust_remote_code",
        "--backend",
        "pytorch",
    )
    facts = {each.fact.path: each.value for each in given(*args).readings}
    made = TRTLLM.command({**facts, ("checkpoint", "repo"): "org/m"}, Context())
    assert {each.fact.path: each.value for each in given(*made.argv[2:]).readings} == facts
    assert TRTLLM.command({("serve", "attention_backend"): "FLASHINFER"}, Context()).notes == (
        "serve.attention_backend: put `attn_backend: FLASHINFER` into the file of --config",
    )


@pytest.mark.parametrize("word", ["auto", "trtllm"])
def test_where_sampling_defaults_come_from_is_kept_and_auto_is_a_place(word: str) -> None:
    found = given("org/m", "--config", "c.yaml", files={"c.yaml": f"generation_config: {word}\n"})
    assert replay.facts(found.readings)["serve.args.generation_config"] == word
    told = {
        each.path if isinstance(each, Unobserved) else each.fact.path: isinstance(each, Unobserved)
        for each in TRTLLM.effective(found, Context(version="1.2.0"))
    }
    assert told["sampling", "temperature"] is (word == "auto")
