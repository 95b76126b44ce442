"""What rules ask of a GPU: its memory, compute capability and platform, as observed or as its name tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lockllm.facts.fact import Path
from lockllm.facts.types import memory_bytes

_KNOWN: tuple[tuple[str, float, float], ...] = (
    ("gb300|b300", 10.3, 268), ("gb200|b200", 10.0, 178), ("gb10", 12.1, 119), ("rtx pro 6000", 12.0, 95),
    ("rtx 50[0-9]0", 12.0, 0), ("h200|gh200 1[24]4", 9.0, 140), ("gh200", 9.0, 94), ("h20-3e", 9.0, 140),
    ("h20", 9.0, 95), ("h100 nvl|h800 nvl", 9.0, 93), ("h100|h800", 9.0, 79), ("a100.*40", 8.0, 39),
    ("a100.*80|a800.*80", 8.0, 79), ("a30", 8.0, 24), ("l40|rtx 6000 ada|l20", 8.9, 44), ("l4|l2", 8.9, 22),
    ("rtx 40[0-9]0", 8.9, 0), ("a40|a6000", 8.6, 44), ("a10|a16|a2", 8.6, 22), ("rtx 30[0-9]0", 8.6, 0),
    ("t4|rtx 20[0-9]0", 7.5, 15), ("v100.*32", 7.0, 31), ("v100", 7.0, 15), ("p100", 6.0, 15), ("mi300a", 0, 127),
    ("mi300x|mi308x", 0, 191), ("mi325x", 0, 255), ("mi35[05]x", 0, 287), ("mi210", 0, 63),
)  # fmt: skip
"""Name -> compute capability and total memory in GiB, rounded down (0: not told by the name). First match counts."""


def name(host: Mapping[Path, Any]) -> str:
    """The product name, lower case; empty where it is not known."""
    for key in ("gpu_product", "gpu"):
        value = host.get(("host", key))
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, str) and value:
            return value.lower()
    return ""


def memory_gib(host: Mapping[Path, Any]) -> float | None:
    """Total memory of one GPU in GiB."""
    value = host.get(("host", "gpu_memory"))
    if isinstance(value, str):
        try:
            return memory_bytes(value) / 2**30
        except ValueError:
            pass
    known = _known(host)
    return known[1] if known and known[1] else None


def capability(host: Mapping[Path, Any]) -> float | None:
    """Compute capability of an NVIDIA GPU: 9.0."""
    value = host.get(("host", "compute_capability"))
    if isinstance(value, str) and re.fullmatch(r"\d+\.\d+", value):
        return float(value)
    known = _known(host)
    return known[0] if known and known[0] else None


def platform(host: Mapping[Path, Any], version: str | None = None) -> str | None:
    """`cuda`, `rocm`, `cpu`.

    As observed, as the GPU's name or the engine's build label tells; None where nothing does.
    """
    label = (version or "").partition("+")[2]
    for word, told in (("cpu", "cpu"), ("rocm", "rocm"), ("xpu", "xpu"), ("tpu", "tpu"), ("cu", "cuda")):
        if label.startswith(word):
            return told
    value = host.get(("host", "platform"))
    if isinstance(value, str) and value:
        return value
    product = name(host)
    if not product:
        return None
    return "rocm" if re.search(r"amd|instinct|radeon|\bmi\d", product) else "cuda"


def _known(host: Mapping[Path, Any]) -> tuple[float, float] | None:
    product = name(host).replace("-", " ")
    if not product or "mig" in product:
        return None
    for pattern, generation, memory in _KNOWN:
        if re.search(rf"(?<![a-z0-9])(?:{pattern.replace('-', ' ')})", product):
            return generation, float(memory)
    return None
