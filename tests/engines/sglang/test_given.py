"""SGLang's command lines as its releases read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st

from lockllm.engines import Context, Form, Given, load
from lockllm.engines.kernel.argparse import Option, Take
from lockllm.engines.kernel.values import Kind
from lockllm.engines.sglang import options
from lockllm.facts.observation import CheckStatus, Raw
from tests.engines import replay

HERE = Path(__file__).parent
ROWS = replay.rows(HERE)
SGLANG = load("sglang")


def given(
    *args: str, version: str | None = "0.5.23", env: Any = None, files: Any = None, program: str = "module"
) -> Given:
    words = ("sglang", "serve") if program == "serve" else ("python3", "-m", "sglang.launch_server")
    return SGLANG.given(Form(engine="sglang", args=args, program=words), env or {}, files or {}, version, False)


def failing(found: Given) -> dict[str, str]:
    return {check.name: check.detail for check in found.checks if check.status is CheckStatus.FAIL}


@pytest.mark.parametrize("row", [row for row in ROWS if row.get("run_as")], ids=lambda row: row["id"])
def test_a_real_command_gives_what_it_says(row: dict[str, Any]) -> None:
    assert replay.wrong(row) == []


@pytest.mark.parametrize("version", options.VERSIONS)
def test_every_option_of_a_release_is_read(version: str) -> None:
    for option in options.of(version).options:
        for flag in option.flags:
            words = [flag] if option.take in (Take.SWITCH, Take.BOTH) else [flag, _value(option, version)]
            found = given(*words, version=version)
            gone = options.standing(version).get(option.name) == "gone"
            assert ("check.flags_accepted" in failing(found)) is gone
            told = [found.readings, found.paths, found.per_node, found.operational, found.secrets, found.auto]
            named = [found.model, found.tokenizer, found.draft, found.adapters]
            assert any(told) or any(named) or options.standing(version).get(option.name) == "idle", flag


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    version = draw(st.sampled_from(options.VERSIONS))
    words: list[str] = []
    for option in draw(
        st.lists(st.sampled_from(options.of(version).options), max_size=8, unique_by=lambda each: each.name)
    ):
        flag = draw(st.sampled_from(option.flags))
        if option.name == "config":
            continue
        if option.take in (Take.SWITCH, Take.BOTH):
            words.append(draw(st.sampled_from([flag, *option.off])))
        elif option.take in (Take.MANY, Take.ANY):
            words += [flag, *draw(st.lists(st.just(_value(option, version)), min_size=1, max_size=3))]
        else:
            words += draw(st.sampled_from([[flag, _value(option, version)], [f"{flag}={_value(option, version)}"]]))
    return version, words


@settings(deadline=None, max_examples=150)
@over(lines())
def test_a_command_made_from_what_a_line_gives_says_the_same(line: tuple[str, list[str]]) -> None:
    version, words = line
    first = given(*words, version=version)
    told = {each.fact.path: each.value for each in first.readings if not isinstance(each.value, Raw)}
    made = SGLANG.command(told, Context(version=version))
    start = 2 if made.argv[0] == "sglang" else 3
    again = given(*made.argv[start:], version=version, env=made.env, program="serve" if start == 2 else "module")
    assert {each.fact.path: each.value for each in again.readings} == told


def _value(option: Option, version: str) -> str:
    words = options.choices(version).get(option.name)
    if words:
        return min(words - {"auto"} or words)
    if option.kind in (Kind.INT, Kind.SI):
        return "4"
    if option.kind is Kind.NUMBER:
        return "0.5"
    if option.kind in (Kind.STRICT_JSON, Kind.JSON_OR_TEXT):
        return '{"a": {"b": 1}}'
    return "org/name" if "path" in option.name or option.name == "model" else "word"


def test_names_may_be_shortened_where_one_is_meant() -> None:
    assert replay.facts(given("--tp", "2", "--disable-radix").readings) == {
        "serve.tensor_parallel_size": 2,
        "serve.enable_prefix_caching": False,
    }
    assert "ambiguous" not in str(failing(given("--tp=2")))
    assert "it may be" in failing(given("--cuda-graph-max-b", "8"))["check.flags_accepted"]


def test_underscores_are_no_dashes_here() -> None:
    assert "--random_seed" in failing(given("--random_seed", "42"))["check.flags_accepted"]


def test_an_option_of_another_release_is_refused() -> None:
    assert failing(given("--enable-ep-moe", version="0.4.4")) == {}
    assert "no such option" in failing(given("--enable-ep-moe", version="0.5.23"))["check.flags_accepted"]
    assert failing(given("--enable-ep-moe", version=None)) == {}


def test_a_release_newer_than_the_table_is_not_judged() -> None:
    checks = given("--brand-new", "1", version="0.6.0").checks
    assert [check.status for check in checks] == [CheckStatus.UNKNOWN]
    assert replay.facts(given("--brand-new", "1", version="0.6.0").readings) == {"serve.args.brand_new": 1}


YAML = "model-path: org/m\ntp-size: 2\nenable-metrics: true\ndisable-radix-cache: false\nchunked-prefill-size: 64\n"


def test_the_command_line_wins_over_the_file() -> None:
    found = given("--config", "c.yaml", "--chunked-prefill-size", "128", files={"c.yaml": YAML})
    told = replay.facts(found.readings)
    assert told["serve.tensor_parallel_size"] == 2
    assert told["serve.chunked_prefill_size"] == 128
    assert found.model is not None
    assert found.model.source == "c.yaml: model-path"


def test_false_of_a_switch_in_the_file_is_dropped_and_told() -> None:
    found = given("--config", "c.yaml", files={"c.yaml": YAML})
    assert "disable-radix-cache: false is dropped" in failing(found)["check.settings_take_effect"]
    assert "serve.enable_prefix_caching" not in replay.facts(found.readings)


def test_a_file_given_with_an_equals_sign_is_ignored_and_told() -> None:
    found = given("--config=c.yaml", files={"c.yaml": YAML})
    assert found.model is None
    assert "accepted and ignored" in failing(found)["check.settings_take_effect"]


def test_secrets_stay_secrets() -> None:
    found = given(
        "--api-key", "sk-1", "--admin-api-key=sk-2", "--ssl-keyfile-password", "pw-3", "--watermark-key", "wm-4"
    )
    assert set(found.secrets) == {"sk-1", "sk-2", "pw-3", "wm-4"}
    assert not any(secret in repr((found.readings, found.warnings, found.checks)) for secret in found.secrets)


def test_a_model_may_stand_first_after_serve() -> None:
    found = given("org/m", "--model-type", "llm", "--tp", "2", program="serve")
    assert found.model is not None
    assert found.model.text == "org/m"
    assert failing(found) == {}


def test_variables_are_read_by_name_only() -> None:
    env = {
        "SGLANG_DEFAULT_THINKING": "1",
        "NCCL_ALGO": "Ring",
        "SGLANG_API_KEY": "sk-9",
        "SGLANG_SIMULATE_ACC_LEN": "3",
    }
    found = given("--tp", "2", env=env)
    assert {each.fact.key for each in found.env} == {
        "env.SGLANG_DEFAULT_THINKING", "env.NCCL_ALGO", "env.SGLANG_SIMULATE_ACC_LEN",
    }  # fmt: skip
    assert "SGLANG_SIMULATE_ACC_LEN falsifies" in failing(found)["check.settings_take_effect"]
    assert "sk-9" not in repr((found.readings, found.env, found.checks))


def test_a_variable_that_the_release_no_longer_reads_is_told() -> None:
    found = given(env={"SGLANG_SUPPORT_CUTLASS_BLOCK_FP8": "1"}, version="0.5.23")
    assert "does not read it" in failing(found)["check.variables_known"]
    assert given(env={"SGLANG_SUPPORT_CUTLASS_BLOCK_FP8": "1"}, version="0.5.9").checks == ()


@pytest.mark.parametrize(
    ("name", "version", "read"),
    [
        ("SGLANG_DEFAULT_THINKING", "0.5.10", False),  # first seen in 0.5.12
        ("SGLANG_DEFAULT_THINKING", "0.5.11", False),
        ("SGLANG_DEFAULT_THINKING", "0.5.11.post1", True),  # between two that were read it may be there
        ("SGLANG_DEFAULT_THINKING", "0.5.12", True),
        ("SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS", "0.4.4", False),
        ("SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS", "0.5.23", True),
        ("SGLANG_CUTLASS_MOE", "0.5.16", True),
        ("SGLANG_CUTLASS_MOE", "0.5.18", False),  # named in a table of what has no effect any more
        ("SGLANG_TRITON_PREFILL_TRUNCATION_ALIGN_SIZE", "0.5.22", False),
        ("SGLANG_CUTLASS_MOE", "0.6.0", False),
    ],
)
def test_a_variable_counts_from_the_first_release_that_reads_it_to_the_last(
    name: str, version: str, read: bool
) -> None:
    found = given(env={name: "1"}, version=version)
    assert {each.fact.key for each in found.env} == ({f"env.{name}"} if read else set())
    assert ("check.variables_known" in failing(found)) is not read


def test_a_variable_of_the_old_prefix_sets_the_new_one_since_0_5_3() -> None:
    env = {"SGL_USE_DEEPGEMM_BMM": "1", "SGLANG_USE_DEEPGEMM_BMM": "0"}
    for version, told in (
        ("0.5.23", {"env.SGLANG_USE_DEEPGEMM_BMM": "1"}),
        (None, {"env.SGLANG_USE_DEEPGEMM_BMM": "1"}),
        (
            "0.5.22",
            {"env.SGLANG_USE_DEEPGEMM_BMM": "1", "env.SGL_USE_DEEPGEMM_BMM": "1"},
        ),  # some models read the old one
        ("0.4.10", {"env.SGL_USE_DEEPGEMM_BMM": "1"}),
    ):
        found = given(env=env, version=version)
        assert {each.fact.key: each.value for each in found.env} == told
        assert {each.source for each in found.env} == {"variable SGL_USE_DEEPGEMM_BMM"}
    assert "SGLANG_USE_DEEPGEMM_BMM is set, but" in failing(given(env=env, version="0.4.10"))["check.variables_known"]
    assert "SGL_SIMULATE_ACC_LEN falsifies" in str(failing(given(env={"SGL_SIMULATE_ACC_LEN": "3"})))


def test_the_router_s_launcher_keeps_its_own_options() -> None:
    line = "python -m sglang_router.launch_server --model-path a/b --router-policy cache_aware --router-verbose --tp 2"
    found = replay.planned({"argv": line.split()}, "argv")
    assert replay.facts(found.readings) == {
        "checkpoint.repo": "a/b",
        "engine.name": "sglang",
        "engine.wrapper": "sglang-router",
        "serve.tensor_parallel_size": 2,
    }
    assert found.checks == ()


def test_a_launcher_of_nvidia_is_named_and_its_engine_read() -> None:
    row = next(row for row in ROWS if row["id"] == "dynamo-002")
    told = replay.facts(replay.planned(row, "argv").readings)
    assert told["engine.wrapper"] == "dynamo"
    assert {key: told.get(key) for key in row["expected"] if key in told}.items() >= {
        ("serve.max_num_seqs", 30000),
        ("serve.enable_prefix_caching", False),
        ("serve.kv_cache_dtype", "fp8_e4m3"),
    }
    assert told["serve.args.skip_tokenizer_init"] is True
