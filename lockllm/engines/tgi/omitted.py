"""What an option of TGI is where nobody types it: constants of the launcher at v3.3.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines.kernel.omitted import plain
from lockllm.facts.fact import Path

_KEPT: Mapping[str, Any] = {
    "max_waiting_tokens": 20, "waiting_served_ratio": 0.3, "max_concurrent_requests": 128, "cuda_memory_fraction": 1.0,
    "cuda_graphs": "1,2,4,8,16,32",
}  # fmt: skip
_FACTS: Mapping[Path, Any] = {("serve", "gpu_memory_share"): 1.0}


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving the option out; none where that is not known."""
    return plain(_KEPT, _FACTS, "3.3.7", "3.3.7", path, known)
