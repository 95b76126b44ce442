"""What a llama-server's start log shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lockllm.engines.llamacpp.http import scheme
from lockllm.engines.shown.llama_lines import read, readings
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import row_of, seen

_VERBOSE = "start the server with -lv 4, which prints it"
_HIDDEN = (
    "serve.kv_cache_dtype", "serve.flash_attn", "serve.max_num_batched_tokens", "serve.ubatch_size", "serve.kv_unified",
    "serve.max_model_len", "serve.max_num_seqs",
)  # fmt: skip
_NEVER = ("chat_template.sha256", "serve.enable_prefix_caching")


def from_log(lines: Sequence[str]) -> Iterator[Reading | Unobserved]:
    """The facts of the last start; what this verbosity hides is told, with the switch that shows it."""
    state = read(lines)
    if not state.facts and state.build is None:
        return
    yield seen("engine.name", "llama.cpp", "log", By.LOG)
    shown = set()
    for reading in readings(state):
        if reading.fact.path == ("quantization", "scheme"):
            quantized = scheme(str(reading.value))
            if quantized is None:
                continue
            reading = msgspec.structs.replace(reading, value=quantized)
        shown.add(reading.fact.key)
        yield reading
    if "engine.version" not in shown:
        yield Unobserved(
            ("engine", "version"), "the log names no build: it was made outside git, or -lv is below 4", _VERBOSE
        )
    for key in _HIDDEN:
        if key not in shown:
            yield Unobserved(row_of(key).path, "the log does not say it at this verbosity", _VERBOSE)
    for key in _NEVER:
        yield Unobserved(
            row_of(key).path, "llama.cpp's log never says it", "ask the running server, or read its command line"
        )
    yield Unobserved(("sampling",), "llama.cpp's log never says it", "ask the running server's /props")
