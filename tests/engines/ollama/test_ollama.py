"""Ollama: variables of the server, its runners, Modelfiles, endpoints, log, defaults by release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Answer, Context, load
from lockllm.engines.ollama import modelfile
from lockllm.facts.observation import By, CheckStatus, Unobserved
from lockllm.observe.server.command_line import plan
from tests.engines import replay

HERE = Path(__file__).parent
OLLAMA = load("ollama")
ROWS = replay.rows(HERE)


def told(version: str, env: dict[str, str] | None = None, **facts: Any) -> dict[str, Any]:
    given = plan(["ollama", "serve"], env or {}, "/").given
    return replay.facts(OLLAMA.effective(given, Context(version=version, **facts)))


@pytest.mark.parametrize("row", [row for row in ROWS if row.get("run_as")], ids=lambda row: row["id"])
def test_a_real_command_gives_what_it_says(row: dict[str, Any]) -> None:
    assert replay.wrong(row) == []


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "Modelfile" in (row.get("files") or {})], ids=lambda row: row["id"]
)
def test_a_modelfile_gives_what_it_says(row: dict[str, Any]) -> None:
    assert replay.wrong({**row, "run_as": row["argv"]}) == []


@pytest.mark.parametrize("log", replay.logs(HERE), ids=lambda log: log.stem)
def test_a_log_reads_as_it_is(log: Path) -> None:
    assert replay.misread(log, "ollama") == []


def test_a_variable_that_ollama_does_not_read_is_told_by_name_alone() -> None:
    found = plan(["ollama", "serve"], {"OLLAMA_NUM_THREAD": "4", "OLLAMA_HOST": "x"}, "/")
    assert [(check.name, check.status) for check in found.checks] == [("check.variables_known", CheckStatus.FAIL)]
    assert "OLLAMA_NUM_THREAD" in found.checks[0].detail


def test_quotes_and_blanks_around_a_value_are_trimmed() -> None:
    found = plan(["ollama", "serve"], {"OLLAMA_CONTEXT_LENGTH": ' "8192" ', "OLLAMA_KV_CACHE_TYPE": "'Q8_0'"}, "/")
    facts = replay.facts(found.readings)
    assert (facts["serve.max_model_len"], facts["serve.kv_cache_dtype"]) == (8192, "q8_0")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ["/usr/lib/ollama/llama-server", "--model", "/b/sha256-1", "-c", "32768", "-np", "2", "--cache-type-k", "q8_0",
             "--cache-type-v", "q8_0", "--flash-attn", "on", "-b", "512", "-ub", "256"],
            {"serve.max_model_len": 16384, "serve.max_num_seqs": 2, "serve.kv_cache_dtype": "q8_0", "serve.ubatch_size": 256},
        ),
        (
            ["/usr/bin/ollama", "runner", "--model", "/b/sha256-1", "--ctx-size", "8192", "--parallel", "4", "--kv-cache-type", "f16"],
            {"serve.max_model_len": 2048, "serve.max_num_seqs": 4, "serve.kv_cache_dtype": "float16"},
        ),
        (["ollama", "runner", "--ollama-engine", "--model", "/b/sha256-1", "--port", "1"], {}),
    ],
)  # fmt: skip
def test_a_runner_shows_what_the_server_resolved(argv: list[str], expected: dict[str, Any]) -> None:
    found = plan(argv, {}, "/", live=True).given
    assert found is not None
    assert found.engine == "ollama"
    facts = replay.facts(found.readings)
    assert {key: facts.get(key) for key in expected} == expected
    assert {each.by for each in found.readings if each.fact.group == "serve"} <= {By.WORKER}
    assert found.model is not None
    assert found.model.text == "/b/sha256-1"


@pytest.mark.parametrize(
    ("version", "host", "expected"),
    [
        ("0.6.0", {}, 2048),
        ("0.6.7", {}, 4096),
        ("0.15.0", {}, 4096),
        ("0.15.5", {("host", "gpu_memory"): "80 GiB"}, 262144),
        ("0.32.1", {("host", "gpu_memory"): "24 GiB"}, 32768),
        ("0.32.1", {("host", "gpu_memory"): "24 GiB", ("host", "gpu_count"): 2}, 262144),
        ("0.32.1", {("host", "gpu_memory"): "8 GiB"}, 4096),
        ("0.32.1", {}, None),
    ],
)
def test_the_context_moved_twice(version: str, host: Any, expected: int | None) -> None:
    assert told(version, host=host).get("serve.max_model_len") == expected


def test_the_models_own_context_is_the_most() -> None:
    checkpoint = {("checkpoint", "max_position_embeddings"): 2048}
    assert told("0.6.7", checkpoint=checkpoint)["serve.max_model_len"] == 2048


@pytest.mark.parametrize(("version", "expected"), [("0.32.9", 1.1), ("0.32.10", 1)])
def test_the_penalty_moved(version: str, expected: float) -> None:
    assert told(version)["sampling.repetition_penalty"] == expected


def test_the_openai_routes_send_their_own_temperature() -> None:
    found = told("0.32.1")
    assert (found["sampling.temperature"], found["sampling.top_p"]) == (1, 1)
    assert (found["sampling.native.temperature"], found["sampling.native.top_p"]) == (0.8, 0.9)


def test_slots_were_automatic_once() -> None:
    assert "serve.max_num_seqs" not in told("0.9.0")
    assert told("0.10.0")["serve.max_num_seqs"] == 1


def test_a_modelfile_holds_texts_of_several_lines() -> None:
    text = 'from x\nTEMPLATE """a\n{{ .Prompt }}\n"""\nSYSTEM "be\nbrief"\nPARAMETER stop "<|end|>"\nparameter stop x\n# no\n'
    found = modelfile.read(text)
    assert found.base == "x"
    assert found.template == "a\n{{ .Prompt }}\n"
    assert found.system == "be\nbrief"
    assert found.parameters == (("stop", "<|end|>"), ("stop", "x"))


@pytest.mark.parametrize("text", ["", "FROM", 'TEMPLATE """never closed', "PARAMETER", "PARAMETER x", "\x00\x01"])
def test_a_broken_modelfile_is_no_traceback(text: str) -> None:
    modelfile.read(text)


def test_a_parameter_that_is_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "Modelfile").write_text("FROM x\nPARAMETER mirostat 2\n")
    found = plan(["ollama", "create", "m"], {}, str(tmp_path), "0.32.1")
    assert "does not know the parameter mirostat" in found.checks[0].detail


def answers(**bodies: Any) -> list[Answer]:
    paths = {"/api/version": "version", "/api/ps": "ps", "/api/tags": "tags"}
    found = []
    for probe in OLLAMA.probes:
        if probe.path == "/":
            found.append(Answer(probe=probe, status=200, headers={}, text="Ollama is running"))
        elif paths[probe.path] in bodies:
            found.append(Answer(probe=probe, status=200, headers={}, text="", json=bodies[paths[probe.path]]))
    return found


def test_a_loaded_model_shows_its_context_and_manifest() -> None:
    model = {
        "name": "m:latest",
        "digest": "a" * 64,
        "context_length": 8192,
        "details": {"quantization_level": "Q4_K_M"},
    }
    asked = answers(version={"version": "0.33.0-rc2-0-gfb30760"}, ps={"models": [model]}, tags={"models": [model]})
    found = replay.facts(OLLAMA.from_http(asked, Context()))
    assert found["serve.max_model_len"] == 8192
    assert found["checkpoint.manifest_sha256"] == "a" * 64
    assert found["engine.build"] == "fb30760"
    assert OLLAMA.detect(asked)


def test_with_nothing_loaded_nothing_is_claimed() -> None:
    asked = answers(version={"version": "0.33.0"}, ps={"models": []}, tags={"models": []})
    found = list(OLLAMA.from_http(asked, Context()))
    assert [each.path for each in found if isinstance(each, Unobserved)] == [("serve",)]
    two = answers(version={"version": "0.33.0"}, ps={"models": [{"name": "a"}, {"name": "b"}]}, tags={"models": []})
    assert "several models" in next(e.reason for e in OLLAMA.from_http(two, Context()) if isinstance(e, Unobserved))


def test_a_build_without_a_version_has_none() -> None:
    asked = answers(version={"version": "0.0.0"}, ps={"models": []}, tags={"models": []})
    assert "engine.version" not in replay.facts(OLLAMA.from_http(asked, Context()))


def test_a_command_says_again_what_it_was_made_from() -> None:
    env = {
        "OLLAMA_CONTEXT_LENGTH": "8192",
        "OLLAMA_NUM_PARALLEL": "2",
        "OLLAMA_KV_CACHE_TYPE": "q8_0",
        "OLLAMA_FLASH_ATTENTION": "1",
    }
    given = plan(["ollama", "serve"], env, "/").given
    assert given is not None
    facts = {each.fact.path: each.value for each in given.readings}
    assert OLLAMA.command(facts, Context()).env == env


ONE, TWO = "1" * 64, "2" * 64
NAMES = [
    ("library/qwen3:8b", "qwen3:8b"),
    ("qwen3:8b", "registry.ollama.ai/library/qwen3:8b"),
    ("library/qwen3", "qwen3:latest"),
    ("org/m:Q4_K_M", "hf.co/org/m:Q4_K_M"),
    ("mine/m:v1", "mine/m:v1"),
    ("host.example:5000/a/m", "host.example:5000/a/m:latest"),
]


def shown(locked: str, ps: list[dict[str, Any]], tags: list[dict[str, Any]]) -> dict[str, Any]:
    asked = answers(version={"version": "0.33.0"}, ps={"models": ps}, tags={"models": tags})
    return replay.facts(OLLAMA.from_http(asked, Context(locked_model=locked)))


@pytest.mark.parametrize("locked, name", NAMES)
def test_the_locked_model_is_found_among_several(locked: str, name: str) -> None:
    rows = [{"name": "other:1", "digest": TWO}, {"name": name, "digest": ONE, "context_length": 64}]
    assert shown(locked, rows, [])["checkpoint.manifest_sha256"] == ONE
    assert shown(locked, rows, [])["serve.max_model_len"] == 64
    assert shown(locked, [], rows)["checkpoint.manifest_sha256"] == ONE
    assert "serve.max_model_len" not in shown(locked, [], rows)


@pytest.mark.parametrize("locked, name", NAMES)
def test_a_store_without_the_locked_model_says_so(locked: str, name: str) -> None:
    seen = shown(locked, [], [{"name": f"x{name}", "digest": TWO}, {"name": f"{name}x", "digest": TWO}])
    assert seen["checkpoint.manifest_sha256"] is None
    assert "checkpoint.manifest_sha256" not in shown("", [], [{"name": name, "digest": TWO}])
    assert "checkpoint.manifest_sha256" not in shown(locked, [], [{"name": name, "digest": "short"}])


def test_another_loaded_model_is_what_is_served() -> None:
    assert shown("qwen3:8b", [{"name": "other:1", "digest": TWO}], [])["checkpoint.manifest_sha256"] == TWO
