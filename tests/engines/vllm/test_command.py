"""The command that realizes facts: read again it says the same, whatever the release."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from lockllm.engines import Context, Given
from lockllm.engines.kernel.argparse import Take
from lockllm.engines.kernel.values import Kind
from lockllm.engines.vllm import options
from lockllm.engines.vllm.rules import RULES
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import By
from lockllm.facts.registry import fact, seen
from tests.engines.vllm.material import VLLM, facts, failing, given

WORD = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
SCALAR = st.one_of(st.integers(-5, 10**6), st.booleans(), WORD)
OBJECT = st.dictionaries(
    WORD.filter(lambda key: "key" not in key and "token" not in key), st.one_of(SCALAR, st.dictionaries(WORD, SCALAR, max_size=2)),
    min_size=1, max_size=3,
)  # fmt: skip
VALUES: dict[Kind, st.SearchStrategy[str]] = {
    Kind.TEXT: WORD,
    Kind.INT: st.integers(0, 10**6).map(str),
    Kind.NUMBER: st.floats(0.01, 0.99).map(lambda value: f"{value:.4f}"),
    Kind.HUMAN: st.sampled_from(["4k", "4K", "1M", "8192"]),
    Kind.HUMAN_AUTO: st.sampled_from(["4k", "4K", "8192"]),
    Kind.JSON: OBJECT.map(json.dumps),
    Kind.JSON_OR_TEXT: st.one_of(OBJECT.map(json.dumps), WORD),
    Kind.LOOSE: SCALAR.map(json.dumps),
}
SPECIAL = {
    "override_generation_config": st.sampled_from(['{"temperature": 0.5}', '{"top_k": 5, "max_new_tokens": 100}']),
    "lora_modules": st.sampled_from(["a=org/lora", "b=org/other"]),
    "speculative_config": st.sampled_from(
        ['{"model": "org/draft", "num_speculative_tokens": 2}', '{"method": "ngram", "num_speculative_tokens": 3}']
    ),
    "speculative_model": st.sampled_from(["org/draft", "[ngram]"]),
    "generation_config": st.sampled_from(["auto", "vllm"]),
    "chat_template": st.just("{{ messages }}"),
    "tokenizer": st.just("org/tokenizer"),
}
LEFT_OUT = frozenset(
    {"config", "model", "revision", "code_revision", "tokenizer_revision", "chat_template", "spec_model"}
)


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    release = draw(st.sampled_from(options.READ))
    table = [option for option in options.options(release).options if option.name not in LEFT_OUT]
    chosen = draw(st.lists(st.sampled_from(table), max_size=6, unique_by=lambda option: option.name))
    words = ["org/name"]
    for option in chosen:
        value = SPECIAL.get(option.name, VALUES[option.kind])
        flag = draw(st.sampled_from([*option.flags, *option.off]))
        words.append(flag)
        if option.take in (Take.MANY, Take.ANY):
            words += draw(st.lists(value, min_size=1, max_size=2))
        elif option.take not in (Take.SWITCH, Take.BOTH, Take.BOOLEAN):
            words.append(draw(value))
    return release, words


def held(said: Given) -> dict[Path, Any]:
    """What a lock would hold of a command."""
    found = {reading.fact.path: reading.value for reading in (*said.readings, *said.env) if _counts(reading.fact.path)}
    models = [(("checkpoint",), said.model), (("tokenizer",), said.tokenizer), (("draft",), said.draft)]
    models += [(("adapters", name), model) for name, model in said.adapters.items()]
    for group, model in models:
        if model is not None:
            found[(*group, "repo")] = model.text
    return found


def _counts(path: Path) -> bool:
    return path[:2] not in (("serve", "gpu_memory_utilization"), ("serve", "default_chat_template_kwargs"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@drawn(command_lines())
def test_a_command_read_written_and_read_again_says_the_same(drawn_line: tuple[str, list[str]]) -> None:
    release, words = drawn_line
    one = held(given(*words, version=release))
    if any(path[:2] == ("serve", "args") and "" in path for path in one):
        return
    built = VLLM.command(one, Context(version=release))
    again = VLLM.recognise(built.argv)
    assert again is not None
    two = held(VLLM.given(again, built.env, {}, release, False))
    two = {path: value for path, value in two.items() if path[0] != "env" or path in one}
    added = {("serve", "args", "enable_lora")} - set(one)
    assert {path: value for path, value in two.items() if path not in added} == one, built.argv


SPELLED: list[tuple[str, dict[str, Any], list[str], dict[str, str]]] = [
    ("0.32.0", {"serve.dtype": "bfloat16"}, ["--dtype", "bfloat16"], {}),
    ("0.32.0", {"serve.enable_prefix_caching": False}, ["--no-enable-prefix-caching"], {}),
    ("0.8.3", {"serve.enable_chunked_prefill": False}, ["--enable-chunked-prefill=false"], {}),
    ("0.8.3", {"serve.trust_remote_code": False}, [], {}),
    ("0.32.0", {"serve.batch_invariant": True}, [], {"VLLM_BATCH_INVARIANT": "1"}),
    ("0.32.0", {"serve.batch_invariant": False}, [], {}),
    ("0.32.0", {"serve.attention_backend": "FLASH_ATTN"}, ["--attention-backend", "FLASH_ATTN"], {}),
    ("0.12.0", {"serve.attention_backend": "FLASH_ATTN"}, [], {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}),
    ("0.32.0", {"serve.quantization": "none"}, [], {}),
    ("0.32.0", {"serve.dtype": "bfloat16", "serve.kv_cache_dtype": "bfloat16"}, ["--dtype", "bfloat16"], {}),
    ("0.32.0", {"sampling.temperature": 0, "sampling.max_tokens": 9},
     ["--override-generation-config", '{"temperature":0,"max_new_tokens":9}'], {}),
    ("0.32.0", {"serve.gpu_memory_share": 0.5}, ["--gpu-memory-utilization", "0.5"], {}),
    ("0.32.0", {"serve.chat_template_kwargs.enable_thinking": False},
     ["--default-chat-template-kwargs", '{"enable_thinking":false}'], {}),
    ("0.32.0", {"draft.repo": "org/d", "serve.speculative.num_speculative_tokens": 2},
     ["--speculative-config", '{"num_speculative_tokens":2,"model":"org/d"}'], {}),
    ("0.7.3", {"draft.repo": "org/d", "serve.speculative.num_speculative_tokens": 2},
     ["--num-speculative-tokens", "2", "--speculative-model", "org/d"], {}),
    ("0.32.0", {"checkpoint.commit": "a" * 40}, ["--revision", "a" * 40], {}),
    ("0.32.0", {"env.NCCL_ALGO": "Ring"}, [], {"NCCL_ALGO": "Ring"}),
]  # fmt: skip


@pytest.mark.parametrize("version, spec, words, env", SPELLED)
def test_a_fact_is_spelled_as_the_release_takes_it(
    version: str, spec: dict[str, Any], words: list[str], env: dict[str, str]
) -> None:
    held_facts = {parse(key): seen(key, value, "llm.toml", By.PLAN).value for key, value in spec.items()}
    built = VLLM.command({("checkpoint", "repo"): "org/name", **held_facts}, Context(version=version))
    assert list(built.argv) == ["vllm", "serve", "org/name", *words]
    assert dict(built.env) == env
    assert built.notes == ()


def test_what_no_option_can_do_is_said() -> None:
    held_facts = {
        ("sampling", "presence_penalty"): 1.0,
        ("serve", "kv_unified"): True,
        ("serve", "chat_template"): "f" * 64,
    }
    built = VLLM.command(held_facts, Context(version="0.20.0"))
    assert built.argv == ("vllm", "serve", "MODEL")
    assert len(built.notes) == 4
    assert any("MODEL" in note for note in built.notes)
    gone = VLLM.command({("serve", "args", "swap_space"): 4}, Context(version="0.32.0"))
    assert gone.notes[-1] == "vLLM 0.32.0 has no option --swap-space"


def test_the_command_is_taken_by_the_release() -> None:
    built = VLLM.command({("serve", "max_num_seqs"): 8, ("checkpoint", "repo"): "a/b"}, Context(version="0.6.3"))
    again = VLLM.recognise(built.argv)
    assert again is not None
    assert failing(VLLM.given(again, {}, {}, "0.6.3", False).checks) == {}


@pytest.mark.parametrize(
    "key", [key for key, _, _ in RULES] + ["sampling.temperature", "sampling.max_tokens", "serve.rope_scaling"]
)
def test_every_fact_that_a_rule_tells_is_explained(key: str) -> None:
    told = VLLM.where(fact(key))
    assert "set_by" in told
    assert all(told.values())
    assert VLLM.where(fact("serve.kv_unified")) == {}


def test_a_kept_option_is_explained_with_its_releases() -> None:
    assert VLLM.where(fact("serve.args.swap_space"))["set_by"] == "--swap-space (up to 0.17.1)"
    assert "up to 0.14.1" in VLLM.where(fact("env.VLLM_ATTENTION_BACKEND"))["set_by"]
    assert facts([]) == {}
