"""Programs that host an engine: what of their own words and files reaches vLLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockllm.facts.observation import CheckStatus, Reading
from lockllm.facts.registry import dump
from lockllm.observe.server.command_line import Plan, plan


def values(found: Plan) -> dict[str, Any]:
    return {each.fact.key: dump(each.fact, each.value) for each in found.readings if isinstance(each, Reading)}


KSERVE = ["python", "-m", "huggingfaceserver"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--backend", "vllm", "--max_model_len", "8192"], {"serve.max_model_len": 8192}),
        (["--backend=vllm", "--max-model-len=8192"], {"serve.max_model_len": 8192}),
        (["--backend=vllm", "--max_length", "4096"], {"serve.max_model_len": 4096}),
        (["--backend=vllm", "--tensor-parallel-size=2", "--enforce-eager"],
         {"serve.tensor_parallel_size": 2, "serve.enforce_eager": True}),
        (["--backend=vllm", "--model_name", "m", "--task", "text_generation", "--dtype", "float16", "--http_port=8081"],
         {"serve.dtype": "float16"}),
        (["--backend=vllm", "--disable_lower_case", "--kv-cache-dtype", "fp8"], {"serve.kv_cache_dtype": "fp8"}),
    ],
)  # fmt: skip
def test_kserve_hands_its_options_to_vllm(words: list[str], expected: dict[str, Any]) -> None:
    found = plan([*KSERVE, "--model_id", "org/m", *words], {}, "/", "0.10.2")
    told = values(found)
    assert told.items() >= {"engine.name": "vllm", "engine.wrapper": "kserve", "checkpoint.repo": "org/m"}.items()
    assert told.items() >= expected.items()
    assert not [key for key in told if "backend" in key or "model_name" in key or "task" in key or "port" in key]


def test_the_folder_of_kserve_is_the_model_where_no_repository_is_named() -> None:
    found = plan([*KSERVE, "--backend=vllm"], {}, "/", "0.10.2")
    assert found.given is not None
    assert found.given.model is not None
    assert found.given.model.text == "/mnt/models"


@pytest.mark.parametrize(
    ("words", "told"), [([], True), (["--backend", "auto"], True), (["--backend=huggingface"], False)]
)
def test_a_backend_that_kserve_chooses_is_not_guessed(words: list[str], told: bool) -> None:
    found = plan([*KSERVE, "--model_id=org/m", *words], {}, "/", "0.10.2")
    assert found.given is None
    assert values(found) == {"engine.wrapper": "kserve"}
    assert any("--backend=vllm" in each for each in found.warnings) is told


SERVE = """
applications:
- name: llm
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: my-qwen, model_source: Qwen/Qwen2.5-7B-Instruct}
      accelerator_type: A10G
      engine_kwargs:
        tensor_parallel_size: 2
        max_model_len: 8192
        enable_prefix_caching: false
        enforce_eager: true
        kv_cache_dtype: fp8
        hf_overrides: {rope_theta: 1000000}
        quantization: null
"""


@pytest.mark.parametrize("verb", ["run", "deploy"])
def test_ray_serve_starts_the_model_of_its_file(verb: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(SERVE)
    found = plan(["serve", verb, "config.yaml"], {}, str(tmp_path), "0.10.2")
    told = values(found)
    assert told.items() >= {
        "engine.name": "vllm", "engine.wrapper": "ray-serve", "checkpoint.repo": "Qwen/Qwen2.5-7B-Instruct",
        "serve.tensor_parallel_size": 2, "serve.max_model_len": 8192, "serve.enable_prefix_caching": False,
        "serve.enforce_eager": True, "serve.kv_cache_dtype": "fp8",
    }.items()  # fmt: skip
    assert all(check.status is CheckStatus.PASS for check in found.checks)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("applications: []", "no application"),
        ("applications:\n- import_path: app:main\n", "no application"),
        ("[", "no YAML"),
        ("applications: [{args: {llm_configs: [a.yaml]}}]", "another file, a.yaml"),
        ("applications: [{args: {llm_configs: [{}, {}]}}]", "2 models"),
        ("applications: [{args: {llm_configs: [{engine_kwargs: {}}]}}]", "names no model"),
        (
            "applications: [{args: {llm_configs: [{llm_engine: SGLang, model_loading_config: {model_id: m}}]}}]",
            "SGLang",
        ),
    ],
)
def test_what_of_a_serve_file_cannot_be_read_is_told(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    found = plan(["serve", "run", "config.yaml"], {}, str(tmp_path), "0.10.2")
    assert found.given is None
    assert values(found) == {"engine.wrapper": "ray-serve"}
    assert any(reason in each for each in found.warnings), found.warnings


def test_a_serve_file_that_is_not_there_is_told_and_an_import_path_is_none(tmp_path: Path) -> None:
    found = plan(["serve", "run", "config.yaml"], {}, str(tmp_path))
    assert any("config.yaml is not read" in each for each in found.warnings)
    assert plan(["serve", "run", "app:main"], {}, str(tmp_path)).given is None
