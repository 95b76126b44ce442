"""What an option of llama-server is where nobody types it: constants of the builds that were read, b11434 to b11549."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines.kernel.omitted import option, version
from lockllm.engines.llamacpp import build as builds
from lockllm.engines.llamacpp.findings import READ
from lockllm.facts.fact import Path

_TABLE = """
threads -1 | cpu_mask "" | cpu_strict 0 | prio 0 | poll 50 | keep 0 | escape true | rope_freq_base 0
rope_freq_scale 0 | yarn_orig_ctx 0 | yarn_ext_factor -1 | yarn_attn_factor -1 | yarn_beta_slow -1 | yarn_beta_fast -1
kv_offload true | repack true | load_mode "auto" | lazy_mode "auto" | moe_cache_mib 0 | main_gpu 0 | fit "on"
fit_target 1024 | fit_ctx 4096 | op_offload true | ctx_checkpoints 32 | checkpoint_min_step 8192 | cache_idle_slots true
context_shift false | warmup true | mmproj_auto true | mmproj_offload true | mtmd_batch_max_tokens 1024 | video_fps 4
video_timestamp_interval 5000 | embd_normalize 2 | threads_http -1 | models_max 4 | reasoning_format "auto"
reasoning "auto" | reasoning_effort "default" | reasoning_budget -1 | reasoning_preserve true | models_autoload true
spec_draft_type_k "f16" | cache_type_k_draft "f16" | cache_type_v_draft "f16"
"""
_FACTS: Mapping[Path, Any] = {
    ("serve", "ctx_size"): 0, ("serve", "cache_type_k"): "f16", ("serve", "cache_type_v"): "f16",
    ("serve", "gpu_layers"): "auto", ("serve", "flash_attn"): "auto", ("serve", "max_num_seqs"): "auto",
    ("serve", "samplers"): "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
    ("serve", "sampler_seq"): "edskypmxt", ("serve", "top_nsigma"): -1.0, ("serve", "xtc_probability"): 0.0,
    ("serve", "xtc_threshold"): 0.1, ("serve", "typical"): 1.0, ("serve", "repeat_last_n"): 64,
    ("serve", "dry_multiplier"): 0.0, ("serve", "dry_base"): 1.75, ("serve", "dry_allowed_length"): 2,
    ("serve", "dry_penalty_last_n"): 64, ("serve", "adaptive_target"): -1.0, ("serve", "adaptive_decay"): 0.9,
    ("serve", "dynatemp_range"): 0.0, ("serve", "dynatemp_exp"): 1.0, ("serve", "mirostat"): 0,
    ("serve", "mirostat_lr"): 0.1, ("serve", "mirostat_ent"): 5.0, ("serve", "predict"): -1,
}  # fmt: skip
"""Facts that hold an option as it was typed."""


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving the option out; none where that is not known."""
    build = builds.number(version(known))
    if build is None or not READ <= build <= (builds.number(builds.NEWEST) or 0):
        return ()
    if path in _FACTS:
        return (_FACTS[path],)
    return (_KEPT[option(path)],) if path[:2] == ("serve", "args") and option(path) in _KEPT else ()


def _kept() -> Mapping[str, Any]:
    import json

    entries = (entry.split() for line in _TABLE.strip().splitlines() for entry in line.split("|"))
    return {name: json.loads(text) for name, text in entries}


_KEPT = _kept()
