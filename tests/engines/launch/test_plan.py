"""A command line is read with its variables, its directory and the config files that it names."""

from __future__ import annotations

from pathlib import Path

from lockllm.facts.observation import By
from lockllm.observe.server.command_line import plan
from tests.engines.replay import facts


def test_a_config_file_is_read_where_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.yaml").write_text("model-path: org/m\ntensor-parallel-size: 2\n")
    argv = ["env", "-C", "sub", "sglang", "serve", "--config", "c.yaml"]
    found = plan(argv, {}, str(tmp_path))
    assert facts(found.readings)["serve.tensor_parallel_size"] == 2
    assert found.given is not None
    assert found.given.model is not None
    assert found.given.model.text == "org/m"


def test_a_config_file_that_is_not_there_leaves_a_word(tmp_path: Path) -> None:
    found = plan(["sglang", "serve", "--config", "gone.yaml"], {}, str(tmp_path))
    assert any("gone.yaml is not read" in text for text in found.warnings)


def test_a_config_file_in_a_container_is_found_through_its_mount(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("tp-size: 4\n")
    argv = ["docker", "run", "-v", f"{tmp_path}:/etc/sg:ro", "lmsysorg/sglang:v0.5.10", "sglang", "serve", "org/m"]
    found = plan([*argv, "--config", "/etc/sg/c.yaml"], {}, "/")
    told = facts(found.readings)
    assert told["serve.tensor_parallel_size"] == 4
    assert told["engine.image"] == "lmsysorg/sglang:v0.5.10"
    assert told["checkpoint.repo"] == "org/m"


def test_variables_of_an_env_file_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "vars").write_text("# comment\nQUANTIZE=awq\nNUM_SHARD=2\n")
    image = "ghcr.io/huggingface/text-generation-inference:3.3.5"
    argv = ["docker", "run", "--env-file", "vars", "-e", "NUM_SHARD=4", image, "--model-id", "org/m"]
    told = facts(plan(argv, {}, str(tmp_path)).readings)
    assert (told["serve.quantization"], told["serve.tensor_parallel_size"]) == ("awq", 4)


def test_a_folder_of_that_name_is_no_repository(tmp_path: Path) -> None:
    argv = ["sglang", "serve", "--model-path", "org/m"]
    assert "checkpoint.repo" in facts(plan(argv, {}, str(tmp_path)).readings)
    (tmp_path / "org" / "m").mkdir(parents=True)
    assert "checkpoint.repo" not in facts(plan(argv, {}, str(tmp_path)).readings)


def test_a_snapshot_path_tells_repository_and_commit() -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    path = f"/hub/models--Qwen--Qwen3-8B/snapshots/{commit}"
    told = facts(plan(["sglang", "serve", "--model-path", path], {}, "/").readings)
    assert (told["checkpoint.repo"], told["checkpoint.commit"]) == ("Qwen/Qwen3-8B", commit)


def test_a_running_process_is_a_better_witness_than_a_plan() -> None:
    argv = ["sglang", "serve", "org/m", "--tp", "2"]
    planned = plan(argv, {}, "/").given
    running = plan(argv, {}, "/", live=True).given
    assert planned is not None
    assert running is not None
    assert {reading.by for reading in planned.readings} == {By.PLAN}
    assert {reading.by for reading in running.readings} == {By.PROCESS}


def test_a_host_is_named_and_nothing_claimed_behind_it() -> None:
    found = plan(["docker", "run", "-e", "NIM_MAX_MODEL_LEN=8192", "nvcr.io/nim/x/y:2.0"], {}, "/")
    assert found.given is None
    assert facts(found.readings) == {"engine.wrapper": "nim", "engine.image": "nvcr.io/nim/x/y:2.0"}
