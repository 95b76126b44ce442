"""LMDeploy: command line, start log, and the rules that moved at 0.15."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Context, Form, Given, load
from lockllm.facts.observation import CheckStatus, Unobserved
from tests.engines import replay

HERE = Path(__file__).parent
LMDEPLOY = load("lmdeploy")
ROWS = replay.rows(HERE)


def given(*args: str) -> Given:
    form = Form(engine="lmdeploy", args=args, program=("lmdeploy", "serve", "api_server"))
    return LMDEPLOY.given(form, {}, {}, "0.18.0", False)


def told(*args: str, version: str = "0.18.0", **facts: Any) -> dict[str, Any]:
    return replay.facts(LMDEPLOY.effective(given(*args), Context(version=version, **facts)))


@pytest.mark.parametrize("row", [row for row in ROWS if row.get("run_as")], ids=lambda row: row["id"])
def test_a_real_command_gives_what_it_says(row: dict[str, Any]) -> None:
    assert replay.wrong(row) == []


@pytest.mark.parametrize("log", replay.logs(HERE), ids=lambda log: log.stem)
def test_a_start_log_reads_as_it_is(log: Path) -> None:
    assert replay.misread(log, "lmdeploy") == []


@pytest.mark.parametrize(
    ("policy", "dtype"), [("4", "int4"), ("8", "int8"), ("16", "fp8_e4m3"), ("17", "fp8_e5m2"), ("fp8", "fp8_e4m3")]
)
def test_the_quant_policy_is_the_caches_dtype(policy: str, dtype: str) -> None:
    assert replay.facts(given("m", "--quant-policy", policy).readings)["serve.kv_cache_dtype"] == dtype


def test_policy_0_is_the_models_dtype() -> None:
    checkpoint = {("checkpoint", "dtype"): "float16"}
    assert told("m", "--quant-policy", "0", checkpoint=checkpoint)["serve.kv_cache_dtype"] == "float16"


@pytest.mark.parametrize(
    ("declared", "capability", "expected"),
    [
        ("float32", "9.0", "float16"),
        ("float16", "9.0", "float16"),
        ("bfloat16", "9.0", "bfloat16"),
        ("bfloat16", "7.5", "float16"),
        ("bfloat16", None, None),
    ],
)
def test_auto_dtype_follows_checkpoint_and_gpu(declared: str, capability: str | None, expected: str | None) -> None:
    host = {("host", "compute_capability"): capability} if capability else {}
    assert told("m", checkpoint={("checkpoint", "dtype"): declared}, host=host).get("serve.dtype") == expected


@pytest.mark.parametrize(
    ("product", "expected"), [("NVIDIA A100-SXM4-80GB", 384), ("NVIDIA H100 80GB HBM3", 1024), ("NVIDIA L4", 128)]
)
def test_the_batch_follows_the_gpus_name(product: str, expected: int) -> None:
    assert told("m", host={("host", "gpu_product"): product})["serve.max_num_seqs"] == expected


GENERATION = {("checkpoint", "dtype"): "float16", ("checkpoint", "generation_config", "temperature"): 0.3}


@pytest.mark.parametrize(
    ("args", "version", "temperature", "top_k"),
    [
        ((), "0.14.0", 0.7, 40),
        ((), "0.15.0", 0.3, 50),
        (("--generation-config", "lmdeploy"), "0.18.0", 0.8, 50),
        (("--generation-config", "org/other"), "0.18.0", None, None),
    ],
)
def test_sampling_moved_at_0_15(args: tuple[str, ...], version: str, temperature: Any, top_k: Any) -> None:
    found = told("m", *args, version=version, checkpoint=GENERATION)
    assert (found.get("sampling.temperature"), found.get("sampling.top_k")) == (temperature, top_k)


def test_turbomind_is_a_wish_and_pytorch_is_final() -> None:
    assert told("m", "--backend", "pytorch")["engine.backend"] == "pytorch"
    assert "engine.backend" not in told("m", "--backend", "turbomind")
    wish = list(LMDEPLOY.checks(given("m", "--backend", "turbomind"), Context(version="0.18.0")))
    assert [check.status for check in wish] == [CheckStatus.UNKNOWN]
    fp8 = list(LMDEPLOY.checks(given("m", "--backend", "turbomind", "--quant-policy", "16"), Context(version="0.18.0")))
    assert [check.status for check in fp8] == [CheckStatus.FAIL]


def test_keys_are_secret() -> None:
    found = given("m", "--api-keys", "sk-1", "sk-2", "--tp", "2")
    assert found.secrets == ("sk-1", "sk-2")
    assert "sk-" not in repr((found.readings, found.checks, found.operational))


@pytest.mark.parametrize("version", ["0.19.0", "0.5.0", None])
def test_a_release_whose_rules_were_not_read_is_left_open(version: str | None) -> None:
    found = list(LMDEPLOY.effective(given("m"), Context(version=version)))
    assert all(isinstance(each, Unobserved) for each in found)


def test_a_command_says_again_what_it_was_made_from() -> None:
    args = (
        "org/m",
        "--tp",
        "2",
        "--session-len",
        "4096",
        "--quant-policy",
        "8",
        "--backend",
        "pytorch",
        "--eager-mode",
    )
    facts = {each.fact.path: each.value for each in given(*args).readings}
    made = LMDEPLOY.command({**facts, ("checkpoint", "repo"): "org/m"}, Context())
    assert {each.fact.path: each.value for each in given(*made.argv[3:]).readings} == facts
