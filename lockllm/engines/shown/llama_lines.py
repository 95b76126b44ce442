"""Lines that llama.cpp's library and server print at start: which means which fact.

Wording of builds b5036 to b11549 as they ran. A line is evidence, its absence is not. From 2026-06 on the library's
lines show only with `-lv 4`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from lockllm.facts.observation import By, Reading
from lockllm.facts.registry import row_of, seen

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MOST_LINES = 50_000
_LONGEST = 2_000
_MOST_TEXT = 16 << 20
_BANNERS = (
    re.compile(r"(?:^|\s)build: \d+ \([0-9a-z]+\) with "),
    re.compile(r"build_info: b\d+-"),
    re.compile(r"llama_server: initializing \.\.\."),
)
_BUILDS = (
    re.compile(r"(?:^|\s)build: (?P<n>\d+) \((?P<c>[0-9a-z]+)\) with "),
    re.compile(r"build_info: b(?P<n>\d+)-(?P<c>\w+)"),
    re.compile(r"common_params_print_info: build (?P<n>\d+) \((?P<c>\w+)\) with"),
)
_DEVICE = re.compile(r"(?:^|\s)Device (?P<i>\d+): (?P<n>.+?), compute capability (?P<c>[\d.]+)")
_KV = re.compile(r"kv_size = \d+,.*?type_k = '(?P<k>\w+)', type_v = '(?P<v>\w+)'")
_KV_CACHE = re.compile(r"llama_kv_cache\w*: size = +[\d.]+ MiB \(.*?\), K \((?P<k>\w+)\):.*?, V \((?P<v>\w+)\)")
_SLOTS = re.compile(r"initializing, n_slots = (?P<n>\d{1,18}), n_ctx_slot = (?P<c>\d{1,18}), kv_unified = '(?P<u>\w+)'")
_FLASH = {"0": "disabled", "1": "enabled", "enabled": "enabled", "disabled": "disabled"}
_TRUTH = {"0": False, "1": True, "false": False, "true": True}


class State(msgspec.Struct):
    """What the lines of one start say, by key: value and the line's number."""

    facts: dict[str, tuple[object, int]] = {}
    devices: dict[str, tuple[str, str, int]] = {}
    build: tuple[str, str, int] | None = None

    def put(self, key: str, value: object, line: int) -> None:
        """The last word wins."""
        self.facts[key] = (value, line)


def _whole(text: str) -> object:
    return int(text) if len(text) < 19 else None


_Convert = Callable[[str], object]
_LINES: tuple[tuple[re.Pattern[str], tuple[tuple[str, _Convert], ...]], ...] = tuple(
    (re.compile(pattern), tuple(keys))
    for pattern, *keys in (
        (r"load_model: loading model '([^']+)'", ("checkpoint.path", str)),
        (r"llama_model_loader: loaded meta data with .*? from (.+?) \(version", ("checkpoint.path", str)),
        (r"(?:print_info|llm_load_print_meta): arch +(?:= )(\w+)", ("checkpoint.architecture", str)),
        (
            r"(?:print_info|llm_load_print_meta): (?:file type|model ftype) +(?:= )(.+?) *$",
            ("quantization.scheme", lambda text: text),
        ),
        (
            r"(?:llama_context|llama_new_context_with_model): n_ctx_(?:per_)?seq +(?:= )(\d+)$",
            ("serve.max_model_len", _whole),
        ),
        (
            r"(?:llama_context|llama_new_context_with_model): n_batch +(?:= )(\d+)$",
            ("serve.max_num_batched_tokens", _whole),
        ),
        (r"(?:llama_context|llama_new_context_with_model): n_ubatch +(?:= )(\d+)$", ("serve.ubatch_size", _whole)),
        (r"(?:llama_context|llama_new_context_with_model): n_seq_max +(?:= )(\d+)$", ("serve.max_num_seqs", _whole)),
        (r"(?:llama_context|llama_new_context_with_model): flash_attn +(?:= )(\w+)$", ("serve.flash_attn", _FLASH.get)),
        (r"(?:llama_context|llama_new_context_with_model): kv_unified +(?:= )(\w+)$", ("serve.kv_unified", _TRUTH.get)),
        (r"Flash Attention was auto, set to (enabled|disabled)", ("serve.flash_attn", str)),
        (r"resolve_fused_ops: Flash Attention (enabled|disabled)$", ("serve.flash_attn", str)),
        (r"llama_kv_cache: (?:attn_rot_|n_rot_)k = (\d+)", ("kernels.kv_rotation", _whole)),
        (r"(?:load_tensors|llm_load_tensors): offloaded (\d+/\d+) layers to GPU", ("kernels.offloaded_layers", str)),
        (r"initializing slots, n_slots = (\d+)", ("serve.max_num_seqs", _whole)),
        (r"new slot,? n_ctx(?:_slot)? = (\d+)", ("serve.max_model_len", _whole)),
        (r"prompt cache is enabled, size limit: (\d+) MiB", ("serve.cache_ram", _whole)),
        (r"(prompt cache is disabled)", ("serve.cache_ram", lambda _: 0)),
    )
)


def clean(line: str) -> Iterator[str]:
    """The parts of a physical line: no colors, progress bars apart."""
    for part in _ANSI.sub("", line[:_LONGEST]).split("\r"):
        yield part.rstrip("\n")


def read(lines: Sequence[str]) -> State:
    """What the last start in a log says."""
    state = State()
    started = False
    size = 0
    for number, line in enumerate(lines[:_MOST_LINES], 1):
        size += min(len(line), _LONGEST)
        if size > _MOST_TEXT:
            break
        for text in clean(line):
            if any(banner.search(text) for banner in _BANNERS):
                state = State(devices={} if started else state.devices)
                started = False
            started |= "listening" in text or "llama_context:" in text or "load_model:" in text
            _line(text, number, state)
    return state


def readings(state: State) -> Iterator[Reading]:
    """The facts of a start, each with the line that says so."""
    if state.build is not None:
        build, commit, line = state.build
        if int(build) > 1:
            yield seen("engine.version", f"b{int(build)}", f"log line {line}", By.LOG)
        if commit != "unknown" and len(commit) >= 7:
            yield seen("engine.build", commit, f"log line {line}", By.LOG)
    types = [state.facts.get(f"serve.cache_type_{letter}") for letter in "kv"]
    if all(types):
        (key, line), (value, _) = types  # type: ignore[misc]
        yield seen("serve.kv_cache_dtype", key if key == value else f"{key}/{value}", f"log line {line}", By.LOG)
    for name, (fact_value, line) in state.facts.items():
        yield seen(row_of(name).path, fact_value, f"log line {line}", By.LOG)
    names = {product for product, _, _ in state.devices.values()}
    if len(names) == 1:
        product, capability, line = next(iter(state.devices.values()))
        yield seen("host.gpu_product", product, f"log line {line}", By.LOG)
        yield seen("host.compute_capability", capability, f"log line {line}", By.LOG)


def _line(text: str, number: int, state: State) -> None:
    for pattern in _BUILDS:
        if (found := pattern.search(text)) and len(found["n"]) < 8:
            state.build = (found["n"], found["c"], number)
    if found := _DEVICE.search(text):
        state.devices.setdefault(found["i"], (found["n"], found["c"], number))
    for pattern in (_KV, _KV_CACHE):
        if found := pattern.search(text):
            state.put("serve.cache_type_k", found["k"], number)
            state.put("serve.cache_type_v", found["v"], number)
    if found := _SLOTS.search(text):
        state.put("serve.max_num_seqs", int(found["n"]), number)
        state.put("serve.max_model_len", int(found["c"]), number)
        if found["u"] in _TRUTH:
            state.put("serve.kv_unified", _TRUTH[found["u"]], number)
    for pattern, keys in _LINES:
        if found := pattern.search(text):
            for key, convert in keys:
                value = convert(found[1])
                if value is not None:
                    state.put(key, value, number)
