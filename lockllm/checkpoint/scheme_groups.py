"""Quantization configs that describe weights and activations apart: compressed-tensors, modelopt, quark, torchao."""

from __future__ import annotations

from typing import Any

import msgspec

from lockllm.checkpoint.scheme import (
    Config,
    Quantization,
    first,
    granularity,
    kv,
    names,
    scheme,
    size,
    table,
    text,
    truth,
)

_PRESETS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...] | None]] = {
    # compressed-tensors `quant_scheme.py`: weights (bits, type, strategy, group, symmetric), activations (bits, type, dynamic)
    "W8A16": ((8, "int", "channel", None, True), None), "W4A16": ((4, "int", "group", 128, True), None),
    "W4A16_ASYM": ((4, "int", "group", 128, False), None),
    "W8A8": ((8, "int", "channel", None, True), (8, "int", True)),
    "INT8": ((8, "int", "channel", None, True), (8, "int", True)),
    "W4A8": ((4, "int", "group", 128, True), (8, "int", True)),
    "W4AFP8": ((4, "int", "group", 128, True), (8, "float", True)),
    "FP8": ((8, "float", "tensor", None, True), (8, "float", False)),
    "FP8_DYNAMIC": ((8, "float", "channel", None, True), (8, "float", True)),
    "FP8_BLOCK": ((8, "float", "block", [128, 128], True), (8, "float", True)),
    "NVFP4A16": ((4, "float", "tensor_group", 16, True), None),
    "NVFP4": ((4, "float", "tensor_group", 16, True), (4, "float", "local")),
    "MXFP4A16": ((4, "float", "group", 32, True), None), "MXFP4": ((4, "float", "group", 32, True), (4, "float", True)),
    "MXFP8": ((8, "float", "group", 32, True), (8, "float", True)), "MXFP8A16": ((8, "float", "group", 32, True), None),
}  # fmt: skip
_ALGORITHMS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...] | None]] = {
    # modelopt `quant_algo`: weights (bits, type, granularity, group), activations (bits, type, dynamic)
    "FP8": ((8, "float", "tensor", None), (8, "float", False)),
    "FP8_PER_CHANNEL_PER_TOKEN": ((8, "float", "channel", None), (8, "float", True)),
    "FP8_PB_WO": ((8, "float", "block", [128, 128]), None),
    "FP8_PB_REAL": ((8, "float", "block", [128, 128]), (8, "float", True)),
    "NVFP4": ((4, "float", "tensor_group", 16), (4, "float", False)),
    "NVFP4_AWQ": ((4, "float", "tensor_group", 16), (4, "float", False)),
    "NVFP4_SVD": ((4, "float", "tensor_group", 16), (4, "float", False)),
    "W4A16_NVFP4": ((4, "float", "tensor_group", 16), None),
    "W4A8_NVFP4_FP8": ((4, "float", "tensor_group", 16), (8, "float", False)),
    "W4A16_AWQ": ((4, "int", "group", 128), None), "INT4_AWQ": ((4, "int", "group", 128), None),
    "W4A16": ((4, "int", "group", 128), None), "W4A8_AWQ": ((4, "int", "group", 128), (8, "float", False)),
    "W8A16": ((8, "int", "channel", None), None),
    "W8A8_SQ_PER_CHANNEL": ((8, "int", "channel", None), (8, "int", False)),
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": ((8, "int", "channel", None), (8, "int", True)),
    "W4A8_MXFP4_FP8": ((4, "float", "group", 32), (8, "float", True)),
    "MXFP8": ((8, "float", "group", 32), (8, "float", True)), "MXFP4": ((4, "float", "group", 32), (4, "float", True)),
}  # fmt: skip
_TORCHAO: dict[str, tuple[tuple[Any, ...], tuple[Any, ...] | None]] = {
    "Int4WeightOnlyConfig": ((4, "int", "group", 128), None), "int4_weight_only": ((4, "int", "group", 128), None),
    "Int8WeightOnlyConfig": ((8, "int", "channel", None), None),
    "int8_weight_only": ((8, "int", "channel", None), None),
    "Int8DynamicActivationInt8WeightConfig": ((8, "int", "channel", None), (8, "int", True)),
    "int8_dynamic_activation_int8_weight": ((8, "int", "channel", None), (8, "int", True)),
    "Int8DynamicActivationInt4WeightConfig": ((4, "int", "group", 32), (8, "int", True)),
    "Int8DynamicActivationIntxWeightConfig": ((8, "int", "group", 32), (8, "int", True)),
    "Int8StaticActivationInt8WeightConfig": ((8, "int", "channel", None), (8, "int", False)),
    "Float8WeightOnlyConfig": ((8, "float", "channel", None), None),
    "float8_weight_only": ((8, "float", "channel", None), None),
    "Float8DynamicActivationFloat8WeightConfig": ((8, "float", "tensor", None), (8, "float", True)),
    "float8_dynamic_activation_float8_weight": ((8, "float", "tensor", None), (8, "float", True)),
    "Float8StaticActivationFloat8WeightConfig": ((8, "float", "tensor", None), (8, "float", False)),
    "Float8DynamicActivationInt4WeightConfig": ((4, "int", "group", 128), (8, "float", True)),
    "IntxWeightOnlyConfig": ((8, "int", "channel", None), None),
    "UIntXWeightOnlyConfig": ((4, "int", "group", 64), None),
    "GemliteUIntXWeightOnlyConfig": ((4, "int", "group", 128), None),
    "FPXWeightOnlyConfig": ((6, "float", "channel", None), None),
    "NVFP4DynamicActivationNVFP4WeightConfig": ((4, "float", "tensor_group", 16), (4, "float", True)),
    "NVFP4WeightOnlyConfig": ((4, "float", "tensor_group", 16), None),
    "MXDynamicActivationMXWeightConfig": ((4, "float", "group", 32), (4, "float", True)),
}  # fmt: skip


def compressed_tensors(config: Config) -> Quantization:
    """compressed-tensors: groups of targets, each with weights and input activations, or a preset's name with targets."""
    format_ = text(config.get("format"))
    groups = [_group(name, group, format_) for name, group in table(config.get("config_groups")).items()]
    return _joined(config, groups, format_, kv(config.get("kv_cache_scheme")), names(config.get("ignore")))


def modelopt(config: Config) -> Quantization:
    """modelopt: `quant_algo`, from hf_quant_config.json's inner table or a config.json in compressed-tensors dress."""
    inner = {**config, **table(config.get("quantization"))}
    algorithm = text(inner.get("quant_algo"))
    cache = kv(first(inner, "kv_cache_quant_algo", "kv_cache_scheme"))
    ignored = names(inner.get("exclude_modules"), inner.get("ignore"))
    preset = _ALGORITHMS.get((algorithm or "").upper())
    if preset is None:
        if algorithm is None or algorithm.upper() != "MIXED_PRECISION":
            groups = [_group(name, group, None) for name, group in table(inner.get("config_groups")).items()]
            if groups:
                return _joined(config, groups, algorithm, cache, ignored)
        mixed = "mixed" if algorithm and algorithm.upper() == "MIXED_PRECISION" else None
        return Quantization(
            method=config["quant_method"], checkpoint_format=algorithm, scheme=mixed, kv_cache=cache, ignored=ignored
        )
    symmetric = not inner.get("has_zero_point", False)
    made = _made(config, preset, size(inner.get("group_size")), symmetric)
    return _with(made, checkpoint_format=algorithm, kv_cache=cache, ignored=ignored)


def quark(config: Config) -> Quantization:
    """quark: one global config for weights and inputs, with layers that may have their own."""
    whole = table(config.get("global_quant_config"))
    weight, inputs = _spec(whole.get("weight")), _spec(whole.get("input_tensors"))
    dtype = text(weight.get("dtype"))
    kind, bits = _numeric(dtype)
    act_kind, acts = _numeric(text(inputs.get("dtype")))
    shared = _quark_shared(weight.get("qscheme"))
    group = size(weight.get("group_size"))
    dynamic = truth(inputs.get("is_dynamic")) if acts else None
    scales = (
        "e8m0"
        if "e8m0" in str(weight.get("scale_format", "")).lower() or str(weight.get("scale_type")) == "mx"
        else None
    )
    caches = [_spec(table(each).get("output_tensors")) for each in table(config.get("kv_cache_quant_config")).values()]
    return Quantization(
        method=config["quant_method"], checkpoint_format=dtype, bits=bits, weight_type=kind, weight_granularity=shared,
        group_size=group, symmetric=truth(weight.get("symmetric")), activation_bits=acts or 16,
        activation_type=act_kind,
        activation_dynamic=dynamic, scale_format=text(weight.get("scale_format")),
        kv_cache=kv(next((each.get("dtype") for each in caches if each), None)),
        ignored=names(config.get("exclude")),
        scheme=scheme(bits, kind, shared, group_size=group, scales=scales, activation_bits=acts or 16, activation_type=act_kind,
                      dynamic=dynamic),
    )  # fmt: skip


def torchao(config: Config) -> Quantization:
    """torchao: a config class by name with its data, or (before 0.10) a function's name with keyword arguments."""
    kind: Any = config.get("quant_type")
    if isinstance(kind, dict):
        kind = kind.get("default", next(iter(kind.values()), None))
    name = text(kind) or text(table(kind).get("_type"))
    data = table(table(kind).get("_data")) or table(config.get("quant_type_kwargs"))
    ignored = names(config.get("modules_to_not_convert"))
    preset = _TORCHAO.get(name or "")
    if preset is None:
        mixed = "mixed" if "Fqn" in (name or "") else None
        return Quantization(method=config["quant_method"], checkpoint_format=name, scheme=mixed, ignored=ignored)
    (bits, type_, shared, group), acts = preset
    dtype = table(data.get("weight_dtype")).get("_data") or data.get("weight_dtype") or data.get("dtype")
    if isinstance(dtype, str) and dtype.removeprefix("torch.").lstrip("u").startswith("int"):
        digits = dtype.rpartition("int")[2]
        bits = int(digits) if digits.isdigit() and len(digits) < 3 else bits
    rows = table(data.get("granularity")).get("_type") or data.get("granularity")
    if isinstance(rows, list) and rows:
        rows = table(rows[0]).get("_type")
    if rows in ("PerRow", "PerAxis", "per_row"):
        shared = "channel"
    elif rows == "PerGroup":
        shared, group = "group", size(table(table(data.get("granularity")).get("_data")).get("group_size"))
    made = _made(config, ((bits, type_, shared, group), acts), size(data.get("group_size")), None)
    return _with(made, checkpoint_format=name, ignored=ignored)


def _group(name: str, group: Any, format_: str | None) -> Quantization:
    if isinstance(group, list):
        preset = _PRESETS.get(name.upper())
        if preset is None:
            return Quantization(method="", scheme=None)
        (bits, type_, shared, sized, symmetric), acts = preset
        return _made({"quant_method": ""}, ((bits, type_, shared, sized), acts), None, symmetric)
    weights, acts_ = table(table(group).get("weights")), table(table(group).get("input_activations"))
    bits = weights.get("num_bits") if isinstance(weights.get("num_bits"), int) else None
    kind = text(weights.get("type")) or ("int" if bits else None)
    sized = size(first(weights, "group_size", "block_structure"))
    shared = text(weights.get("strategy"))
    if shared is None and bits:
        fine = kind == "float" and bits == 4 and sized == 16
        shared = "tensor_group" if fine else granularity(sized) or "tensor"
    act_bits = acts_.get("num_bits") if isinstance(acts_.get("num_bits"), int) else None
    act_kind = (text(acts_.get("type")) or "int") if act_bits else None
    dynamic: Any = acts_.get("dynamic", False) if act_bits else None
    inner = text(table(group).get("format")) or format_ or ""
    scales = "e8m0" if inner.startswith("mxfp") or str(weights.get("scale_dtype", "")).endswith("uint8") else None
    return Quantization(
        method="", bits=bits, weight_type=kind, weight_granularity=shared, group_size=sized,
        symmetric=truth(weights.get("symmetric", True)) if bits else None, activation_bits=act_bits or 16,
        activation_type=act_kind,
        activation_dynamic=dynamic if isinstance(dynamic, (bool, str)) else None,
        scheme=scheme(bits, kind, shared, group_size=sized, scales=scales, activation_bits=act_bits or 16, activation_type=act_kind,
                      dynamic=dynamic),
    )  # fmt: skip


def _joined(
    config: Config, groups: list[Quantization], format_: str | None, cache: str | None, ignored: Any
) -> Quantization:
    """One group, or several that are alike, stand for the whole; else it is mixed."""
    whole = groups[0] if groups and all(group == groups[0] for group in groups) else None
    if whole is None:
        mixed = "mixed" if groups else None
        return Quantization(
            method=config["quant_method"], checkpoint_format=format_, scheme=mixed, kv_cache=cache, ignored=ignored
        )
    return _with(whole, method=config["quant_method"], checkpoint_format=format_, kv_cache=cache, ignored=ignored)


def _made(
    config: Config, preset: tuple[tuple[Any, ...], tuple[Any, ...] | None], group: Any, symmetric: Any
) -> Quantization:
    (bits, kind, shared, default_group), acts = preset
    sized = default_group if group is None else group
    act_bits, act_kind, dynamic = acts or (16, None, None)
    scales = "e8m0" if kind == "float" and sized == 32 else None
    return Quantization(
        method=config["quant_method"], bits=bits, weight_type=kind, weight_granularity=shared, group_size=sized,
        symmetric=symmetric, activation_bits=act_bits, activation_type=act_kind, activation_dynamic=dynamic,
        scheme=scheme(bits, kind, shared, group_size=sized, scales=scales, activation_bits=act_bits, activation_type=act_kind,
                      dynamic=dynamic),
    )  # fmt: skip


def _with(made: Quantization, **fields: Any) -> Quantization:
    return msgspec.structs.replace(made, **fields)


def _spec(value: Any) -> Config:
    """A tensor's config; of a two-stage one (a list) the last stage, whose bits are stored."""
    if isinstance(value, list) and value:
        value = value[-1]
    return table(value)


def _quark_shared(word: Any) -> str | None:
    named = {"per_tensor": "tensor", "per_channel": "channel", "per_group": "group", "per_block": "block"}
    return named.get(word) if isinstance(word, str) else None


def _numeric(word: str | None) -> tuple[str | None, int | None]:
    """`fp8_e4m3` -> float, 8; `uint4` -> int, 4."""
    if not word:
        return None, None
    digits = next((char for char in word if char.isdigit()), None)
    kind = "int" if "int" in word else "float"
    return kind, int(digits) if digits else None
