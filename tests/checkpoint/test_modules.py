"""Tensors against the declared quantization, module by module, in every dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.checkpoint import look
from tests.checkpoint.tensors import Tensors, checkpoint, write

Q, UP = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj"
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
FP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


def _compressed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"g": group}, "ignore": ["lm_head"], **more}


def _packed(name: str, *, width: int = 8) -> Tensors:
    return {
        f"{name}.weight_packed": ("I32", [64, width]),
        f"{name}.weight_scale": ("BF16", [64, 2]),
        f"{name}.weight_shape": ("I64", [2]),
    }


def _fp8(name: str, scale: str = "weight_scale_inv") -> Tensors:
    return {f"{name}.weight": ("F8_E4M3", [128, 128]), f"{name}.{scale}": ("F32", [1, 1])}


def _gptq(name: str, rows: int = 8) -> Tensors:
    return {f"{name}.qweight": ("I32", [rows, 64]), f"{name}.qzeros": ("I32", [1, 8]), f"{name}.scales": ("F16", [1, 64]),
            f"{name}.g_idx": ("I32", [64])}  # fmt: skip


def _awq(name: str, columns: int = 8) -> Tensors:
    return {
        f"{name}.qweight": ("I32", [64, columns]),
        f"{name}.qzeros": ("I32", [1, 8]),
        f"{name}.scales": ("F16", [1, 64]),
    }


def _mlx(name: str, width: int = 8) -> Tensors:
    return {
        f"{name}.weight": ("U32", [64, width]),
        f"{name}.scales": ("BF16", [64, 1]),
        f"{name}.biases": ("BF16", [64, 1]),
    }


def _nf4(name: str) -> Tensors:
    return {f"{name}.weight": ("U8", [2048, 1]), f"{name}.weight.absmax": ("U8", [64]), f"{name}.weight.quant_map": ("F32", [16]),
            f"{name}.weight.quant_state.bitsandbytes__nf4": ("U8", [98])}  # fmt: skip


def _int8(name: str) -> Tensors:
    return {f"{name}.weight": ("I8", [64, 64]), f"{name}.SCB": ("F32", [64])}


def _nvfp4(name: str) -> Tensors:
    return {
        f"{name}.weight": ("U8", [64, 32]),
        f"{name}.weight_scale": ("F8_E4M3", [64, 4]),
        f"{name}.weight_scale_2": ("F32", []),
    }


def _plain(name: str) -> Tensors:
    return {f"{name}.weight": ("BF16", [64, 64])}


DIALECTS: dict[str, tuple[dict[str, Any], Any]] = {
    "compressed-tensors": (_compressed(INT4, format="pack-quantized"), _packed),
    "compressed-tensors fp8": (_compressed(FP8, format="float-quantized"), lambda name: _fp8(name, "weight_scale")),
    "fp8": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, _fp8),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 64}, _gptq),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm"}, _awq),
    "auto-round": ({"quant_method": "auto-round", "bits": 4, "group_size": 64, "packing_format": "auto_round:auto_gptq"}, _gptq),
    "bitsandbytes 4": ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, _nf4),
    "bitsandbytes 8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, _int8),
    "modelopt": ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, _nvfp4),
    "quark": ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}, "exclude": ["lm_head"]},
              lambda name: _fp8(name, "weight_scale")),
    "mlx": ({"quant_method": "mlx", "bits": 4, "group_size": 64}, _mlx),
}  # fmt: skip
EVERYWHERE: Tensors = {
    "model.embed_tokens.weight": ("BF16", [64, 64]), "lm_head.weight": ("BF16", [64, 64]), "model.norm.weight": ("BF16", [64]),
    "model.layers.0.mlp.gate.weight": ("BF16", [8, 64]), "model.layers.0.input_layernorm.weight": ("BF16", [64]),
    "visual.blocks.0.attn.qkv.weight": ("BF16", [64, 64]), "model.layers.1.eh_proj.weight": ("BF16", [64, 64]),
}  # fmt: skip


_EXPERTS = "model.layers.0.mlp.experts"
EXPERT: Tensors = {
    f"{_EXPERTS}.0.up_proj.weight": ("I8", [64, 32]),
    f"{_EXPERTS}.0.up_proj.scale": ("F8_E8M0", [64, 2]),
}
BLOCKS: Tensors = {f"{_EXPERTS}.down_proj_blocks": ("U8", [2, 2, 2]), f"{_EXPERTS}.down_proj_scales": ("U8", [2, 2])}


def _checks(folder: Path, config: dict[str, Any], tensors: Tensors) -> dict[str, tuple[str, str]]:
    found = look(str(checkpoint(folder, config, tensors)))
    return {check.name: (check.status.value, check.detail) for check in found.checks}


def _agrees(folder: Path, config: dict[str, Any], tensors: Tensors) -> tuple[str, str]:
    checks = _checks(folder, config, {**EVERYWHERE, **tensors})
    return checks.get("check.quantization_agrees", ("none", ""))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_weights_that_are_stored_as_declared_agree(dialect: str, tmp_path: Path) -> None:
    config, stored = DIALECTS[dialect]
    status, detail = _agrees(tmp_path, {"quantization_config": config}, {**stored(Q), **stored(UP)})
    assert (status, detail) == ("pass", "declared in config.json: quantization_config")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_declaration_over_plain_weights_does_not_agree(dialect: str, tmp_path: Path) -> None:
    config, _ = DIALECTS[dialect]
    status, detail = _agrees(tmp_path, {"quantization_config": config}, {**_plain(Q), **_plain(UP)})
    assert (status, "and no tensor is quantized" in detail) == ("fail", True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_quantized_weights_that_no_file_declares_do_not_agree(dialect: str, tmp_path: Path) -> None:
    status, detail = _agrees(tmp_path, {}, DIALECTS[dialect][1](Q))
    assert (status, detail.startswith("no file declares a quantization, and model.layers.0.self_attn.q_proj.")) == (
        "fail",
        True,
    )


# Without scales, bytes and words are no quantized matrix for sure.
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if not name.startswith(("mlx", "bits", "modelopt"))])
def test_a_quantized_module_without_its_scales_does_not_agree(dialect: str, tmp_path: Path) -> None:
    config, stored = DIALECTS[dialect]
    lost = {
        name: each
        for name, each in stored(UP).items()
        if not any(part in name for part in ("scale", "absmax", "quant_state", "SCB"))
    }
    if dialect.startswith(
        ("mlx", "bits", "modelopt")
    ):  # without scales, bytes and words are no quantized matrix for sure
        pytest.skip("a matrix of whole numbers is known by its scales alone")
    status, detail = _agrees(tmp_path, {"quantization_config": config}, {**stored(Q), **lost})
    assert (status, detail) == ("fail", f"{UP}: quantized, and its scales are missing")


@pytest.mark.parametrize(
    ("dialect", "ignored"),
    [
        ("compressed-tensors", {"ignore": ["lm_head", f"re:.*{UP[-7:]}"]}), ("compressed-tensors", {"ignore": [UP]}),
        ("fp8", {"modules_to_not_convert": [UP]}), ("fp8", {"ignored_layers": [UP]}),
        ("gptq", {"dynamic": {"-:.*up_proj": {}}}), ("gptq", {"modules_in_block_to_quantize": [["self_attn.q_proj"]]}),
        ("awq", {"modules_to_not_convert": ["up_proj"]}), ("awq", {"modules_to_not_convert": ["mlp"]}),
        ("auto-round", {"extra_config": {UP: {"bits": 16}}}), ("auto-round", {"extra_config": {".*mlp.*": {"bits": 16}}}),
        ("bitsandbytes 4", {"llm_int8_skip_modules": ["mlp"]}), ("modelopt", {"ignore": ["lm_head", "*mlp*"]}),
        ("quark", {"exclude": [UP]}), ("mlx", {UP: False}),
    ],
)  # fmt: skip
def test_a_module_that_is_quantized_though_it_is_left_out_does_not_agree(
    dialect: str, ignored: dict[str, Any], tmp_path: Path
) -> None:
    config, stored = DIALECTS[dialect]
    status, detail = _agrees(tmp_path, {"quantization_config": {**config, **ignored}}, {**stored(Q), **stored(UP)})
    assert (status, detail) == ("fail", f"{UP}: quantized, though config.json: quantization_config leaves it out")
    plain = _agrees(tmp_path, {"quantization_config": {**config, **ignored}}, {**stored(Q), **_plain(UP)})
    assert plain[0] == "pass"


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "mlx"])
def test_a_linear_layer_that_is_plain_and_not_left_out_does_not_agree(dialect: str, tmp_path: Path) -> None:
    config, stored = DIALECTS[dialect]
    name = "model.layers.0.linear_attn.in_proj_qkvz"
    status, detail = _agrees(tmp_path, {"quantization_config": config}, {**stored(Q), **_plain(name)})
    assert (status, detail) == (
        "fail",
        f"{name}: not quantized, and config.json: quantization_config does not leave it out",
    )


@pytest.mark.parametrize(
    "ignore",
    [
        [UP], ["up_proj"], ["re:.*up_proj"], ["re:.*mlp.*"], ["re:layers.0.mlp"], ["*mlp*"], ["model.layers.0.mlp"],
        ["language_model.model.layers.0.mlp.up_proj"], ["model.layers.0.mlp.gate_up_proj"], ["re:(broken"], ["re:(a+)+b"],
    ],
)  # fmt: skip
def test_an_entry_that_may_mean_a_plain_module_is_taken_to_mean_it(ignore: list[str], tmp_path: Path) -> None:
    config = _compressed(INT4, format="pack-quantized", ignore=["lm_head", *ignore])
    assert _agrees(tmp_path, {"quantization_config": config}, {**_packed(Q), **_plain(UP)})[0] == "pass"


@pytest.mark.parametrize(
    ("dialect", "tensors"),
    [
        ("compressed-tensors", _packed(Q, width=16)), ("gptq", _gptq(Q, rows=16)), ("awq", _awq(Q, columns=16)),
        ("mlx", _mlx(Q, width=16)), ("bitsandbytes 4", _int8(Q)), ("bitsandbytes 8", _nf4(Q)), ("modelopt", _fp8(Q, "weight_scale")),
        ("auto-round", _gptq(Q, rows=16)),
    ],
)  # fmt: skip
def test_other_bits_than_declared_do_not_agree(dialect: str, tensors: Tensors, tmp_path: Path) -> None:
    config, stored = DIALECTS[dialect]
    status, detail = _agrees(tmp_path, {"quantization_config": config}, {**stored(UP), **tensors})
    assert (status, detail.startswith(f"{Q}: declared with ")) == ("fail", True)


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 64, "dynamic": {"+:.*q_proj": {"bits": 8}}}, {**_gptq(Q, 16), **_gptq(UP)}),
        ({"quant_method": "mlx", "bits": 4, "group_size": 64, Q: {"bits": 8, "group_size": 64}}, {**_mlx(Q, 16), **_mlx(UP)}),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 64, "extra_config": {Q: {"bits": 8}}}, {**_gptq(Q, 16), **_gptq(UP)}),
        ({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {
            "a": {"targets": ["re:.*attn.*"], "weights": FP8}, "b": {"targets": ["re:.*mlp.*"], "weights": INT4}}},
         {**_fp8(Q, "weight_scale"), **_packed(UP)}),
        ({"quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": "fp4"},
         {**_fp8(Q), **EXPERT}),
    ],
)  # fmt: skip
def test_each_module_is_held_against_its_own_group(config: dict[str, Any], tensors: Tensors, tmp_path: Path) -> None:
    assert _agrees(tmp_path, {"quantization_config": config}, tensors)[0] == "pass"


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        (_compressed(INT4, format="dense"), {**_plain(Q)}),
        (_compressed(INT4, quantization_status="frozen"), {**_plain(Q)}),
        ({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, _plain(Q)),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, _plain(Q)),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["self_attn"]},
         {**_plain(Q), **BLOCKS}),
    ],
)  # fmt: skip
def test_what_an_engine_accepts_is_no_finding(config: dict[str, Any], tensors: Tensors, tmp_path: Path) -> None:
    assert _agrees(tmp_path, {"quantization_config": config}, tensors)[0] == "pass"


def test_thousands_of_names_and_modules_are_held_against_each_other_in_bounds(tmp_path: Path) -> None:
    names = [f"model.layers.{number}.mlp.experts.{each}.up_proj" for number in range(50) for each in range(50)]
    tensors = {key: each for name in names for key, each in _packed(name).items()}
    config = _compressed(INT4, format="pack-quantized", ignore=[f"{name}.x" for name in names])
    assert _agrees(tmp_path, {"quantization_config": config}, tensors)[0] == "pass"
    config = _compressed(INT4, format="pack-quantized", ignore=[f"re:{name}.x" for name in names])
    assert _agrees(tmp_path, {"quantization_config": config}, tensors)[0] == "unknown"


@pytest.mark.parametrize(
    "pattern", ["((a|a))+$", "(m|o)*x", "(.*)*x", ".*.*.*.*.*.*x", "(?:[a-z.]+)+!", "(", "a" * 2000]
)
def test_a_pattern_that_could_take_for_ever_is_not_tried(pattern: str, tmp_path: Path) -> None:
    held, stored = DIALECTS["gptq"]
    config = {"quantization_config": {**held, "dynamic": {f"-:{pattern}": {}}}}
    assert _agrees(tmp_path, config, {**stored(Q), **stored(UP)})[0] == "unknown"


@pytest.mark.parametrize("scale", ["k_scale", "attn.v_scale", "k_proj.k_scale", "k_proj.output_scale", None])
def test_a_static_kv_cache_wants_its_scales(scale: str | None, tmp_path: Path) -> None:
    config = _compressed(FP8, kv_cache_scheme={"num_bits": 8, "type": "float", "dynamic": False})
    more: Tensors = {f"model.layers.0.self_attn.{scale}": ("F32", [1])} if scale else {}
    checks = _checks(tmp_path, {"quantization_config": config}, {**EVERYWHERE, **_fp8(Q, "weight_scale"), **more})
    assert checks["check.kv_scales_there"][0] == ("pass" if scale else "fail")
    config["kv_cache_scheme"]["dynamic"] = True
    checks = _checks(tmp_path, {"quantization_config": config}, {**EVERYWHERE, **_fp8(Q, "weight_scale"), **more})
    assert "check.kv_scales_there" not in checks


@pytest.mark.parametrize(
    ("config", "head", "tied", "there"),
    [
        ({"tie_word_embeddings": True}, None, "pass", "none"),
        ({"tie_word_embeddings": True}, "lm_head.weight", "fail", "none"),
        ({"tie_word_embeddings": False}, "lm_head.weight", "pass", "pass"),
        ({"tie_word_embeddings": False}, "language_model.lm_head.weight", "pass", "pass"),
        ({"tie_word_embeddings": False}, "transformer.output_layer.weight", "pass", "pass"),
        ({"tie_word_embeddings": False}, "lm_head.qweight", "pass", "pass"),
        ({"tie_word_embeddings": False}, None, "pass", "fail"),
        ({"tie_word_embeddings": False, "architectures": ["Qwen3Model"]}, None, "pass", "none"),
        ({"text_config": {"tie_word_embeddings": False}}, "lm_head.weight", "pass", "pass"),
        (
            {"tie_word_embeddings": True, "text_config": {"tie_word_embeddings": False}},
            "lm_head.weight",
            "fail",
            "none",
        ),
        ({"tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}, None, "fail", "none"),
        ({}, "lm_head.weight", "none", "none"),
    ],
)
def test_tied_embeddings_are_held_against_every_level_and_the_tensors(
    config: dict[str, Any], head: str | None, tied: str, there: str, tmp_path: Path
) -> None:
    tensors = {
        "model.embed_tokens.weight": ("BF16", [64, 64]),
        **_plain(Q),
        **({head: ("BF16", [64, 64])} if head else {}),
    }
    checks = _checks(tmp_path, config, tensors)
    found = [checks.get(f"check.{name}", ("none", ""))[0] for name in ("tied_embeddings_agree", "output_head_there")]
    assert found == [tied, there]


def test_the_text_part_says_whether_embeddings_are_tied_where_the_whole_does_not(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, {"text_config": {"tie_word_embeddings": False}}, _plain(Q))

    def told(edition: int) -> object:
        found = look(str(folder), edition=edition)
        return next(each.value for each in found.readings if each.fact.key == "checkpoint.tie_word_embeddings")

    assert told(2) is False
    assert told(1) is not False


def _lora(module: str, rank: int) -> Tensors:
    return {
        f"base_model.model.{module}.lora_A.weight": ("BF16", [rank, 128]),
        f"base_model.model.{module}.lora_B.weight": ("BF16", [128, rank]),
    }


@pytest.mark.parametrize(
    ("more", "ranks", "status"),
    [
        ({}, (16, 16), "pass"), ({}, (64, 16), "fail"), ({}, (8, 8), "fail"),
        ({"rank_pattern": {"q_proj": 64}}, (64, 16), "pass"), ({"rank_pattern": {r"layers\.0\.self_attn\.q_proj": 64}}, (64, 16), "pass"),
        ({"rank_pattern": {"q_proj": 64}}, (16, 16), "fail"), ({"rank_pattern": {"v_proj": 64}}, (64, 16), "fail"),
        ({"target_parameters": ["model.layers.0.self_attn.q_proj.weight"]}, (64, 16), "pass"),
    ],
)  # fmt: skip
def test_an_adapter_s_tensors_are_of_the_rank_that_its_configuration_gives(
    more: dict[str, Any], ranks: tuple[int, int], status: str, tmp_path: Path
) -> None:
    config = {
        "peft_type": "LORA",
        "r": 16,
        "lora_alpha": 32,
        "base_model_name_or_path": "a/b",
        "revision": "main",
        **more,
    }
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    write(tmp_path / "adapter_model.safetensors", {**_lora(Q, ranks[0]), **_lora(UP, ranks[1])})
    checks = {check.name: check.status.value for check in look(str(tmp_path)).checks}
    assert checks["check.adapter_rank"] == status


def test_a_declaration_that_changes_is_judged_anew_over_kept_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    config, stored = DIALECTS["compressed-tensors"]
    folder = checkpoint(tmp_path / "model", {"quantization_config": config}, {**EVERYWHERE, **stored(Q), **stored(UP)})

    def status() -> str:
        found = look(str(folder), cache="auto")
        return next(check.status.value for check in found.checks if check.name == "check.quantization_agrees")

    for name in os.listdir(folder):
        os.utime(folder / name, (1e9, 1e9))
    assert [status(), status()] == ["pass", "pass"]
    held = json.loads((folder / "config.json").read_text())
    held["quantization_config"]["ignore"] = ["lm_head", UP]
    (folder / "config.json").write_text(json.dumps(held))
    os.utime(folder / "config.json", (1e9, 1e9))
    assert status() == "fail"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_newer_rule_finds_fails_no_older_check(dialect: str, tmp_path: Path) -> None:
    config, stored = DIALECTS[dialect]
    tensors = {**EVERYWHERE, **stored(Q), **_plain("model.layers.0.linear_attn.in_proj_qkvz"), **_plain(UP)}
    cases = [
        ({"quantization_config": {**config, "ignore": [Q]}}, tensors),
        ({"quantization_config": config}, {**EVERYWHERE, **_plain(Q)}),
    ]
    for more, held in cases:
        folder = checkpoint(tmp_path, more, held)
        (folder / "chat_template.jinja").write_bytes(b"<html>")
        older = {check.name: check.status.value for check in look(str(folder), edition=1).checks}
        newer = {check.name: check.status.value for check in look(str(folder)).checks}
        assert "check.newer_rules" not in newer
        assert older["check.newer_rules"] == "fail"
        assert older["check.no_pointer_files"] == "pass"
