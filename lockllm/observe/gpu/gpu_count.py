"""How many GPUs a server uses on this node, by its parallel sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm import engines
from lockllm.engines import Given
from lockllm.facts.fact import Path
from lockllm.observe.gpu.gpu_readings import GpuCount

_PLACED = ("distributed_executor_backend", "data_parallel_backend", "orchestrator_type")
"""Options whose `ray` lets Ray place workers on any node of its cluster."""
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def used(held: Mapping[Path, Any], given: Given | None) -> GpuCount | None:
    """GPUs of this node, or None where no parallel size is known."""
    sizes = {name: size for name in _SIZES if isinstance(size := held.get(("serve", name)), int) and size > 0}
    if "tensor_parallel_size" not in sizes:
        return _by_split(held)
    per_node = given.per_node if given is not None else {}
    engine = given.engine if given is not None else held.get(("engine", "name"))
    identity = engines.identity(engine)
    if identity.shares_gpus is not None and identity.shares_gpus(held):
        sizes.pop("data_parallel_size", None)
    for name in identity.more_sizes:
        if isinstance(extra := held.get(("serve", "args", name)), int) and extra > 1:
            sizes[name] = extra
    local = per_node.get("data_parallel_size_local")
    if isinstance(local, int) and "data_parallel_size" in sizes:
        sizes["data_parallel_size"] = local
    elif per_node.get("data_parallel_rank") is not None:
        sizes["data_parallel_size"] = 1
    count = 1
    for size in sizes.values():
        count *= size
    each = count // max(1, sizes.get("data_parallel_size", 1))
    nodes = per_node.get("nnodes")
    if isinstance(nodes, int) and nodes > 1:
        count, each = max(1, count // nodes), max(1, each // nodes)
    told = " x ".join(f"{name} {size}" for name, size in sizes.items() if size > 1) or "one GPU"
    spread = any(held.get(("serve", "args", name)) == "ray" for name in _PLACED)
    return GpuCount(
        count, f"{told}{f', over {nodes} nodes' if isinstance(nodes, int) and nodes > 1 else ''}", each, spread
    )


def _by_split(held: Mapping[Path, Any]) -> GpuCount | None:
    """llama.cpp uses every visible device unless options restrict it to one or none."""
    if held.get(("serve", "split_mode")) == "none":
        return GpuCount(1, "split_mode none")
    layers = held.get(("serve", "gpu_layers"))
    return GpuCount(0, "gpu_layers 0", 0) if isinstance(layers, int) and layers == 0 else None
