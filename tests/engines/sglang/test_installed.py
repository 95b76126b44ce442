"""SGLang of a release that no table has: its options are those of its own source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lockllm.engines import Answer, Context, Form, Given, Installed
from lockllm.engines.kernel.argparse import Take
from lockllm.engines.kernel.values import Kind
from lockllm.engines.sglang import engine
from lockllm.facts.observation import By, CheckStatus, Reading, Unobserved
from tests.engines.future import SGLANG as FILES
from tests.engines.future import SGLANG_VERSION as VERSION

MANY = "".join(f"def f{at}(parser):\n    f{at + 1}(parser)\n" for at in range(30))


def read(files: Mapping[str, str] = FILES) -> Installed:
    told = engine.installed(VERSION, files)
    assert isinstance(told, Installed)
    return told


def given(*words: str, files: Mapping[str, str] = FILES, config: str = "") -> Given:
    form = Form(engine="sglang", args=("--model", "org/m", *words), program=("python3", "-m", "sglang.launch_server"))
    return engine.given(form, {}, {"server.yaml": config} if config else {}, VERSION, False, read(files))


def check(told: Given, name: str = "check.flags_accepted") -> tuple[CheckStatus, str] | None:
    return next(((each.status, each.detail) for each in told.checks if each.name == name), None)


@pytest.mark.parametrize("version", ["0.3.4", "0.5.23", "0.5.3.post1"])
def test_a_release_of_the_tables_reads_no_source(version: str) -> None:
    assert engine.installed(version, {}) is None


def test_every_option_has_the_shape_that_its_source_gives_it() -> None:
    told = read()
    table = {option.name: option for option in told.table.options} if told.table else {}
    assert (told.doubts, told.problem, told.source) == ((), "", "sglang/srt/server_args.py")
    assert {name: (option.take, option.kind) for name, option in table.items()} == {
        "model_path": (Take.ONE, Kind.TEXT), "dtype": (Take.ONE, Kind.TEXT), "trust_remote_code": (Take.SWITCH, Kind.TEXT),
        "context_length": (Take.ONE, Kind.SI), "tp_size": (Take.ONE, Kind.INT), "pp_size": (Take.ONE, Kind.INT),
        "dp_size": (Take.ONE, Kind.INT), "loom_order": (Take.ONE, Kind.TEXT), "loom_parts": (Take.ANY, Kind.INT),
        "port": (Take.ONE, Kind.INT), "sampling_defaults": (Take.ONE, Kind.TEXT),
        "preferred_sampling_params": (Take.ONE, Kind.STRICT_JSON), "tool_call_parser": (Take.ONE, Kind.TEXT),
        "config": (Take.ONE, Kind.TEXT), "old_loom": (Take.SWITCH, Kind.TEXT), "torn_loom": (Take.SWITCH, Kind.TEXT),
        "idle_loom": (Take.SWITCH, Kind.TEXT),
    }  # fmt: skip
    assert table["tp_size"].flags == ("--tensor-parallel-size", "--tp-size")
    assert told.choices["tool_call_parser"] == {"auto", "loomlike", "plain"}
    assert told.standing == {"torn_loom": "gone", "idle_loom": "idle"}
    assert told.defaults["dp_size"].source == "sglang/srt/arg_groups/fields/all.py: dp_size"


def test_a_new_option_parses_by_the_grammar_of_the_engine() -> None:
    told = given("--loom-order=over", "--loom-parts", "2", "3", "--tp", "2", "--context-length", "32Ki", "--old-loom")
    assert check(told) is None
    values = {reading.fact.key: reading.value for reading in told.readings}
    assert values == {
        "serve.args.loom_order": "over", "serve.args.loom_parts": (2, 3), "serve.tensor_parallel_size": 2,
        "serve.max_model_len": 32768, "serve.args.old_loom": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (("--attention-backend", "fa3"), "--attention-backend: no such option in this release"),
        (("--loom-order", "sideways"), "--loom-order: 'sideways' is none of its words in this release: over, under"),
        (("--torn-loom",), "--torn-loom: this release refuses it: another option replaced it"),
    ],
)
def test_what_its_own_parser_has_not_is_refused_for_sure(words: tuple[str, ...], detail: str) -> None:
    assert check(given(*words)) == (CheckStatus.FAIL, detail)


def test_what_it_takes_without_effect_is_told() -> None:
    found = check(given("--idle-loom"), "check.settings_take_effect")
    assert found == (CheckStatus.FAIL, f"--idle-loom is accepted, and sglang {VERSION} does nothing with it")


def test_the_file_of_a_command_is_read_by_the_same_options() -> None:
    told = given("--config", "server.yaml", config="loom-order: over\ntrust-remote-code: true\nswap: 1\n")
    values = {reading.fact.key: reading.value for reading in told.readings}
    assert values["serve.args.loom_order"] == "over"
    assert check(told) == (CheckStatus.FAIL, "--swap: no such option in this release")


def test_a_constant_default_is_told_and_what_a_rule_makes_is_not() -> None:
    context = Context(version=VERSION, installed=read())
    found: list[Reading | Unobserved] = list(engine.effective(given("--pp-size", "2"), context))
    told = {each.fact.key: (each.value, each.by, each.source) for each in found if isinstance(each, Reading)}
    gaps = {".".join(each.path) for each in found if isinstance(each, Unobserved)}
    fields = "sglang/srt/arg_groups/fields/all.py"
    assert told == {
        "serve.tensor_parallel_size": (1, By.DEFAULT, f"{fields}: tp_size"),
        "serve.data_parallel_size": (2, By.DEFAULT, f"{fields}: dp_size"),
        "serve.trust_remote_code": (False, By.DEFAULT, f"{fields}: trust_remote_code"),
        "serve.generation_config": ("openai", By.DEFAULT, f"{fields}: sampling_defaults"),
    }
    assert gaps >= {"serve.dtype", "serve.attention_backend", "serve.enable_prefix_caching", "serve", "sampling"}


BROKEN: dict[str, Any] = {
    "no text": {},
    "no Python": {**FILES, "sglang/srt/server_args.py": "class ServerArgs(:"},
    "another shape": {**FILES, "sglang/srt/server_args.py": "class ServerArgs:\n    pass\n"},
    "calls without end": {
        **FILES,
        "sglang/srt/server_args.py": f"class ServerArgs:\n    def add_cli_args(parser):\n        f0(parser)\n{MANY}",
    },
}


@pytest.mark.parametrize("files", BROKEN.values(), ids=list(BROKEN))
def test_a_source_of_no_known_shape_leaves_the_newest_table(files: Mapping[str, str]) -> None:
    told = read(files)
    assert told.table is None
    said = given("--no-such-option", files=files)
    assert check(said) == (CheckStatus.UNKNOWN, "--no-such-option: no such option in this release")
    assert f"{told.problem}; its command line is read by the options of older releases" in said.warnings


def test_an_annotation_that_cannot_be_read_leaves_every_refusal_open() -> None:
    fields = FILES["sglang/srt/arg_groups/fields/all.py"].replace("loom_order: A[", "loom_order: Mystery[")
    told = given("--loom-order", "over", files={**FILES, "sglang/srt/arg_groups/fields/all.py": fields})
    assert check(told) == (CheckStatus.UNKNOWN, "--loom-order: no such option in this release")


def test_the_command_line_that_a_server_repeats_is_read_by_its_own_options() -> None:
    probe = next(each for each in engine.probes if each.path == "/server_info")
    body = {"version": VERSION, "launch_command": "--model-path m --loom-parts 2 3 --preferred-sampling-params {}"}
    answer = Answer(probe=probe, status=200, headers={}, text="", json=body)
    found = list(engine.from_http([answer], Context(version=VERSION, installed=read())))
    told = {each.fact.key: each.value for each in found if isinstance(each, Reading)}
    assert told["serve.args.loom_parts"] == (2, 3)
