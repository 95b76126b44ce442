"""Product strings of GPUs and the canonical GPU behind each: drivers rename products, but a GPU stays what it is."""

from __future__ import annotations

import re
from functools import lru_cache

_VENDOR = re.compile(r"\b(nvidia|tesla|quadro|geforce|amd|instinct|radeon)\b", re.IGNORECASE)
_FILLER = re.compile(r"\b(graphics device|gpu|accelerator)\b", re.IGNORECASE)
_SIZE = re.compile(r"\b(\d+)\s*g[ib]?b?\b", re.IGNORECASE)


@lru_cache(maxsize=4096)
def canonical(product: str) -> str:
    """One name for all product strings of one GPU: `Tesla T4` and `NVIDIA T4` are both `T4`.

    The form factor (PCIe, SXM, NVL) and the memory size stay: an H100 PCIe is not an H100 SXM, and 40 GB are not 80.
    """
    text = _FILLER.sub(" ", _VENDOR.sub(" ", product)).upper()
    text = _SIZE.sub(lambda found: f"{found.group(1)}GB", text)
    words = re.findall(r"[A-Z0-9.+]+", text)
    return " ".join(words) or product.strip()
