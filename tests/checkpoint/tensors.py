"""Writes small real safetensors files from names, dtypes and shapes; every number is zero."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

_BITS = {
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "I64": 64,
}
Tensors = Mapping[str, tuple[str, list[int]]]


def write(path: Path, tensors: Tensors) -> None:
    """One file that holds these tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * _BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(at))


def checkpoint(folder: Path, config: Mapping[str, object], tensors: Tensors, name: str = "model.safetensors") -> Path:
    """A folder with a configuration and one file of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {"architectures": ["Qwen3ForCausalLM"], "torch_dtype": "bfloat16", "eos_token_id": 1}
    (folder / "config.json").write_text(json.dumps({**plain, **config}))
    write(folder / name, tensors)
    return folder
