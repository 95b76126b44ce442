"""The canonical form of a quantization, and the one word for its bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Config = Mapping[str, Any]


class Quantization(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How weights are stored and activations computed. None: the dialect does not say."""

    method: str
    checkpoint_format: str | None = None
    scheme: str | None = None
    bits: float | None = None
    weight_type: str | None = None  # int, float, codebook
    weight_granularity: str | None = None  # tensor, channel, group, block, tensor_group
    group_size: int | list[int] | None = None  # -1: one channel
    symmetric: bool | None = None
    activation_bits: float | None = None  # 16: not quantized
    activation_type: str | None = None
    activation_dynamic: bool | str | None = None
    kv_cache: str | None = None
    ignored: tuple[str, ...] = ()
    desc_act: bool | str | None = None  # the order in which columns were quantized, where it is not their own
    double_quant: bool | None = None  # whether the scales are quantized, too
    compute_dtype: str | None = None
    outlier_threshold: float | None = None
    scale_format: str | None = None  # ue8m0: scales are powers of two
    expert_dtype: str | None = None
    kv_cache_dynamic: bool | None = None  # false: scales are read from the checkpoint
    groups: tuple[str, ...] = ()  # where it varies by module: `w8a16 group 64: PATTERN, PATTERN`
    rules: tuple[Any, ...] = ()  # the same, to be held against the tensors; no fact
    raw: Mapping[str, Any] = {}  # the config itself; no fact
    says: frozenset[str] = frozenset()  # fields that the file sets to nothing on purpose; no fact


def scheme(
    bits: float | None, weight_type: str | None, granularity: str | None, *, group_size: Any = None,
    scales: str | None = None,
    activation_bits: float | None = 16, activation_type: str | None = None, dynamic: bool | str | None = None,
) -> str | None:  # fmt: skip
    """Bits of weights and activations in one word: `w4a16`, `fp8-dynamic`, `nvfp4`. `scales`: `e8m0` where the file says so."""
    if bits is None:
        return None
    weight_only = activation_bits in {None, 16}
    if weight_type == "float" and bits == 4:
        micro = scales == "e8m0" or (group_size == 32 and granularity != "tensor_group")
        name = "mxfp4" if micro else "nvfp4"
        return name + ("a16" if weight_only else "" if activation_bits == 4 else f"a{activation_bits:g}")
    if weight_type == "float" and bits == 8:
        if scales == "e8m0" and group_size == 32:
            return "mxfp8"
        if weight_only:
            return "fp8-block" if granularity == "block" else "w8a16"
        if granularity == "block":
            return "fp8-block"
        return "fp8-dynamic" if dynamic else "fp8-static"
    word = f"w{bits:g}a{16 if weight_only else activation_bits:g}"
    if weight_type == "codebook":
        return word + "-codebook"
    if weight_only:
        return word
    return word + ("-int" if activation_type == "int" else "-fp8" if activation_bits == 8 else "-float")


def granularity(group_size: Any) -> str | None:
    """What shares a scale, where only the group's size is said."""
    if isinstance(group_size, list):
        return "block"
    if not isinstance(group_size, int):
        return None
    return "group" if group_size > 0 else "channel"


def first(config: Config, *names: str) -> Any:
    """The first of these keys that is set."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def number(value: Any) -> float | None:
    """A number as it stands; None for anything else."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """A text as it stands; None for anything else."""
    return value if isinstance(value, str) and value else None


def truth(value: Any) -> bool | None:
    """True or false as it stands; None for anything else."""
    return value if isinstance(value, bool) else None


def size(value: Any) -> int | list[int] | None:
    """A group's size: a whole number, or the sides of a block."""
    if isinstance(value, str) and "x" in value:
        sides = value.split("x")
        value = [int(side) for side in sides] if all(side.isdigit() and len(side) < 9 for side in sides) else None
    if isinstance(value, list) and value and all(isinstance(side, int) for side in value):
        return list(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def table(value: Any) -> Config:
    """A table as it stands; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def names(*values: Any) -> tuple[str, ...]:
    """The names in the first of these that is a list, sorted."""
    found = next((value for value in values if isinstance(value, (list, tuple)) and value), ())
    return tuple(sorted(each for each in found if isinstance(each, str)))


def kv(value: Any) -> str | None:
    """The KV cache type: a scheme table, an algorithm's name, or nothing."""
    if isinstance(value, dict):
        bits, kind = value.get("num_bits"), value.get("type")
        if not isinstance(bits, int):
            return None
        return {("float", 8): "fp8", ("float", 4): "nvfp4"}.get((str(kind), bits), f"{kind}{bits}")
    if not isinstance(value, str) or value.lower() in {"none", "auto", ""}:
        return None
    word = value.lower()
    return "fp8" if word == "static" or word.startswith("fp8") else word
