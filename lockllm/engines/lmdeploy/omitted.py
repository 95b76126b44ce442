"""What an option of LMDeploy is where nobody types it: constants of `cli/serve.py` and `cli/utils.py` at 0.18.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines.kernel.omitted import plain
from lockllm.facts.fact import Path

_KEPT: Mapping[str, Any] = {
    "backend": "turbomind", "cp": 1, "nnodes": 1, "quant_policy": 0, "cache_max_entry_count": 0.8, "num_gpu_blocks": 0,
    "cache_block_seq_len": 64, "max_prefill_token_num": 8192, "num_tokens_per_iter": 0, "max_prefill_iters": 1, "async": 1,
    "communicator": "nccl", "moe_a2a_backend": "auto", "rope_scaling_factor": 0.0, "kernel_block_size": -1,
    "vision_max_batch_size": 1, "prefix_cache_state_budget": 0, "prefix_cache_decode_state_interval": 0,
}  # fmt: skip
_FACTS: Mapping[Path, Any] = {("serve", "dtype"): "auto", ("serve", "speculative", "num_speculative_tokens"): 1}


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving the option out; none where that is not known."""
    return plain(_KEPT, _FACTS, "0.18.0", "0.18.0", path, known)
