"""What real servers showed, asked again over HTTP: each pair of configurations differs in what was changed, no more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts.observation import Observation
from lockllm.facts.registry import dump
from lockllm.observe import Request, observe
from tests.observe.test_observe import serving

HERE = Path(__file__).parent
FOLDERS = {
    "sglang": "sglang/data/captures",
    "vllm": "vllm/data/captures",
    "transformers": "transformers/data/captures",
    "llama.cpp": "llamacpp/data/captures/llama.cpp-server-b11434",
    "xllamacpp": "llamacpp/data/captures/xllamacpp-2026.10.11549",
    "llama-cpp-python": "llamacpp/data/captures/llama-cpp-python-0.3.36",
}
CHANGED: Mapping[tuple[str, str, str], frozenset[str]] = {
    ("sglang", "A-default", "B-changed"): frozenset(
        """
        checkpoint.weight_version serve.chat_template serve.chunked_prefill_size serve.dtype serve.enable_prefix_caching
        serve.generation_config
        serve.max_model_len serve.max_num_seqs serve.seed sampling.min_p sampling.repetition_penalty
        sampling.temperature sampling.top_k sampling.top_p
        """.split()
    ),
    ("vllm", "A-default-dev", "C-changed-dev"): frozenset(
        """
        chat_template.sha256 serve.dtype serve.enable_prefix_caching serve.enforce_eager serve.generation_config
        serve.kv_cache_dtype serve.max_model_len serve.seed
        """.split()
    ),
    ("vllm", "B-prod-small-llama", "D-prod-smollm2"): frozenset(),
    ("transformers", "A-default", "B-nomodel-cb-fp32"): frozenset({"checkpoint.path", "engine.name"}),
    ("llama.cpp", "A-default", "B-changed"): frozenset(
        """
        chat_template.sha256 sampling.seed sampling.temperature sampling.top_k serve.max_model_len serve.max_num_seqs
        serve.seed
        """.split()
    ),
    ("xllamacpp", "A-default", "B-changed"): frozenset(
        {"sampling.temperature", "serve.max_model_len", "serve.max_num_seqs"}
    ),
    ("llama-cpp-python", "A-default", "B-changed"): frozenset(),
}
UNSEEN: Mapping[tuple[str, str], frozenset[str]] = {
    ("sglang", "A-default"): frozenset(
        {"serve.dtype", "serve.kv_cache_dtype", "serve.quantization", "sampling.temperature", "sampling.top_k"}
    ),
    ("sglang", "B-changed"): frozenset({"serve.chat_template", "serve.kv_cache_dtype", "serve.quantization"}),
    ("vllm", "B-prod-small-llama"): frozenset(
        {"serve.max_num_seqs", "serve.generation_config", "serve.batch_invariant"}
    ),
    ("transformers", "A-default"): frozenset({"serve.dtype", "serve.attention_backend", "serve.continuous_batching"}),
    ("llama.cpp", "B-changed"): frozenset(
        {"serve.enable_prefix_caching", "serve.kv_cache_dtype", "serve.flash_attn", "serve.ubatch_size"}
    ),
    ("xllamacpp", "B-changed"): frozenset({"serve.enable_prefix_caching", "engine.build"}),
    ("llama-cpp-python", "B-changed"): frozenset(
        {"serve.max_model_len", "serve.flash_attn", "serve.kv_cache_dtype", "serve.max_num_batched_tokens"}
    ),
}
"""What was set and no endpoint shows."""


def look(engine: str, case: str) -> Observation:
    """A server that answers as that one did."""
    bodies = {}
    for path in sorted((HERE / FOLDERS[engine] / case).glob("get-*.json")):
        kept = json.loads(path.read_text())
        if kept["status"] == 200 and isinstance(kept.get("body_json"), (dict, list)):
            bodies[kept["request"]["path"].partition("?")[0]] = kept["body_json"]
    with serving(bodies, {}) as url:
        return observe(Request(server=url, timeout=5.0, gpu="none", cache="off"))


def told(seen: Observation) -> dict[str, Any]:
    """The facts of an observation, the best witness of each."""
    found: dict[str, Any] = {}
    for each in seen.readings:
        found.setdefault(each.fact.key, dump(each.fact, each.value))
    return found


@pytest.mark.parametrize(("engine", "before", "after"), CHANGED, ids=lambda word: word)
def test_two_configurations_differ_in_what_was_changed(engine: str, before: str, after: str) -> None:
    one, other = told(look(engine, before)), told(look(engine, after))
    moved = {key for key in {*one, *other} if one.get(key, "unseen") != other.get(key, "unseen")}
    assert moved == CHANGED[engine, before, after]


def test_out_of_its_development_mode_a_server_shows_less_and_nothing_else() -> None:
    one, other = told(look("vllm", "A-default-dev")), told(look("vllm", "B-prod-small-llama"))
    assert set(other) < set(one)
    assert {key for key in other if one[key] != other[key]} == {"serve.max_model_len"}


@pytest.mark.parametrize(("engine", "case"), UNSEEN, ids=lambda word: word)
def test_what_no_endpoint_shows_is_unknown_and_says_who_would(engine: str, case: str) -> None:
    seen = look(engine, case)
    gaps = {".".join(each.path): each for each in seen.unobserved}
    assert UNSEEN[engine, case] <= set(gaps)
    assert not UNSEEN[engine, case] & set(told(seen))
    for key in UNSEEN[engine, case]:
        assert gaps[key].reason
        assert any(word in gaps[key].fix for word in ("log", "own host", "on that host", "git checkout", "checkpoint"))
