"""What small files and GGUF keys declare beyond the configuration: processors, adapters, tokenizers, projectors, stop ids."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from lockllm.checkpoint import look
from lockllm.facts.registry import dump
from tests.checkpoint.tensors import checkpoint, write

PLAIN: Any = {"model.embed_tokens.weight": ("BF16", [64, 64]), "lm_head.weight": ("BF16", [64, 64])}


def gguf(path: Path, **metadata: Any) -> Path:
    """A GGUF without tensors. Keys have `__` for a dot."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def typed(value: Any) -> bytes:
        if isinstance(value, bool):
            return struct.pack("<IB", 7, value)
        if isinstance(value, int):
            return struct.pack("<II", 4, value)
        return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<I", 8) + text(value)

    pairs = b"".join(text(key.replace("__", ".")) + typed(value) for key, value in metadata.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)) + pairs)
    return path


def _told(path: Path, **options: Any) -> dict[str, Any]:
    return {each.fact.key: dump(each.fact, each.value) for each in look(str(path), **options).readings}


def _checks(path: Path, **options: Any) -> dict[str, tuple[str, str]]:
    return {each.name: (each.status.value, each.detail) for each in look(str(path), **options).checks}


@pytest.mark.parametrize(
    ("file", "config", "key", "values"),
    [
        ("preprocessor_config.json", {}, "max_pixels", (1003520, 12845056)),
        ("preprocessor_config.json", {}, "size", ({"longest_edge": 1}, {"longest_edge": 2})),
        ("preprocessor_config.json", {}, "max_image_tiles", (4, 16)),
        ("preprocessor_config.json", {}, "image_processor_type", ("A", "AFast")),
        ("preprocessor_config.json", {}, "do_resize", (True, False)),
        ("video_preprocessor_config.json", {}, "max_frames", (8, 768)),
        ("video_preprocessor_config.json", {}, "fps", (1, 2.5)),
        ("processor_config.json", {}, "image_seq_length", (256, 1024)),
        ("processor_config.json", {"image_processor": {"max_pixels": 1}}, "num_image_tokens", (256, 1024)),
    ],
)
def test_a_limit_of_a_processor_is_a_fact_that_says_what_it_moves(
    file: str, config: dict[str, Any], key: str, values: tuple[Any, Any], tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path, {}, PLAIN)
    name = f"checkpoint.processor.{'video.' if file.startswith('video') else ''}{key}"
    for value in values:
        (folder / file).write_text(json.dumps({**config, key: value}))
        assert _told(folder)[name] == value
    found = next(each.fact for each in look(str(folder)).readings if each.fact.key == name)
    assert found.effect == "images, video or sound become other tokens"
    if config:
        assert _told(folder)["checkpoint.processor.image_processor.max_pixels"] == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rank_pattern", {"q_proj": 64}), ("alpha_pattern", {"q_proj": 8}), ("modules_to_save", ["embed_tokens", "lm_head"]),
        ("lora_bias", True), ("target_parameters", ["mlp.experts.up"]), ("layers_to_transform", [0, 1]), ("exclude_modules", ["k"]),
        ("trainable_token_indices", [2, 1]), ("use_rslora", True), ("use_dora", True), ("fan_in_fan_out", True),
    ],
)  # fmt: skip
def test_what_moves_an_adapter_is_a_fact(key: str, value: Any, tmp_path: Path) -> None:
    plain = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": "a/b"}
    write(tmp_path / "adapter_model.safetensors", {"base_model.model.k.lora_A.weight": ("BF16", [4, 64])})
    (tmp_path / "adapter_config.json").write_text(json.dumps({**plain, key: value}))
    assert _told(tmp_path)[f"adapter.{key}"] == value
    (tmp_path / "adapter_config.json").write_text(json.dumps(plain))
    assert f"adapter.{key}" not in _told(tmp_path)


@pytest.mark.parametrize(
    ("config", "four", "five"),
    [
        ({"tokenizer_class": "TokenizersBackend"}, "fail", "pass"), ({"tokenizer_class": "SentencePieceBackend"}, "fail", "pass"),
        ({"extra_special_tokens": ["<a>"]}, "fail", "pass"), ({"extra_special_tokens": []}, "fail", "pass"),
        ({"extra_special_tokens": {"image_token": "<a>"}}, "none", "none"), ({"tokenizer_class": "Qwen2Tokenizer"}, "none", "none"),
        ({}, "none", "none"),
    ],
)  # fmt: skip
def test_a_tokenizer_of_a_newer_transformers_is_a_finding(
    config: dict[str, Any], four: str, five: str, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path, {}, PLAIN)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    found = [
        _checks(folder, transformers_major=major).get("check.tokenizer_understood", ("none", ""))[0] for major in (4, 5)
    ]
    assert found == [four, five]


def test_an_edited_tiktoken_model_moves_the_tokenizer(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {}, PLAIN)
    digests = []
    for text in ("one", "two"):
        (folder / "tiktoken.model").write_text(text)
        digests.append(_told(folder)["tokenizer.content_sha256"])
    assert digests[0] != digests[1]
    assert "tokenizer.content_sha256" not in _told(folder, edition=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama__rope__scaling__yarn_log_multiplier", 0.1), ("llama__rope__scaling__attn_factor", 1.5), ("llama__logit_scale", 0.0625),
        ("llama__expert_used_count", 4), ("llama__attention__causal", False),
    ],
)  # fmt: skip
def test_a_setting_of_the_architecture_in_a_gguf_is_a_fact(key: str, value: Any, tmp_path: Path) -> None:
    base: dict[str, Any] = {
        "general__architecture": "llama",
        "llama__context_length": 64,
        "llama__rope__freq_base": 1e4,
    }
    name = f'checkpoint.gguf."{key.replace("__", ".")}"'
    assert _told(gguf(tmp_path / "m.gguf", **base, **{key: value}))[name] == pytest.approx(value)
    told = _told(gguf(tmp_path / "m.gguf", **base))
    assert [each for each in told if each.startswith("checkpoint.gguf")] == []


@pytest.mark.parametrize(
    ("own", "config", "generation", "status"),
    [
        (106, {"eos_token_id": 1}, {"eos_token_id": [1, 106]}, "fail"), (1, {"eos_token_id": 1}, {"eos_token_id": [1, 106]}, "pass"),
        (106, {"eos_token_id": [1, 106]}, None, "pass"), (106, {"text_config": {"eos_token_id": 1}}, None, "fail"),
        (106, {}, {"eos_token_id": 1}, "fail"), (106, {}, None, "none"),
    ],
)  # fmt: skip
def test_the_files_beside_a_gguf_stop_where_it_does(
    own: int, config: dict[str, Any], generation: dict[str, Any] | None, status: str, tmp_path: Path
) -> None:
    gguf(tmp_path / "m.gguf", general__architecture="llama", tokenizer__ggml__eos_token_id=own)
    (tmp_path / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert _checks(tmp_path).get("check.stop_tokens_agree", ("none", ""))[0] == status
    assert "check.stop_tokens_agree" not in _checks(tmp_path, engine="llama.cpp")


@pytest.mark.parametrize(("width", "status"), [(64, "pass"), (5120, "fail"), (32, "fail"), (0, "none")])
def test_a_projector_is_as_wide_as_the_model_beside_it(width: int, status: str, tmp_path: Path) -> None:
    gguf(tmp_path / "m.gguf", general__architecture="llama", llama__embedding_length=64)
    gguf(
        tmp_path / "mmproj-m.gguf",
        general__architecture="clip",
        general__type="mmproj",
        clip__vision__projection_dim=width,
    )
    checks = _checks(tmp_path)
    assert checks.get("check.projector_fits", ("none", ""))[0] == status
    assert "check.one_projector" not in checks


def test_of_two_projectors_nobody_knows_which_is_meant(tmp_path: Path) -> None:
    gguf(tmp_path / "m.gguf", general__architecture="llama", llama__embedding_length=64)
    projector = gguf(tmp_path / "mmproj-a.gguf", general__architecture="clip", general__type="mmproj")
    shutil.copy(projector, tmp_path / "mmproj-b.gguf")
    assert _checks(tmp_path)["check.one_projector"] == ("fail", "2 projectors lie here: mmproj-a.gguf, mmproj-b.gguf")


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"position_embedding_type": "nope", "rope_theta": 10000}, {"rope_type": "none"}),
        ({"model_type": "nemotron_h", "rope_theta": 10000}, {"rope_type": "none"}),
        ({"position_embedding_type": "rope", "rope_theta": 10000}, {"rope_type": "default"}),
        ({"text_config": {"attention_chunk_size": 8192}}, {"attention_chunk_size": 8192}),
        ({"partial_rotary_factor": 0.75}, {"partial_rotary_factor": 0.75}),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, {"partial_rotary_factor": 0.5}),
        ({"compress_rope_theta": 40000}, {"compress_rope_theta": 40000}),
    ],
)
def test_what_decides_how_far_positions_reach_is_a_fact(
    config: dict[str, Any], want: dict[str, Any], tmp_path: Path
) -> None:
    told = _told(checkpoint(tmp_path, config, PLAIN))
    assert {key: told[f"checkpoint.{key}"] for key in want} == want
    older = _told(tmp_path, edition=1)
    assert [key for key in want if key != "rope_type" and f"checkpoint.{key}" in older] == []
    assert older["checkpoint.rope_type"] in ("default", None)
