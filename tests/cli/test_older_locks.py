"""A lock without an edition is judged by the rules that it was made with; what newer ones find is reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checkpoint.tensors import checkpoint
from tests.cli.conftest import Call


def _older(folder: Path) -> None:
    """The lock as a release without editions wrote it: no such lines, and no policy of checks that it did not know."""
    text = (folder / "llm.lock").read_text()
    text = re.sub(r"(?m)^(edition|spec|facts) = .*\n", "", text)
    new = "files_locked|output_head_there|newer_rules|kv_scales_there|tied_embeddings_agree|one_projector"
    (folder / "llm.lock").write_text(re.sub(rf'(?m)^"check\.({new})" = .*\n', "", text))


PLAIN = {"model.embed_tokens.weight": ("BF16", [64, 64]), "model.layers.0.mlp.up_proj.weight": ("BF16", [64, 64])}
ODD = {
    "no output head": {"tie_word_embeddings": False},
    "two levels": {"tie_word_embeddings": True, "text_config": {"tie_word_embeddings": False}},
    "declared over plain weights": {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
}


@pytest.mark.parametrize("odd", ODD)
def test_a_finding_of_a_newer_rule_is_reported_and_fails_no_older_lock(odd: str, folder: Path, call: Call) -> None:
    (folder / "model" / "generation_config.json").unlink()
    checkpoint(folder / "model", ODD[odd], PLAIN)
    assert call("lock").code == 0
    newer = call("verify", "--stage", "preflight")
    _older(folder)
    older = call("verify", "--stage", "preflight", "--format", "json")
    assert newer.code == (1 if odd == "declared over plain weights" else 0)
    assert older.code == 0
    assert [each["check"] for each in older.json["checks"] if each["status"] == "fail" and "dtype" not in each["check"]]


def test_files_that_an_older_rule_left_out_are_named_and_fail_no_older_lock(folder: Path, call: Call) -> None:
    assert call("lock").code == 0
    _older(folder)
    (folder / "model" / "optimizer_model.py").write_text("x = 1\n")
    done = call("verify", "--stage", "preflight")
    assert (done.code, "optimizer_model.py" in done.out) == (0, True)
