"""Where a checkpoint declares its quantization, whether all places agree, and what the tensors themselves say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.checkpoint import dialects
from lockllm.checkpoint.config import CONFIG, text_parts
from lockllm.checkpoint.ggml import FILE_TYPES, GUESSED, UNQUANTIZED
from lockllm.checkpoint.scheme import Quantization
from lockllm.facts.observation import By, Check, CheckStatus, Reading
from lockllm.facts.registry import seen

SIDECARS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
_FIELDS = tuple(
    field.name for field in msgspec.structs.fields(Quantization) if field.name not in ("rules", "raw", "says")
)
_NUMBERS = (
    "method", "scheme", "bits", "group_size", "symmetric", "desc_act", "scale_format", "compute_dtype", "double_quant",
    "expert_dtype", "groups",
)  # fmt: skip
"""Of these the first that differs is told: the others follow."""
_COMPARED = (_NUMBERS, ("kv_cache",), ("ignored",))
_NONE = Quantization(method="none")
Declaration = tuple[Quantization, str]


def declarations(files: Mapping[str, Mapping[str, Any]], edition: int = 2) -> list[Declaration]:
    """Every place that declares a quantization, the one that counts first. `edition`: of the lock that is held against it."""

    def read(held: Mapping[str, Any]) -> Quantization:
        made = dialects.canonical(held) if edition >= 2 else dialects.before(held)
        return msgspec.structs.replace(made, raw=held)

    found = []
    config = files.get(CONFIG, {})
    for part, at in text_parts(config):
        for key in ("quantization_config", "compression_config"):
            if isinstance(part.get(key), dict) and part[key]:
                default = {"quant_method": "compressed-tensors"} if key == "compression_config" else {}
                named = {**default, **_mlx(part, key), **_experts(config, part), **part[key]}
                found.append((read(named), f"{at}.{key}" if ": " in at else f"{at}: {key}"))
        if edition >= 2 and (mlx := _mlx(part, "quantization")):
            where = f"{at}.quantization" if ": " in at else f"{at}: quantization"
            found.insert(0, (read({**mlx, **part["quantization"]}), where))
    built = config.get("pretrained_config")
    held = built.get("quantization") if isinstance(built, dict) else None
    if isinstance(held, dict) and held.get("quant_algo"):
        found.append((read({"quant_method": "modelopt", **held}), f"{CONFIG}: pretrained_config.quantization"))
    for name in SIDECARS:
        sidecar = files.get(name)
        if sidecar:
            method = {"hf_quant_config.json": "modelopt", "quant_config.json": "awq"}.get(name)
            inner = sidecar.get("quantization_config")
            value = inner if isinstance(inner, dict) else sidecar
            found.append((read({**({"quant_method": method} if method else {}), **value}), name))
    params = files.get("params.json", {})
    keys = [key for key in ("quantization", "quantization_config") if isinstance(params.get(key), dict) and params[key]]
    return [*found, *((read(params[key]), f"params.json: {key}") for key in keys)]


def _mlx(part: Mapping[str, Any], key: str) -> dict[str, str]:
    """MLX writes one table under two keys, and names no method in it: `quantization` is what it reads."""
    own, held = part.get("quantization"), part.get(key)
    if not isinstance(own, dict) or not isinstance(held, dict) or not isinstance(own.get("bits"), int):
        return {}
    return {} if "quant_method" in own or "quant_method" in held else {"quant_method": "mlx"}


def _experts(config: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """DeepSeek V4 names the type of its experts beside the quantization."""
    kind = part.get("expert_dtype", config.get("expert_dtype"))
    return {"expert_dtype": kind} if isinstance(kind, str) else {}


def readings(found: list[Declaration]) -> Iterator[Reading]:
    """Readings of the declaration that counts; `none` where there is none."""
    held, source = found[0] if found else (_NONE, CONFIG)
    return _readings(held, source)


def of_gguf(metadata: Mapping[str, Any]) -> Iterator[Reading]:
    """Readings of GGUF's file type: a label, whatever the tensors are."""
    number = metadata.get("general.file_type")
    if not isinstance(number, int):
        return _readings(Quantization(method="gguf"), "gguf: general.file_type")
    name = FILE_TYPES.get(number & ~GUESSED, f"type {number}")
    method = "none" if name in UNQUANTIZED else "gguf"
    scheme = None if method == "none" else name
    held = Quantization(method=method, checkpoint_format=name, scheme=scheme)
    return _readings(held, f"gguf: general.file_type={number}")


def agree(found: list[Declaration], edition: int = 2) -> Check | None:
    """Whether all declarations say the same of what they both say. `edition`: of the lock that is held against them."""
    if not found:
        return None
    name = "check.quantization_agrees"
    first, source = found[0]
    compared = _COMPARED if edition >= 2 else ((*_NUMBERS, "kv_cache"),)
    for other, where in found[1:]:
        differ = [each for fields in compared if (each := _difference((first, source), (other, where), fields))]
        if differ:
            fix = "remove the file that does not belong here"
            return Check(name, CheckStatus.FAIL, "; ".join(differ), f"{source}, {where}", fix)
    return Check(name, CheckStatus.PASS, f"declared in {', '.join(where for _, where in found)}", source)


def _difference(one: Declaration, two: Declaration, fields: tuple[str, ...]) -> str:
    for field in fields:
        first, other = _told(one[0], field), _told(two[0], field)
        if field == "groups" and one[0].method == "mlx":
            continue  # the second table of MLX is a copy that it does not read
        if first is not None and other is not None and first != other:
            return f"{field} is {_shown(first)} in {one[1]}, {_shown(other)} in {two[1]}"
    return ""


def _told(held: Quantization, field: str) -> Any:
    """A field as its file says it: None where the file is silent, `none` where it says that there is nothing."""
    value = getattr(held, field)
    if field == "kv_cache" and value is None and field in held.says:
        return "none"
    return None if value == () and field not in held.says else value


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return (", ".join(value[:4]) + (f" and {len(value) - 4} more" if len(value) > 4 else "")) or "empty"
    return str(value)


def _readings(held: Quantization, source: str) -> Iterator[Reading]:
    for field in _FIELDS:
        value = getattr(held, field)
        if value is not None and value != ():
            yield seen(("quantization", field), value, source, By.FILE)
