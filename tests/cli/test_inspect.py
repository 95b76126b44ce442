"""`lockllm inspect`: one thing looked at by itself, for people and as JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.cli import run
from tests.cli.conftest import Call

CONFIGS = Path(__file__).parent.parent / "checkpoint" / "data" / "configs"


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["inspect", *arguments, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["inspect", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err


def test_a_checkpoint_is_shown_with_its_template_and_probes(capsys: pytest.CaptureFixture[str], tiny: Path) -> None:
    found = inspected(capsys, str(tiny))
    facts = found["facts"]
    assert facts["checkpoint.dtype"] == "bfloat16"
    assert facts["chat_template.sha256"] == hashlib.sha256((tiny / "chat_template.jinja").read_bytes()).hexdigest()
    assert facts["chat_template.source"] == "chat_template.jinja"
    assert "prompt_probes.user.text" in facts
    assert {check["status"] for check in found["checks"]} == {"pass"}


def test_a_gguf_is_shown_with_the_template_inside_it(capsys: pytest.CaptureFixture[str], tiny_gguf: Path) -> None:
    facts = inspected(capsys, str(tiny_gguf))["facts"]
    assert facts["checkpoint.format"] == "gguf"
    assert facts["chat_template.sha256"]
    assert facts["tokenizer.bos_token_id"] == 1


def test_an_adapter_is_shown_with_its_base(capsys: pytest.CaptureFixture[str]) -> None:
    found = inspected(capsys, str(CONFIGS / "peft-lora-adapter"))
    assert found["facts"]["adapter.base_model"] == "meta-llama/Llama-3.1-8B-Instruct"
    failed = {check["check"]: check["detail"] for check in found["checks"] if check["status"] == "fail"}
    assert set(failed) == {"check.adapter_base_pinned"}


def test_text_fits_80_columns_and_names_findings_first(capsys: pytest.CaptureFixture[str], tiny: Path) -> None:
    (tiny / "model.safetensors").unlink()
    assert run(["inspect", str(tiny)]) == 0
    out = capsys.readouterr().out
    assert out.index("check.files_complete") < out.index("[checkpoint]")
    assert max(len(line) for line in out.splitlines()) <= 80 + len(str(tiny))


def test_include_and_exclude_replace_the_rule(capsys: pytest.CaptureFixture[str], tiny: Path) -> None:
    facts = inspected(capsys, str(tiny), "--include", "*.json", "--exclude", "tokenizer*")["facts"]
    files = [key for key in facts if key.startswith("checkpoint.files.")]
    assert files == [
        f'checkpoint.files."{name}.json"' for name in ("config", "generation_config", "special_tokens_map")
    ]


def test_a_quick_look_reads_no_weights(capsys: pytest.CaptureFixture[str], tiny: Path) -> None:
    facts = inspected(capsys, str(tiny), "--quick")["facts"]
    assert facts['checkpoint.files."model.safetensors"'] == {"size": (tiny / "model.safetensors").stat().st_size}


def test_a_command_after_dashes_is_read_and_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "inspect",
        "--format",
        "json",
        "--engine-version",
        "0.10.2",
        "--",
        "vllm",
        "serve",
        "org/model",
        "-tp",
        "2",
    ]
    assert run(command) == 0
    facts = json.loads(capsys.readouterr().out)["facts"]
    assert (facts["engine.name"], facts["serve.tensor_parallel_size"]) == ("vllm", 2)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], "lockllm: inspect needs one of PATH, a command after --, and --log\n"),
        (["model", "--", "vllm"], "lockllm: inspect needs one of PATH, a command after --, and --log\n"),
        (["--"], "lockllm: there is no command after --\n"),
        (["/nowhere"], "lockllm: no checkpoint at /nowhere: no such file or directory\n"),
        (["--log", "/nowhere"], "lockllm: a start log requires the engine's name\n  in    --engine\n"),
        (["--log", "/nowhere", "--engine", "vllm"], "lockllm: the log cannot be read: no such file or directory\n"),
        (
            ["model", "--engine", "vlm"],
            "lockllm: there is no engine 'vlm'\n  in    --engine\n  fix   did you mean vllm?\n",
        ),
    ],
)
def test_what_cannot_be_looked_at_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], want: str
) -> None:
    assert refused(capsys, *arguments).startswith(want)


@pytest.mark.parametrize(
    "argv",
    [
        ("vllm", "serve", "models/m"),
        ("python3", "-m", "sglang.launch_server", "--model-path", "models/m"),
        ("transformers", "serve", "models/m"),
        ("text-generation-launcher", "--model-id", "models/m"),
        ("lmdeploy", "serve", "api_server", "models/m"),
        ("trtllm-serve", "models/m"),
        ("llama-server", "-m", "models/m"),
    ],
    ids=lambda value: value[0],
)
def test_a_folder_of_this_host_is_a_path_and_no_repository(call: Call, tmp_path: Path, argv: tuple[str, ...]) -> None:
    shown = call("inspect", "--format", "json", "--", *argv).json["facts"]
    assert "checkpoint.path" not in shown
    (tmp_path / "models" / "m").mkdir(parents=True)
    shown = call("inspect", "--format", "json", "--", *argv).json["facts"]
    assert shown["checkpoint.path"] == "models/m"
    assert "checkpoint.repo" not in shown


def test_a_gate_can_be_built_on_findings(capsys: pytest.CaptureFixture[str], tiny: Path) -> None:
    for words in ([], ["--format", "json"]):
        assert run(["inspect", str(tiny), "--exit-code", *words]) == 0
    (tiny / "chat_template.jinja").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n")
    for words in ([], ["--format", "json"]):
        assert run(["inspect", str(tiny), *words]) == 0
        assert run(["inspect", str(tiny), "--exit-code", *words]) == 1
    capsys.readouterr()
