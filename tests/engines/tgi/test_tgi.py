"""Text Generation Inference: launcher, router and shards, `/info`, start log, rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Answer, Context, Form, Given, load
from lockllm.facts.observation import By, CheckStatus, Unobserved
from lockllm.observe.server.command_line import plan
from tests.engines import replay

HERE = Path(__file__).parent
TGI = load("tgi")
ROWS = replay.rows(HERE)


def given(*args: str, env: dict[str, str] | None = None, live: bool = False) -> Given:
    form = Form(engine="tgi", args=args, program=("text-generation-launcher",))
    return TGI.given(form, env or {}, {}, "3.3.5", live)


def told(*args: str, env: dict[str, str] | None = None, **facts: Any) -> dict[str, Any]:
    context = Context(version="3.3.5", env=env or {}, **facts)
    return replay.facts(TGI.effective(given(*args, env=env), context))


@pytest.mark.parametrize("row", [row for row in ROWS if row.get("run_as")], ids=lambda row: row["id"])
def test_a_real_command_gives_what_it_says(row: dict[str, Any]) -> None:
    assert replay.wrong(row) == []


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.get("secrets") and row.get("argv")], ids=lambda row: row["id"]
)
def test_a_real_command_leaks_no_secret(row: dict[str, Any]) -> None:
    assert replay.leaked(row, "argv") == []


@pytest.mark.parametrize("log", replay.logs(HERE), ids=lambda log: log.stem)
def test_a_start_log_reads_as_it_is(log: Path) -> None:
    assert replay.misread(log, "tgi") == []


def test_a_flag_wins_over_its_variable() -> None:
    found = replay.facts(given("--quantize", "awq", env={"QUANTIZE": "gptq", "NUM_SHARD": "2"}).readings)
    assert (found["serve.quantization"], found["serve.tensor_parallel_size"]) == ("awq", 2)


def test_names_cannot_be_shortened() -> None:
    checks = given("--model", "m").checks
    assert checks[0].status is CheckStatus.FAIL
    assert "cannot be shortened" in checks[0].detail


def test_docker_options_among_the_arguments_are_refused() -> None:
    found = given("--model-id", "m", "-it", "--gpus", "all", "-e", "HF_TOKEN=hf_secret", "-v", "a:b", "image")
    assert found.checks[0].status is CheckStatus.FAIL
    assert "hf_secret" not in repr((found.readings, found.checks, found.warnings))


def test_a_shard_is_the_better_witness() -> None:
    argv = [
        "/venv/bin/python",
        "/venv/bin/text-generation-server",
        "serve",
        "org/m",
        "--uds-path",
        "/tmp/s",
        "--quantize",
        "fp8",
    ]
    env = {"ATTENTION": "flashinfer", "PREFIX_CACHING": "1", "WORLD_SIZE": "2", "RANK": "1", "MODEL_ID": "other"}
    found = plan(argv, env, "/", live=True)
    assert found.given is not None
    facts = replay.facts(found.given.readings)
    assert facts["serve.attention_backend"] == "flashinfer"
    assert facts["serve.enable_prefix_caching"] is True
    assert facts["serve.tensor_parallel_size"] == 2
    assert found.given.model is not None
    assert found.given.model.text == "org/m"
    witnesses = {each.by for each in found.given.readings if each.fact.group == "serve"}
    assert witnesses == {By.WORKER}


def test_the_routers_key_is_kept_secret() -> None:
    form = Form(engine="tgi", args=("--api-key", "sk-x", "--tokenizer-name", "org/m"), program=(), subcommand="router")
    found = TGI.given(form, {}, {}, None, True)
    assert found.secrets == ("sk-x",)
    assert "sk-x" not in repr((found.readings, found.checks, found.operational))


@pytest.mark.parametrize(
    ("env", "host", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, {}, 2),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, {("host", "gpu_count"): 4}, 4),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, {}, None),
        ({"PATH": "/bin"}, {}, 1),
    ],
)
def test_shards_follow_the_devices_that_are_shown(env: dict[str, str], host: Any, expected: int | None) -> None:
    assert told("--model-id", "m", env=env, host=host).get("serve.tensor_parallel_size") == expected


def test_quantized_checkpoints_run_in_float16() -> None:
    found = told("--model-id", "m", checkpoint={("quantization", "method"): "awq"})
    assert (found["serve.quantization"], found["serve.dtype"]) == ("awq", "float16")


def test_old_gpus_get_paged_attention_and_no_prefix_cache() -> None:
    found = told("--model-id", "m", host={("host", "compute_capability"): "7.5"})
    assert found["serve.attention_backend"] == "paged"
    assert found["serve.enable_prefix_caching"] is False


def test_generation_config_sets_no_sampling_default() -> None:
    checkpoint = {("checkpoint", "generation_config", "temperature"): 0.2}
    assert told("--model-id", "m", checkpoint=checkpoint)["sampling.temperature"] == 1


def test_a_template_file_that_tgi_does_not_read_is_told() -> None:
    context = Context(version="3.3.5", checkpoint={("chat_template", "source"): "chat_template.jinja"})
    assert [check.name for check in TGI.checks(None, context)] == ["check.one_template"]


INFO = {
    "model_id": "org/m", "model_sha": "0123456789abcdef0123456789abcdef01234567", "version": "3.3.6-dev0",
    "sha": "db931fcf00112233445566778899aabbccddeeff", "docker_label": "sha-db931fc", "max_total_tokens": 8192,
}  # fmt: skip


def test_the_build_identifies_and_a_dev_version_does_not() -> None:
    found = list(TGI.from_http([Answer(probe=TGI.probes[0], status=200, headers={}, text="", json=INFO)], Context()))
    facts = replay.facts(found)
    assert facts["engine.build"] == INFO["sha"]
    assert "engine.version" not in facts
    assert ("engine", "version") in [each.path for each in found if isinstance(each, Unobserved)]
    assert TGI.detect([Answer(probe=TGI.probes[0], status=200, headers={}, text="", json=INFO)])


def test_a_command_says_again_what_it_was_made_from() -> None:
    args = (
        "--model-id",
        "org/m",
        "--num-shard",
        "2",
        "--quantize",
        "fp8",
        "--max-total-tokens",
        "4096",
        "--cuda-graphs",
        "1,2,4",
    )
    facts = {each.fact.path: each.value for each in given(*args).readings}
    made = TGI.command({**facts, ("checkpoint", "repo"): "org/m"}, Context())
    again = given(*made.argv[1:], env=dict(made.env))
    assert {each.fact.path: each.value for each in again.readings} == facts
