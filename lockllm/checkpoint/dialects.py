"""Quantization configs of the libraries that write them, each in its own words, read into the one canonical form.

Fields: transformers 5.24 `quantization_config.py`, compressed-tensors 0.20, nvidia-modelopt 0.47, torchao 0.18,
quark 0.13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from lockllm.checkpoint.scheme import (
    Config,
    Quantization,
    first,
    granularity,
    kv,
    names,
    number,
    scheme,
    size,
    table,
    text,
    truth,
)  # fmt: skip
from lockllm.checkpoint.scheme_groups import compressed_tensors, modelopt, quark, torchao
from lockllm.checkpoint.scheme_rules import rules, varied

Dialect = Callable[[Config], Quantization]


def canonical(config: Config) -> Quantization:
    """The canonical form of a quantization config, with the rules of single modules."""
    named = {**config, "quant_method": method_of(config)}
    found = rules(named, uniform)
    return varied(uniform(named), found, is_default=named["quant_method"] not in _NO_DEFAULT)


def before(config: Config) -> Quantization:
    """As locks of edition 1 hold it: rules of single modules, and what was not known then, are passed over."""
    method = method_of(config)
    new = method.replace("_", "-") in _NEW
    named = {**config, "quant_method": "unknown" if method == "mlx" else method}
    return _other(named) if new else DIALECTS.get(method.replace("_", "-"), _other)(named)


def uniform(config: Config) -> Quantization:
    """The canonical form of what holds for every module that no rule names."""
    method = method_of(config)
    made = DIALECTS.get(method.replace("_", "-"), _other)({**config, "quant_method": method})
    return msgspec.structs.replace(
        made,
        desc_act=_act_order(config), scale_format=made.scale_format or _scale_format(config),
        compute_dtype=made.compute_dtype or text(config.get("compute_dtype")),
        expert_dtype=text(config.get("expert_dtype")), kv_cache_dynamic=_kv_dynamic(config), says=_nothing(config),
    )  # fmt: skip


def _act_order(config: Config) -> bool | str | None:
    """GPTQ's `desc_act`, or `actorder` of compressed-tensors' weights."""
    for group in table(config.get("config_groups")).values():
        if order := text(table(table(group).get("weights")).get("actorder")):
            return order
    return truth(config.get("desc_act"))


def _scale_format(config: Config) -> str | None:
    """`scale_fmt` of fp8, or `scale_dtype` of compressed-tensors' weights."""
    for group in table(config.get("config_groups")).values():
        if kind := text(table(table(group).get("weights")).get("scale_dtype")):
            return kind.removeprefix("torch.")
    return text(config.get("scale_fmt"))


def _kv_dynamic(config: Config) -> bool | None:
    scheme_ = config.get("kv_cache_scheme")
    return False if scheme_ == "static" else truth(table(scheme_).get("dynamic"))


def _nothing(config: Config) -> frozenset[str]:
    """What a modelopt file says there is none of: its exporter writes every key."""
    inner = {**config, **table(config.get("quantization"))}
    cache = {"kv_cache"} if "kv_cache_quant_algo" in inner and not inner["kv_cache_quant_algo"] else set()
    lists = [inner[key] for key in ("exclude_modules", "ignore") if isinstance(inner.get(key), list)]
    return frozenset(cache | ({"ignored"} if lists and not any(lists) else set()))


def method_of(config: Config) -> str:
    """The method that a config names, or that its keys give away (transformers does the same for bitsandbytes)."""
    named = text(config.get("quant_method"))
    if named:
        return named.lower()
    marks = (
        ("bitsandbytes", ("load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit")),
        ("modelopt", ("quant_algo",)), ("quark", ("global_quant_config",)), ("torchao", ("quant_type",)),
        ("compressed-tensors", ("config_groups", "sparsity_config")), ("awq", ("w_bit", "q_group_size", "zero_point")),
        ("gptq", ("desc_act", "damp_percent", "true_sequential")), ("aqlm", ("num_codebooks",)),
        ("auto-round", ("autoround_version",)),
    )  # fmt: skip
    found = next((method for method, keys in marks if any(key in config for key in keys)), "unknown")
    return "mlx" if found == "unknown" and _is_mlx(config) else found


def _is_mlx(config: Config) -> bool:
    """MLX names no method: bits, a group's size and maybe a mode, then modules by name."""
    sized = all(isinstance(config.get(key), int) for key in ("bits", "group_size"))
    others = [value for key, value in config.items() if key not in ("bits", "group_size", "mode", "quant_method")]
    return sized and ("mode" in config or bool(others)) and all(isinstance(value, (dict, bool)) for value in others)


def _weight_only(config: Config, bits: Any, group: Any, **fields: Any) -> Quantization:
    kind = fields.pop("weight_type", "int")
    held, sized = number(bits), size(group)
    shared = fields.pop("weight_granularity", granularity(sized))
    made: dict[str, Any] = {
        "method": config["quant_method"], "bits": held, "weight_type": kind, "weight_granularity": shared,
        "group_size": sized,
        "activation_bits": 16, "scheme": scheme(held, kind, shared, group_size=sized),
    }  # fmt: skip
    return Quantization(**{**made, **fields})


def _gptq(config: Config) -> Quantization:
    format_ = text(first(config, "checkpoint_format", "format")) or (
        "marlin" if config.get("is_marlin_format") else "gptq"
    )
    return _weight_only(
        config,
        config.get("bits"),
        config.get("group_size", -1),
        checkpoint_format=format_,
        symmetric=truth(config.get("sym")),
    )


def _awq(config: Config) -> Quantization:
    zero = first(config, "zero_point")
    symmetric = not zero if isinstance(zero, bool) else truth(config.get("sym"))
    format_ = (text(first(config, "version", "format")) or "gemm").lower()
    return _weight_only(
        config, first(config, "bits", "w_bit"), first(config, "group_size", "q_group_size"), checkpoint_format=format_,
        symmetric=symmetric, ignored=names(config.get("modules_to_not_convert")),
    )  # fmt: skip


def _fp8(config: Config) -> Quantization:
    block = size(config.get("weight_block_size"))
    dynamic = config.get("activation_scheme", "dynamic") != "static"
    shared = "block" if block else "tensor"
    return Quantization(
        method=config["quant_method"], checkpoint_format=text(first(config, "fmt", "checkpoint_format")), bits=8,
        weight_type="float", weight_granularity=shared, group_size=block, symmetric=True, activation_bits=8,
        activation_type="float", activation_dynamic=dynamic,
        kv_cache=kv(first(config, "kv_cache_scheme", "kv_cache_dtype")),
        scheme=scheme(8, "float", shared, activation_bits=8, activation_type="float", dynamic=dynamic),
        ignored=names(config.get("modules_to_not_convert"), config.get("ignored_layers")),
    )  # fmt: skip


def _fbgemm(config: Config) -> Quantization:
    return Quantization(
        method=config["quant_method"], scheme="fp8-dynamic", bits=8, weight_type="float", weight_granularity="channel",
        activation_bits=8, activation_type="float", activation_dynamic=True,
        ignored=names(config.get("modules_to_not_convert")),
    )  # fmt: skip


def _bitsandbytes(config: Config) -> Quantization:
    ignored = names(config.get("llm_int8_skip_modules"))
    if first(config, "load_in_4bit", "_load_in_4bit"):
        kind = text(config.get("bnb_4bit_quant_type")) or "fp4"
        return _weight_only(
            config,
            4,
            64,
            weight_type="float",
            weight_granularity="block",
            checkpoint_format=kind,
            scheme=kind,
            ignored=ignored,
            double_quant=bool(config.get("bnb_4bit_use_double_quant")),
            compute_dtype=(text(config.get("bnb_4bit_compute_dtype")) or "float32").removeprefix("torch."),
        )
    return Quantization(
        method=config["quant_method"], checkpoint_format="llm_int8", scheme="llm_int8", bits=8, weight_type="int",
        weight_granularity="channel", activation_bits=8, activation_type="int", activation_dynamic=True,
        ignored=ignored, outlier_threshold=number(config.get("llm_int8_threshold")),
    )  # fmt: skip


def _mxfp4(config: Config) -> Quantization:
    return _weight_only(
        config, 4, 32, weight_type="float", checkpoint_format="mxfp4", symmetric=True, scheme="mxfp4a16",
        ignored=names(config.get("modules_to_not_convert")),
    )  # fmt: skip


def _hqq(config: Config) -> Quantization:
    inner = table(config.get("quant_config"))
    params = table(inner.get("weight_quant_params")) or inner or config
    return _weight_only(
        config,
        first(params, "nbits", "bits"),
        params.get("group_size"),
        symmetric=False,
        ignored=names(config.get("skip_modules")),
    )


def _aqlm(config: Config) -> Quantization:
    books, each = number(config.get("num_codebooks")), number(config.get("nbits_per_codebook"))
    sides = size([config.get("out_group_size"), config.get("in_group_size")])
    bits = None
    if books and each and isinstance(sides, list) and sides[0] * sides[1]:
        bits = books * each / (sides[0] * sides[1])
    return _weight_only(
        config, bits, sides, weight_type="codebook", weight_granularity="group",
        checkpoint_format=f"{books:g}x{each:g}" if books and each else None,
        ignored=names(config.get("linear_weights_not_to_quantize"), config.get("modules_to_not_convert")),
    )  # fmt: skip


def _auto_round(config: Config) -> Quantization:
    kind = "float" if "fp" in str(config.get("data_type", "int")) else "int"
    group = size(config.get("group_size"))
    bits, acts = number(config.get("bits")), number(config.get("act_bits"))
    quantized = acts is not None and acts < 16
    scales = "e8m0" if "mx" in str(config.get("data_type")) else None
    act_kind = (
        ("float" if "fp" in str(config.get("act_data_type", config.get("data_type"))) else "int") if quantized else None
    )
    dynamic = truth(config.get("act_dynamic")) if quantized else None
    return Quantization(
        method=config["quant_method"], checkpoint_format=text(first(config, "packing_format", "checkpoint_format")),
        bits=bits,
        weight_type=kind, weight_granularity=granularity(group), group_size=group, symmetric=truth(config.get("sym")),
        activation_bits=acts if quantized else 16, activation_type=act_kind, activation_dynamic=dynamic,
        scheme=scheme(bits, kind, granularity(group), group_size=group, scales=scales, activation_bits=acts if quantized else 16,
                      activation_type=act_kind, dynamic=dynamic),
        ignored=names(config.get("modules_to_not_convert")),
    )  # fmt: skip


def _exl(config: Config) -> Quantization:
    codebook = config["quant_method"] == "exl3"
    return _weight_only(
        config, config.get("bits"), None, weight_type="codebook" if codebook else "int",
        checkpoint_format=text(config.get("codebook")) if codebook else None,
    )  # fmt: skip


def _quanto(config: Config) -> Quantization:
    def split(value: Any) -> tuple[str | None, float | None]:
        word = text(value) or ""
        digits = "".join(char for char in word if char.isdigit())
        return (
            (word.rstrip("0123456789_efnmz") or None, float(digits[:1]) if digits else None) if word else (None, None)
        )

    kind, bits = split(first(config, "weights", "weights_dtype"))
    act_kind, acts = split(first(config, "activations", "activations_dtype"))
    return Quantization(
        method=config["quant_method"], bits=bits, weight_type=kind, weight_granularity="channel",
        activation_bits=acts or 16,
        activation_type=act_kind, activation_dynamic=False if acts else None,
        scheme=scheme(bits, kind, "channel", activation_bits=acts or 16, activation_type=act_kind, dynamic=False),
        ignored=names(config.get("modules_to_not_convert")),
    )  # fmt: skip


def _mlx(config: Config) -> Quantization:
    """MLX's own formats (mlx 0.29 `mx.quantize`): affine, mxfp4, nvfp4, mxfp8; weights alone."""
    mode = text(config.get("mode")) or "affine"
    sizes = {"affine": (4, 64), "mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}
    default_bits, default_group = sizes.get(mode, sizes["affine"])
    bits = number(config.get("bits")) or default_bits
    group = size(config.get("group_size")) or default_group
    if mode == "affine":
        return _weight_only(config, bits, group, checkpoint_format=mode, symmetric=False)
    name = mode if mode == "mxfp8" else mode + "a16"
    return _weight_only(config, bits, group, weight_type="float", checkpoint_format=mode, symmetric=True, scheme=name)


def _mxfp8(config: Config) -> Quantization:
    dynamic = config.get("activation_scheme", "dynamic") != "static"
    return Quantization(
        method=config["quant_method"], checkpoint_format=text(config.get("fmt")), bits=8, weight_type="float",
        weight_granularity="group", group_size=32, symmetric=True, activation_bits=8, activation_type="float",
        activation_dynamic=dynamic, scheme="mxfp8", scale_format="ue8m0",
        ignored=names(config.get("modules_to_not_convert"), config.get("ignored_layers"), config.get("ignore")),
    )  # fmt: skip


def _eetq(config: Config) -> Quantization:
    ignored = names(config.get("modules_to_not_convert"))
    return _weight_only(config, 8, None, weight_granularity="channel", ignored=ignored)


def _vptq(config: Config) -> Quantization:
    layers = list(table(config.get("config_for_layers")).values()) or [config.get("shared_layer_config")]
    found = {_vptq_bits(table(layer)) for layer in layers}
    bits = number(config.get("bits")) or (next(iter(found)) if len(found) == 1 else None)
    return _weight_only(
        config, bits, None, weight_type="codebook", ignored=names(config.get("modules_to_not_convert")),
        scheme="mixed" if len(found) > 1 else scheme(bits, "codebook", None),
    )  # fmt: skip


def _vptq_bits(layer: Config) -> float | None:
    """Bits of a weight: those of an index into the codebook, and into that of the residuals, over a vector's length."""
    bits = 0.0
    for centroids, length in (
        (layer.get("num_centroids"), "vector_lens"),
        (layer.get("num_res_centroids"), "vector_lens"),
    ):
        last = centroids[-1] if isinstance(centroids, list) and centroids else None
        sides = layer.get(length)
        side = sides[-1] if isinstance(sides, list) and sides else None
        if isinstance(last, int) and isinstance(side, int) and last > 1 and side > 0:
            bits += math.log2(last) / side
    return round(bits, 2) or None


def _higgs(config: Config) -> Quantization:
    return _weight_only(
        config,
        config.get("bits"),
        config.get("group_size"),
        weight_type="codebook",
        ignored=names(config.get("modules_to_not_convert")),
    )


def _bitnet(config: Config) -> Quantization:
    return Quantization(
        method=config["quant_method"], checkpoint_format=text(config.get("linear_class")), scheme="w2a8-int", bits=2,
        weight_type="int", weight_granularity="tensor", activation_bits=8, activation_type="int",
        activation_dynamic=True, ignored=names(config.get("modules_to_not_convert")),
    )  # fmt: skip


def _fp_quant(config: Config) -> Quantization:
    word = text(first(config, "forward_dtype")) or "mxfp4"
    group = 32 if word.startswith("mx") else 16
    return Quantization(
        method=config["quant_method"], checkpoint_format=word, scheme=word, bits=4, weight_type="float",
        weight_granularity="group" if group == 32 else "tensor_group", group_size=group, symmetric=True,
        activation_bits=4,
        activation_type="float", activation_dynamic=True, ignored=names(config.get("modules_to_not_convert")),
    )  # fmt: skip


def _mistral(config: Config) -> Quantization:
    """Mistral's params.json: `qformat_weight`, `qscheme_act`."""
    dynamic = str(config.get("qscheme_act")).upper() not in {"TENSOR", "STATIC"}
    return Quantization(
        method="fp8", checkpoint_format=str(config.get("qformat_weight")).removeprefix("fp8_"), bits=8, weight_type="float",
        weight_granularity="tensor", symmetric=True, activation_bits=8, activation_type="float",
        activation_dynamic=dynamic,
        scheme="fp8-dynamic" if dynamic else "fp8-static",
    )  # fmt: skip


def _other(config: Config) -> Quantization:
    bits, group = (
        number(first(config, "bits", "nbits", "w_bit", "num_bits", "wbits")),
        size(first(config, "group_size", "q_group_size")),
    )
    ignored = next(
        (config[key] for key in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude") if config.get(key)),
        None,
    )
    method = config["quant_method"]
    if "qformat_weight" in config:
        return _mistral(config)
    return Quantization(
        method=method, checkpoint_format=text(first(config, "checkpoint_format", "format")), bits=bits,
        group_size=group,
        weight_granularity=granularity(group), symmetric=truth(config.get("sym")), ignored=names(ignored),
        weight_type="int" if bits else None, activation_bits=16 if bits else None,
        scheme=scheme(bits, "int", granularity(group), group_size=group) if bits else None,
    )  # fmt: skip


DIALECTS: dict[str, Dialect] = {
    "gptq": _gptq, "gptq-marlin": _gptq, "awq": _awq, "awq-marlin": _awq, "fp8": _fp8, "fbgemm-fp8": _fbgemm,
    "compressed-tensors": compressed_tensors, "bitsandbytes": _bitsandbytes, "mxfp4": _mxfp4, "modelopt": modelopt,
    "modelopt-fp4": modelopt, "modelopt-mixed": modelopt, "quark": quark, "torchao": torchao, "hqq": _hqq,
    "aqlm": _aqlm,
    "auto-round": _auto_round, "autoround": _auto_round, "exl2": _exl, "exl3": _exl, "quanto": _quanto, "eetq": _eetq,
    "intel/auto-round": _auto_round, "inc": _auto_round, "mlx": _mlx, "mxfp8": _mxfp8, "modelopt-mxfp8": modelopt,
    "modelopt-fp8": modelopt, "vptq": _vptq, "higgs": _higgs, "bitnet": _bitnet, "fp-quant": _fp_quant, "sinq": _hqq, "marlin": _gptq,
}  # fmt: skip
"""`quant_method`, with `-` for `_` -> its reader."""
_NEW = frozenset({"mlx", "mxfp8", "modelopt-mxfp8", "modelopt-fp8", "intel/auto-round", "inc"})
_NO_DEFAULT = frozenset({"compressed-tensors", "modelopt", "modelopt_mixed"})
"""Methods whose rules name every module: nothing holds for the others."""
