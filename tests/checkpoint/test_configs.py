"""Every dialect of configuration: 39 small checkpoints, each with what should be read out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.checkpoint import look
from lockllm.checkpoint.dialects import canonical
from lockllm.checkpoint.quantization import agree, declarations
from lockllm.facts.registry import dump, find, read

FOLDERS = sorted((Path(__file__).parent / "data" / "configs").iterdir())
QUANTIZATION = (
    "method", "checkpoint_format", "scheme", "bits", "weight_type", "weight_granularity", "group_size", "symmetric",
    "activation_bits", "activation_type", "activation_dynamic", "kv_cache", "ignored",
)  # fmt: skip


def facts(path: Path | str, **options: Any) -> dict[str, Any]:
    """What a look says, one value a fact."""
    found = look(str(path), **options)
    return {reading.fact.key: dump(reading.fact, reading.value) for reading in found.readings}


def wanted(expected: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    want: dict[tuple[str, ...], Any] = {("checkpoint", "dtype"): expected["dtype"]["declared"]}
    want |= {
        ("checkpoint", key): value
        for key, value in expected.get("context", {}).items()
        if key not in {"note", "read_from"}
    }
    if "tie_word_embeddings" in expected:
        want["checkpoint", "tie_word_embeddings"] = expected["tie_word_embeddings"]
    want |= {("quantization", key): expected["quantization"].get(key) for key in QUANTIZATION}
    sampling = expected.get("sampling", {})
    want |= {("checkpoint", "generation_config", key): value for key, value in sampling.get("declared", {}).items()}
    if "stop_token_ids" in sampling:
        want["checkpoint", "stop_token_ids"] = sampling["stop_token_ids"]
    tokenizer = expected.get("tokenizer", {})
    want |= {("tokenizer", key): value for key, value in tokenizer.items() if key != "tokens"}
    want |= {("adapter", key): value for key, value in expected.get("adapter", {}).items() if key != "note"}
    return want


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_checkpoint_is_read_as_its_dialect_means_it(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    found = look(str(folder))
    held = {reading.fact.path: reading.value for reading in found.readings}
    differ = {}
    for path, value in wanted(expected).items():
        row = find(path)
        want, got = read(row, None if value == [] else value), held.get(path, read(row, None))
        if got is not want and not (type(got) is type(want) and row.type.same(want, got)) and want != got:
            differ[path] = (want, got)
    assert differ == {}


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "is_marlin_format": True}, {"checkpoint_format": "marlin"}),
        ({"w_bit": 4, "q_group_size": 128, "zero_point": True, "version": "GEMM"}, {"method": "awq", "checkpoint_format": "gemm"}),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, {"scheme": "fp8-block", "activation_dynamic": True}),
        ({"quant_method": "compressed-tensors", "config_groups": {"W4A16": ["Linear"]}}, {"scheme": "w4a16", "group_size": 128}),
        ({"quant_method": "compressed-tensors", "config_groups": {"FP8_DYNAMIC": ["Linear"]}}, {"scheme": "fp8-dynamic"}),
        ({"quant_method": "compressed-tensors", "config_groups": {"NVFP4": ["A"], "nvfp4": ["B"]}}, {"scheme": "nvfp4"}),
        (
            {
                "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}}},
            },
            {"scheme": "mxfp4a16"},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "g": {
                        "weights": {"num_bits": 4, "type": "int", "strategy": "channel"},
                        "input_activations": {"num_bits": 8, "type": "int", "dynamic": True},
                    }
                },
            },
            {"scheme": "w4a8-int", "weight_granularity": "channel"},
        ),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, {"scheme": "w4a16", "group_size": 128}),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "W4A8_AWQ"}}, {"scheme": "w4a8-fp8"}),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, {"scheme": "mxfp8"}),
        ({"quant_method": "modelopt", "quant_algo": "W8A8_SQ_PER_CHANNEL"}, {"scheme": "w8a8-int", "activation_dynamic": False}),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, {"scheme": "w8a16", "bits": 8}),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8DynamicActivationFloat8WeightConfig",
             "_data": {"granularity": [{"_type": "PerRow", "_data": {}}]}}}},
            {"scheme": "fp8-dynamic", "weight_granularity": "channel"},
        ),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 32, "data_type": "mx_fp", "act_bits": 4}, {"scheme": "mxfp4"}),
        ({"quant_method": "exl2", "bits": 4.65}, {"bits": 4.65, "scheme": "w4.65a16"}),
        ({"quant_method": "quanto", "weights": "int8", "activations": None}, {"scheme": "w8a16", "bits": 8}),
        ({"quant_method": "eetq"}, {"scheme": "w8a16"}),
        ({"quant_method": "bitnet", "linear_class": "autobitlinear"}, {"scheme": "w2a8-int"}),
        ({"quant_method": "fp_quant", "forward_dtype": "nvfp4"}, {"scheme": "nvfp4", "group_size": 16}),
        ({"quant_method": "vptq", "config_for_layers": {"a": {"num_centroids": [-1, 65536], "vector_lens": [-1, 8],
          "num_res_centroids": [-1, -1]}}}, {"bits": 2, "scheme": "w2a16-codebook"}),
        ({"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}, {"method": "fp8", "scheme": "fp8-static"}),
        ({"load_in_8bit": True}, {"method": "bitsandbytes", "scheme": "llm_int8"}),
        ({"quant_method": "of-tomorrow", "bits": 3, "group_size": 64}, {"method": "of-tomorrow", "bits": 3}),
        ({"global_quant_config": {"weight": [{"dtype": "int8"}, {"dtype": "int4", "qscheme": "per_group", "group_size": 128}]}},
         {"method": "quark", "bits": 4, "weight_granularity": "group"}),
    ],
)  # fmt: skip
def test_a_quantization_config_has_one_canonical_form(config: dict[str, Any], want: dict[str, Any]) -> None:
    found = canonical(config)
    assert {key: getattr(found, key) for key in want} == want


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
VARIED = [
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"+:.*down": {"bits": 8}, "-:.*gate": {}}},
     ("none: -:.*gate", "w4a16 group 128: all others", "w8a16 group 128: +:.*down")),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {".*down": {"group_size": 32}}},
     ("w4a16 group 128: all others", "w4a16 group 32: .*down")),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"x": {"desc_act": True}}},
     ("w4a16 group 128 act-order: x", "w4a16 group 128: all others")),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {"a.b": {"bits": 8}, "lm_head": {"bits": 16}}},
     ("none: lm_head", "w4a16 group 128: all others", "w8a16 group 128: a.b")),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int4", "group_size": 32, "qscheme": "per_group"}},
      "layer_quant_config": {"*attn*": {"weight": {"dtype": "int8", "qscheme": "per_tensor"}}}},
     ("w4a16 group 32: all others", "w8a16: *attn*")),
    ({"quant_method": "mlx", "bits": 4, "group_size": 64, "a.b": {"bits": 8, "group_size": 32}, "c": False},
     ("none: c", "w4a16 group 64 asymmetric: all others", "w8a16 group 32 asymmetric: a.b")),
    ({"quant_method": "mlx", "bits": 4, "group_size": 32, "mode": "mxfp4", "a.b": {"bits": 8, "group_size": 64}},
     ("mxfp4a16 group 32 symmetric: all others", "w8a16 group 64 asymmetric: a.b")),
    ({"quant_method": "modelopt", "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4", "group_size": 16}}}},
     ("fp8-static symmetric: a", "nvfp4 group 16 symmetric: b")),
    ({"quant_method": "compressed-tensors", "config_groups": {
        "g": {"weights": INT4, "targets": ["re:.*mlp.*"]}, "h": {"weights": FP8, "targets": ["re:.*attn.*"]}}},
     ("w4a16 group 128 symmetric: re:.*mlp.*", "w8a16 symmetric: re:.*attn.*")),
    ({"quant_method": "fp8", "weight_block_size": [128, 128], "expert_dtype": "fp4"},
     ("fp8-block group 128x128 symmetric: all others", "mxfp4a16 group 32 symmetric: experts")),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"},
      "a.b": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 32}}, "c": None}},
     ("none: c", "w4a16 group 32: a.b", "w8a16: all others")),
]  # fmt: skip


@pytest.mark.parametrize(("config", "groups"), VARIED)
def test_a_quantization_that_varies_by_module_is_mixed_with_its_groups(
    config: dict[str, Any], groups: tuple[str, ...]
) -> None:
    found = canonical(config)
    assert (found.scheme, found.groups) == ("mixed", groups)


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*gate": {}, "+:.*up": {"bits": 4}}},
        {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {"lm_head": {"bits": 16}}},
        {"quant_method": "mlx", "bits": 4, "group_size": 64, "lm_head": False, "a": {"bits": 4, "group_size": 64}},
    ],
)
def test_rules_that_move_no_bits_leave_one_scheme_and_are_told_all_the_same(config: dict[str, Any]) -> None:
    found = canonical(config)
    assert found.scheme == "w4a16"
    assert found.groups


def test_thousands_of_module_rules_become_a_few_lines_that_move_with_each() -> None:
    rules = {f"model.layers.{number}.mlp": {"quant_algo": "FP8"} for number in range(3000)}
    config = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": rules}
    (line,) = canonical(config).groups
    assert line.startswith("fp8-static symmetric: 3000 patterns, sha256 ")
    rules["model.layers.3000.mlp"] = rules.pop("model.layers.0.mlp")
    assert canonical(config).groups != (line,)


@pytest.mark.parametrize(
    ("config", "field", "values"),
    [
        ({"quant_method": "gptq", "bits": 4}, "desc_act", (True, False)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, ("bnb_4bit_use_double_quant", "double_quant"), (True, False)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, ("bnb_4bit_compute_dtype", "compute_dtype"), ("bfloat16", "float32")),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, ("llm_int8_threshold", "outlier_threshold"), (6.0, 0.0)),
        ({"quant_method": "fp8"}, ("scale_fmt", "scale_format"), ("ue8m0", "float32")),
        ({"quant_method": "fp8"}, "expert_dtype", ("fp4", "fp8")),
    ],
)  # fmt: skip
def test_what_moves_numbers_is_a_field_of_its_own(config: dict[str, Any], field: Any, values: tuple[Any, Any]) -> None:
    key, name = (field, field) if isinstance(field, str) else field
    assert tuple(getattr(canonical({**config, key: value}), name) for value in values) == values


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"quantization": {"group_size": 64, "bits": 4}}, {"method": "mlx", "scheme": "w4a16", "checkpoint_format": "affine"}),
        ({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}, {"method": "mlx", "scheme": "mxfp4a16"}),
        ({"quantization": {"group_size": 16, "bits": 4, "mode": "nvfp4"}}, {"method": "mlx", "scheme": "nvfp4a16"}),
        ({"quantization": {"group_size": 32, "bits": 8, "mode": "mxfp8"}}, {"method": "mlx", "scheme": "mxfp8"}),
        ({"quantization_config": {"group_size": 64, "bits": 6, "mode": "affine"}}, {"method": "mlx", "bits": 6}),
        ({"text_config": {"quantization": {"group_size": 64, "bits": 3}}}, {"method": "mlx", "bits": 3}),
        ({"quantization": {"group_size": 64, "bits": 4}, "quantization_config": {"group_size": 64, "bits": 4}}, {"method": "mlx"}),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, {"method": "gptq"}),
    ],
)  # fmt: skip
def test_mlx_is_known_by_its_own_key(config: dict[str, Any], want: dict[str, Any]) -> None:
    found = declarations({"config.json": config})[0][0]
    assert {key: getattr(found, key) for key in want} == want


@pytest.mark.parametrize(
    ("one", "two", "what"),
    [
        ({"exclude_modules": ["lm_head"]}, {"ignore": ["lm_head", "*attn*"]}, "ignored"),
        ({"kv_cache_quant_algo": None}, {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "kv_cache"),
        ({"kv_cache_quant_algo": "NVFP4"}, {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "kv_cache"),
        ({"exclude_modules": []}, {"ignore": ["lm_head"]}, "ignored"),
        ({}, {"ignore": ["lm_head"]}, None),
        ({"exclude_modules": ["b", "a"]}, {"ignore": ["a", "b"]}, None),
    ],
)
def test_two_files_that_declare_differently_disagree(
    one: dict[str, Any], two: dict[str, Any], what: str | None
) -> None:
    first = {"quant_method": "modelopt", "quant_algo": "NVFP4", **two}
    files = {
        "config.json": {"quantization_config": first},
        "hf_quant_config.json": {"quantization": {"quant_algo": "NVFP4", **one}},
    }
    found = agree(declarations(files))
    assert found is not None
    assert found.status.value == ("pass" if what is None else "fail")
    assert what is None or found.detail.startswith(what)


def test_a_lock_of_an_older_rule_is_held_against_what_that_rule_read() -> None:
    for config, _ in VARIED[:4]:
        held = declarations({"config.json": {"quantization_config": config}}, edition=1)[0][0]
        assert (held.scheme, held.groups) == ("w4a16", ())
    assert declarations({"config.json": {"quantization": {"group_size": 64, "bits": 4}}}, edition=1) == []


@pytest.mark.parametrize(
    "value", [None, 7, "text", [], [1], {"a": 1}, True, [[]], 1e300, {"weights": {"num_bits": "x"}}]
)
def test_a_quantization_config_of_wrong_shapes_is_read_as_far_as_it_goes(value: Any) -> None:
    keys = (
        "bits", "group_size", "quant_type", "config_groups", "global_quant_config", "ignore", "modules_to_not_convert",
        "kv_cache_scheme", "weight_block_size", "quant_config", "weights", "num_codebooks", "quantization", "data_type",
        "dynamic", "extra_config", "layer_quant_config", "quantized_layers", "expert_dtype", "scale_fmt", "desc_act",
        "forward_dtype", "kv_cache_quant_config", "in_group_size", "nbits_per_codebook", "quant_algo", "activations",
    )  # fmt: skip
    from lockllm.checkpoint.dialects import DIALECTS

    for method in (*DIALECTS, "unknown"):
        canonical({"quant_method": method, **dict.fromkeys(keys, value)})
        canonical({"quant_method": method, "config_groups": {"g": value}, "global_quant_config": {"weight": value}})


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"rope_scaling": {"type": "su"}}, {"rope_type": "longrope"}),
        ({"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [1]}}, {"rope_type": "default"}),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                                 "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
            {"rope_type": "linear", "rope_theta": 1000000, "rope_factor": 8},
        ),
        ({"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096},
         {"original_max_position_embeddings": 4096}),
        ({"sliding_window": 4096, "model_type": "mistral"}, {"sliding_window": 4096}),
        ({"sliding_window": 4096, "model_type": "qwen2"}, {"sliding_window": None}),
        ({"sliding_window": 4096, "use_sliding_window": True, "model_type": "qwen2"}, {"sliding_window": 4096}),
        ({"sliding_window": 4096, "layer_types": ["full_attention"]}, {"sliding_window": None}),
        ({"torch_dtype": {"text_config": "bfloat16", "vision_config": "float32"}}, {"dtype": "bfloat16"}),
        ({"thinker_config": {"text_config": {"torch_dtype": "float16", "max_position_embeddings": 7}}},
         {"dtype": "float16", "max_position_embeddings": 7}),
        ({"dtype": "auto"}, {"dtype": None}),
        ({"n_positions": 1024}, {"max_position_embeddings": 1024}),
        ({"text_config": {"eos_token_id": 5}}, {"stop_token_ids": [5]}),
    ],
)  # fmt: skip
def test_dtype_context_and_rope_have_one_canonical_form(
    tmp_path: Path, config: dict[str, Any], want: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = facts(tmp_path)
    assert {key: found[f"checkpoint.{key}"] for key in want} == want


def findings(path: Path, **options: Any) -> dict[str, tuple[str, str]]:
    """The findings of a look that are not passed: name -> status and detail."""
    checks = look(str(path), **options).checks
    return {check.name: (check.status.value, check.detail) for check in checks if check.status.value != "pass"}


def test_rope_parameters_alone_are_a_finding_under_transformers_4() -> None:
    folder = next(each for each in FOLDERS if each.name == "bf16-v5-dtype-rope-parameters")
    assert "check.rope_understood" in findings(folder, transformers_major=4)
    assert "check.rope_understood" not in findings(folder, transformers_major=5)


def test_two_declarations_that_disagree_are_a_finding(tmp_path: Path) -> None:
    config = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    status, detail = findings(tmp_path)["check.quantization_agrees"]
    assert (status, detail) == (
        "fail", "scheme is fp8-static in config.json: quantization_config, nvfp4 in hf_quant_config.json",
    )  # fmt: skip


def test_stop_tokens_of_two_files_that_disagree_are_a_finding(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"eos_token_id": 7}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert findings(tmp_path)["check.stop_tokens_agree"] == (
        "fail", "config.json stops at 7, generation_config.json at 1, 2",
    )  # fmt: skip


def test_code_of_another_repository_is_a_fact_and_a_finding() -> None:
    folder = next(each for each in FOLDERS if each.name == "remote-code")
    assert facts(folder)["checkpoint.code_repo"] == "example-org/shared-code"
    assert findings(folder)["check.code_pinned"][0] == "fail"
