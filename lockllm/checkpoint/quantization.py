"""Where a checkpoint declares its quantization, whether all places agree, and what the tensors themselves say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.checkpoint.config import CONFIG, text_parts
from lockllm.checkpoint.dialects import canonical
from lockllm.checkpoint.ggml import FILE_TYPES, GUESSED, UNQUANTIZED
from lockllm.checkpoint.scheme import Quantization
from lockllm.facts.observation import By, Check, CheckStatus, Reading
from lockllm.facts.registry import seen

SIDECARS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
_FIELDS = tuple(field.name for field in msgspec.structs.fields(Quantization))
_COMPARED = ("method", "scheme", "bits", "group_size", "kv_cache", "symmetric")
_NONE = Quantization(method="none")
Declaration = tuple[Quantization, str]


def declarations(files: Mapping[str, Mapping[str, Any]]) -> list[Declaration]:
    """Every place that declares a quantization, the one that counts first."""
    found = []
    config = files.get(CONFIG, {})
    for part, at in text_parts(config):
        for key in ("quantization_config", "compression_config"):
            if isinstance(part.get(key), dict) and part[key]:
                default = {"quant_method": "compressed-tensors"} if key == "compression_config" else {}
                found.append((canonical({**default, **part[key]}), f"{at}.{key}" if ": " in at else f"{at}: {key}"))
    built = config.get("pretrained_config")
    held = built.get("quantization") if isinstance(built, dict) else None
    if isinstance(held, dict) and held.get("quant_algo"):
        found.append((canonical({"quant_method": "modelopt", **held}), f"{CONFIG}: pretrained_config.quantization"))
    for name in SIDECARS:
        sidecar = files.get(name)
        if sidecar:
            method = {"hf_quant_config.json": "modelopt", "quant_config.json": "awq"}.get(name)
            inner = sidecar.get("quantization_config")
            value = inner if isinstance(inner, dict) else sidecar
            found.append((canonical({**({"quant_method": method} if method else {}), **value}), name))
    params = files.get("params.json", {})
    keys = [key for key in ("quantization", "quantization_config") if isinstance(params.get(key), dict) and params[key]]
    return [*found, *((canonical(params[key]), f"params.json: {key}") for key in keys)]


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


def agree(found: list[Declaration]) -> Check | None:
    """Whether all declarations say the same of what they both say."""
    if not found:
        return None
    name = "check.quantization_agrees"
    first, source = found[0]
    for other, where in found[1:]:
        for field in _COMPARED:
            one, two = getattr(first, field), getattr(other, field)
            if one is not None and two is not None and one != two:
                detail = f"{field} is {one} in {source}, {two} in {where}"
                return Check(
                    name, CheckStatus.FAIL, detail, f"{source}, {where}", "remove the file that does not belong here"
                )
    return Check(name, CheckStatus.PASS, f"declared in {', '.join(where for _, where in found)}", source)


def _readings(held: Quantization, source: str) -> Iterator[Reading]:
    for field in _FIELDS:
        value = getattr(held, field)
        if value is not None and value != ():
            yield seen(("quantization", field), value, source, By.FILE)
