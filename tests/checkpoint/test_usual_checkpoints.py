"""Checkpoints as they are published, in small: none of them contradicts itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lockllm.checkpoint import look
from tests.checkpoint.tensors import checkpoint

EVERY: dict[str, Any] = {
    "model.embed_tokens.weight": ("BF16", [64, 64]),
    "lm_head.weight": ("BF16", [64, 64]),
    "model.norm.weight": ("BF16", [64]),
}


def layers(
    count: int, kinds: Sequence[str], make: Callable[[str], dict[str, Any]], plain: Sequence[str] = ()
) -> dict[str, Any]:
    t: dict[str, Any] = {}
    for i in range(count):
        for k in kinds:
            t.update(make(f"model.layers.{i}.{k}"))
        for k in plain:
            t[f"model.layers.{i}.{k}.weight"] = ("BF16", [64, 64])
    return t


ATTENTION = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
MLP = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
EXPERTS = [f"mlp.experts.{e}.{p}" for e in range(2) for p in ("gate_proj", "up_proj", "down_proj")]


def fp8(n: str) -> dict[str, Any]:
    return {f"{n}.weight": ("F8_E4M3", [128, 128]), f"{n}.weight_scale_inv": ("F32", [1, 1])}


def nv(n: str) -> dict[str, Any]:
    return {
        f"{n}.weight": ("U8", [64, 32]),
        f"{n}.weight_scale": ("F8_E4M3", [64, 4]),
        f"{n}.weight_scale_2": ("F32", []),
        f"{n}.input_scale": ("F32", []),
    }


def ct4(n: str) -> dict[str, Any]:
    return {
        f"{n}.weight_packed": ("I32", [64, 8]),
        f"{n}.weight_scale": ("BF16", [64, 2]),
        f"{n}.weight_shape": ("I64", [2]),
    }


def ctnv(n: str) -> dict[str, Any]:
    return {
        f"{n}.weight_packed": ("U8", [64, 32]),
        f"{n}.weight_scale": ("F8_E4M3", [64, 4]),
        f"{n}.weight_global_scale": ("F32", [1]),
        f"{n}.input_global_scale": ("F32", [1]),
    }


def gptq(n: str) -> dict[str, Any]:
    return {
        f"{n}.qweight": ("I32", [16, 64]),
        f"{n}.qzeros": ("I32", [1, 8]),
        f"{n}.scales": ("F16", [1, 64]),
        f"{n}.g_idx": ("I32", [128]),
    }


def awq(n: str) -> dict[str, Any]:
    return {f"{n}.qweight": ("I32", [128, 8]), f"{n}.qzeros": ("I32", [1, 8]), f"{n}.scales": ("F16", [1, 64])}


def w8a8(n: str) -> dict[str, Any]:
    return {f"{n}.weight": ("I8", [64, 64]), f"{n}.weight_scale": ("BF16", [64, 1])}


def ct(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
        **more,
    }


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
FP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "deepseek-v3 fp8": (
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}},
        {
            **EVERY,
            **layers(
                3,
                [
                    "self_attn.q_a_proj",
                    "self_attn.q_b_proj",
                    "self_attn.kv_a_proj_with_mqa",
                    "self_attn.kv_b_proj",
                    "self_attn.o_proj",
                    *EXPERTS,
                    "mlp.shared_experts.up_proj",
                ],
                fp8,
                ["mlp.gate"],
            ),
            "model.layers.2.eh_proj.weight": ("BF16", [64, 64]),
            "model.layers.2.shared_head.head.weight": ("BF16", [64, 64]),
            "model.layers.2.embed_tokens.weight": ("BF16", [64, 64]),
            "model.layers.1.self_attn.indexer.weights_proj.weight": ("BF16", [64, 64]),
            "model.layers.1.mlp.gate.e_score_correction_bias": ("F32", [64]),
        },
    ),
    "qwen3-EXPERTS fp8": (
        {
            "quantization_config": {
                "quant_method": "fp8",
                "weight_block_size": [128, 128],
                "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate", "model.layers.1.mlp.gate"],
            }
        },
        {**EVERY, **layers(2, ATTENTION + EXPERTS, fp8, ["mlp.gate"])},
    ),
    "qwen2.5-vl w4a16": (
        {"quantization_config": ct(INT4, format="pack-quantized", ignore=["re:.*lm_head", "re:visual.*"])},
        {
            **EVERY,
            **layers(2, ATTENTION + MLP, ct4),
            "visual.blocks.0.attn.qkv.weight": ("BF16", [64, 64]),
            "model.visual.blocks.0.mlp.up_proj.weight": ("BF16", [64, 64]),
        },
    ),
    "kimi k2 int4": (
        {
            "quantization_config": ct(
                INT4,
                format="pack-quantized",
                ignore=[
                    "lm_head",
                    "re:.*self_attn.*",
                    "re:.*shared_experts.*",
                    "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
                ],
            )
        },
        {
            **EVERY,
            **layers(2, EXPERTS, ct4, [*ATTENTION, "mlp.shared_experts.up_proj", "mlp.gate"]),
            "model.layers.0.mlp.up_proj.weight": ("BF16", [64, 64]),
        },
    ),
    "modelopt nvfp4 ds": (
        {
            "quantization_config": {
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "ignore": ["lm_head", "model.layers.0.self_attn*", "model.layers.1.self_attn*"],
            }
        },
        {**EVERY, **layers(2, EXPERTS, nv, [*ATTENTION, "mlp.gate"])},
    ),
    "nvfp4 ct qwen3.5": (
        {
            "quantization_config": ct(
                FP4,
                format="nvfp4-pack-quantized",
                ignore=["lm_head", "re:.*linear_attn.*", "re:.*visual.*", "re:.*mlp.gate$", "re:.*shared_expert_gate$"],
            )
        },
        {
            **EVERY,
            **layers(
                2,
                ATTENTION + EXPERTS,
                ctnv,
                ["linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba", "mlp.gate", "mlp.shared_expert_gate"],
            ),
        },
    ),
    "gptq qwen": (
        {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}},
        {**EVERY, **layers(2, ATTENTION + MLP, gptq)},
    ),
    "gptq EXPERTS": (
        {
            "quantization_config": {
                "quant_method": "gptq",
                "bits": 4,
                "group_size": 128,
                "dynamic": {"-:.*shared_expert_gate": {}},
            }
        },
        {**EVERY, **layers(2, ATTENTION + EXPERTS, gptq, ["mlp.gate", "mlp.shared_expert_gate"])},
    ),
    "awq mixtral": (
        {
            "quantization_config": {
                "quant_method": "awq",
                "bits": 4,
                "group_size": 128,
                "version": "gemm",
                "zero_point": True,
                "modules_to_not_convert": ["gate"],
            }
        },
        {
            **EVERY,
            **layers(
                2,
                ATTENTION + [f"block_sparse_moe.experts.{e}.w{w}" for e in range(2) for w in (1, 2, 3)],
                awq,
                ["block_sparse_moe.gate"],
            ),
        },
    ),
    "w8a8": (
        {"quantization_config": ct({"num_bits": 8, "type": "int", "strategy": "channel"}, format="int-quantized")},
        {**EVERY, **layers(2, ATTENTION + MLP, w8a8)},
    ),
    "gpt-oss": (
        {
            "quantization_config": {
                "quant_method": "mxfp4",
                "modules_to_not_convert": [
                    "model.layers.*.self_attn",
                    "model.layers.*.mlp.router",
                    "model.embed_tokens",
                    "lm_head",
                ],
            }
        },
        {
            **EVERY,
            "model.layers.0.mlp.experts.gate_up_proj_blocks": ("U8", [2, 4, 2, 16]),
            "model.layers.0.mlp.experts.gate_up_proj_scales": ("U8", [2, 4, 2]),
            "model.layers.0.mlp.experts.gate_up_proj_bias": ("BF16", [2, 4]),
            **{f"model.layers.0.{a}.weight": ("BF16", [64, 64]) for a in ATTENTION},
            "model.layers.0.mlp.router.weight": ("BF16", [2, 64]),
        },
    ),
    "unsloth dynamic bnb": (
        {
            "quantization_config": {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "llm_int8_skip_modules": [
                    "lm_head",
                    "multi_modal_projector",
                    "merger",
                    "modality_projection",
                    "model.layers.1.mlp",
                    "model.layers.0.self_attn.o_proj",
                ],
            }
        },
        {
            **EVERY,
            **{
                k: v
                for n in ["self_attn.q_proj", "mlp.up_proj"]
                for k, v in {
                    f"model.layers.0.{n}.weight": ("U8", [2048, 1]),
                    f"model.layers.0.{n}.weight.absmax": ("U8", [64]),
                    f"model.layers.0.{n}.weight.quant_state.bitsandbytes__nf4": ("U8", [9]),
                }.items()
            },
            "model.layers.1.mlp.up_proj.weight": ("BF16", [64, 64]),
            "model.layers.0.self_attn.o_proj.weight": ("BF16", [64, 64]),
        },
    ),
    "plain gpt2 masks": (
        {},
        {
            **EVERY,
            "h.0.attn.bias": ("U8", [1, 1, 8, 8]),
            "h.0.attn.masked_bias": ("F32", [1]),
            "h.0.attn.c_attn.weight": ("F32", [64, 192]),
        },
    ),
    "position ids": ({}, {**EVERY, "vision.embeddings.position_ids": ("I64", [1, 5])}),
    "llama4 fp8": (
        {
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "g": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
                },
                "ignore": [
                    "language_model.model.layers.0.self_attn.q_proj",
                    "language_model.model.layers.0.feed_forward.router",
                    "language_model.lm_head",
                    "vision_model.layers.0.fc1",
                ],
            }
        },
        {
            "language_model.model.embed_tokens.weight": ("BF16", [64, 64]),
            "language_model.lm_head.weight": ("BF16", [64, 64]),
            "language_model.model.layers.0.self_attn.q_proj.weight": ("BF16", [64, 64]),
            "language_model.model.layers.0.feed_forward.router.weight": ("BF16", [2, 64]),
            "language_model.model.layers.0.feed_forward.up_proj.weight": ("F8_E4M3", [64, 64]),
            "language_model.model.layers.0.feed_forward.up_proj.weight_scale": ("BF16", [64, 1]),
            "vision_model.layers.0.fc1.weight": ("BF16", [64, 64]),
        },
    ),
    "glm4.5 w/ mtp": (
        {
            "quantization_config": {
                "quant_method": "fp8",
                "weight_block_size": [128, 128],
                "modules_to_not_convert": ["lm_head"],
            }
        },
        {
            **EVERY,
            **layers(2, ATTENTION + EXPERTS, fp8, ["mlp.gate"]),
            "model.layers.2.eh_proj.weight": ("BF16", [64, 64]),
            "model.layers.2.enorm.weight": ("BF16", [64]),
        },
    ),
    "nemotron h fp8": (
        {
            "model_type": "nemotron_h",
            "quantization_config": {
                "quant_method": "modelopt",
                "quant_algo": "FP8",
                "ignore": ["backbone.layers.*.mixer.conv1d", "lm_head", "backbone.layers.1.mixer.q_proj"],
            },
        },
        {
            "backbone.embeddings.weight": ("BF16", [64, 64]),
            "lm_head.weight": ("BF16", [64, 64]),
            "backbone.layers.0.mixer.in_proj.weight": ("F8_E4M3", [64, 64]),
            "backbone.layers.0.mixer.in_proj.weight_scale": ("F32", []),
            "backbone.layers.0.mixer.conv1d.weight": ("BF16", [64, 1, 4]),
            "backbone.layers.1.mixer.q_proj.weight": ("BF16", [64, 64]),
            "backbone.layers.1.mixer.k_proj.weight": ("F8_E4M3", [64, 64]),
            "backbone.layers.1.mixer.k_proj.weight_scale": ("F32", []),
        },
    ),
    "exl3": (
        {"quantization_config": {"quant_method": "exl3", "bits": 4.0, "version": "0.0.1"}},
        {
            **EVERY,
            **{
                f"model.layers.0.{a}.{p}": s
                for a in ATTENTION
                for p, s in {"trellis": ("I32", [4, 64]), "suh": ("F16", [64]), "svh": ("F16", [64])}.items()
            },
        },
    ),
    "hqq": (
        {
            "quantization_config": {
                "quant_method": "hqq",
                "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}},
                "skip_modules": ["lm_head"],
            }
        },
        {
            **EVERY,
            **{
                f"model.layers.0.{a}.{p}": s
                for a in ATTENTION
                for p, s in {"W_q": ("U8", [32, 64]), "scale": ("BF16", [64, 1]), "zero": ("BF16", [64, 1])}.items()
            },
        },
    ),
}
CASES["quanto"] = (
    {"quantization_config": {"quant_method": "quanto", "weights": "int8"}},
    {
        **EVERY,
        "model.layers.0.mlp.up_proj.weight._data": ("I8", [64, 64]),
        "model.layers.0.mlp.up_proj.weight._scale": ("BF16", [64, 1]),
    },
)
CASES["eetq"] = (
    {"quantization_config": {"quant_method": "eetq"}},
    {
        **EVERY,
        "model.layers.0.mlp.up_proj.weight": ("I8", [64, 64]),
        "model.layers.0.mlp.up_proj.weight_scales": ("F16", [64]),
    },
)
CASES["vptq"] = (
    {"quantization_config": {"quant_method": "vptq", "bits": 2}},
    {
        **EVERY,
        "model.layers.0.mlp.up_proj.indices": ("I32", [64, 64]),
        "model.layers.0.mlp.up_proj.centroids.weight": ("F16", [1, 64]),
    },
)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_as_it_is_published_agrees_with_itself(name: str, tmp_path: Path) -> None:
    config, tensors = CASES[name]
    found = look(str(checkpoint(tmp_path, {"tie_word_embeddings": False, **config}, tensors)))
    unlike = {check.name: check.detail for check in found.checks if check.status.value != "pass"}
    assert unlike.keys() <= {"check.dtype_declared"}
