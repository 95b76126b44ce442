"""The line of fields in which vLLM's engine prints its configuration: in the start log, and on old `/server_info`s."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.engines.kernel.releases import at_least
from lockllm.engines.shown.log import value

DUMPED = {
    "dtype": "serve.dtype",
    "max_seq_len": "serve.max_model_len",
    "tensor_parallel_size": "serve.tensor_parallel_size",
    "pipeline_parallel_size": "serve.pipeline_parallel_size",
    "data_parallel_size": "serve.data_parallel_size",
    "enforce_eager": "serve.enforce_eager",
    "disable_custom_all_reduce": "serve.disable_custom_all_reduce",
    "enable_chunked_prefill": "serve.enable_chunked_prefill",
    "chunked_prefill_enabled": "serve.enable_chunked_prefill",
    "seed": "serve.seed",
    "trust_remote_code": "serve.trust_remote_code",
}
"""Fields of the engine's dump that are in force as printed."""


def dumped(dump: Mapping[str, str], version: str | None = None) -> Iterator[tuple[str, Any]]:
    """The facts in force that the fields state. `version` tells how the oldest releases print what is off."""
    for name, key in DUMPED.items():
        if name in dump:
            yield key, value(dump[name].removeprefix("torch."))
    load = dump.get("load_format", "").removeprefix("LoadFormat.").strip("'\"").lower()
    if load:
        yield "serve.load_format", load
    if "quantization" in dump:
        yield "serve.quantization", value(dump["quantization"]) or "none"
    yield from _switches(dump, version)
    kept = value(dump.get("kv_cache_dtype"))
    resolved = dump.get("dtype", "").removeprefix("torch.") if kept == "auto" else kept
    if isinstance(resolved, str) and resolved:
        yield "serve.kv_cache_dtype", resolved
    yield from _compilation(dump.get("compilation_config", ""))


def _switches(dump: Mapping[str, str], version: str | None) -> Iterator[tuple[str, Any]]:
    """Prefix caching prints None for off on V0; 0.6.0 to 0.6.3 print neither switch."""
    oldest = version is not None and at_least("0.6.3", version)
    if "enable_prefix_caching" in dump:
        told = value(dump["enable_prefix_caching"])
        if isinstance(told, bool) or not at_least(version, "0.8.0"):
            yield "serve.enable_prefix_caching", bool(told)
    elif oldest:
        yield "serve.enable_prefix_caching", False
    if oldest and "chunked_prefill_enabled" not in dump and "enable_chunked_prefill" not in dump:
        yield "serve.enable_chunked_prefill", False


def _compilation(text: str) -> Iterator[tuple[str, Any]]:
    level = re.search(r'"level": ?(\d)', text[:5000])
    if level:
        yield "serve.compilation_level", int(level.group(1))
    mode = re.search(r"<CompilationMode\.([A-Z_]+): ", text[:50_000])
    if mode:
        yield "serve.compilation_mode", mode.group(1)
    graphs = re.search(r"'cudagraph_mode': <CUDAGraphMode\.([A-Z_]+): ", text[:50_000])
    if graphs:
        yield "serve.cudagraph_mode", graphs.group(1)
