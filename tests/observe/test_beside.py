"""What stands beside the checkpoint - an adapter, a tokenizer, a template by flag - is held against itself, too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lockllm.facts.fact import Stage
from lockllm.facts.observation import Check
from lockllm.observe import Request, observe
from tests.checkpoint.tensors import write

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4096\n"


def _checks(folder: Path, *options: str, edition: int = 2) -> dict[str, Check]:
    request = Request(
        stage=Stage.PREFLIGHT, command=("vllm", "serve", "model", *options), environ={"HOME": str(folder)}, cwd=str(folder),
        gpu="none", cache="off", engine="vllm", engine_version="0.33.0", edition=edition,
    )  # fmt: skip
    return {check.name: check for check in observe(request).checks}


def _adapter(folder: Path, rank: int) -> None:
    folder.mkdir(exist_ok=True)
    config = {"peft_type": "LORA", "r": 16, "lora_alpha": 16, "base_model_name_or_path": "a/b", "revision": "main"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    write(folder / "adapter_model.safetensors", {"base_model.model.q_proj.lora_A.weight": ("BF16", [rank, 64])})


@pytest.mark.parametrize(("rank", "edition", "fails"), [(64, 2, True), (16, 2, False), (64, 1, False)])
def test_an_adapter_of_another_rank_is_a_finding_of_the_command(
    rank: int, edition: int, fails: bool, tiny: Path
) -> None:
    _adapter(tiny.parent / "lora", rank)
    checks = _checks(tiny.parent, "--enable-lora", "--lora-modules", "a=lora", edition=edition)
    assert ("check.adapter_rank" in checks) == fails
    if fails:
        assert "lora: base_model.model.q_proj.lora_A.weight is of rank 64" in checks["check.adapter_rank"].detail


def test_a_pointer_in_a_tokenizer_s_folder_is_a_finding_of_the_command(tiny: Path) -> None:
    other = tiny.parent / "tokenizer"
    other.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tiny / name, other / name)
    options = ("--tokenizer", "tokenizer")
    assert _checks(tiny.parent, *options)["check.no_pointer_files"].status.value == "pass"
    (other / "tokenizer.json").write_text(POINTER)
    found = _checks(tiny.parent, *options)["check.no_pointer_files"]
    assert (found.status.value, "tokenizer.json is a Git LFS pointer" in found.detail) == ("fail", True)


@pytest.mark.parametrize("text", [POINTER, "", "<!doctype html>", "Entry not found"])
def test_a_template_by_flag_that_is_none_is_a_finding(text: str, tiny: Path) -> None:
    (tiny.parent / "t.jinja").write_text(text)
    found = _checks(tiny.parent, "--chat-template", "t.jinja")["check.template_renders"]
    assert (found.status.value, "prints the same text for every conversation" in found.detail) == ("fail", True)
