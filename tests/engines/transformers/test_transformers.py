"""transformers serve: what commands, captures, logs and rules say of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm import engines
from lockllm.engines import Answer, Context, Given, Probe
from lockllm.facts.keys import parse
from lockllm.facts.observation import CheckStatus
from lockllm.facts.registry import ROWS, fact, read
from tests.engines.llamacpp.material import captured, command_line, facts, unseen

SERVE = engines.load("transformers")
DATA = Path(__file__).parent / "data"
ROWS_OF_COMMANDS = [json.loads(line) for line in (DATA / "commands.jsonl").read_text().splitlines()]


def given(*args: str, version: str | None = "5.24.0", env: Mapping[str, str] | None = None) -> Given:
    form = SERVE.recognise(["transformers", "serve", *args])
    assert form is not None
    return SERVE.given(form, env or {}, {}, version, False)


def context(version: str | None = "5.24.0", packages: Mapping[str, str] | None = None, **declared: Any) -> Context:
    checkpoint: dict[tuple[str, ...], Any] = {
        ("checkpoint", "generation_config", key): value for key, value in declared.items()
    }
    checkpoint |= {("checkpoint", "dtype"): "bfloat16", ("checkpoint", "architecture"): "LlamaForCausalLM"}
    return Context(version=version, checkpoint=checkpoint, packages=packages or {})


def force(*args: str, **declared: Any) -> dict[str, Any]:
    told = given(*args)
    return facts([*told.readings, *SERVE.effective(told, context(**declared))])


@pytest.mark.parametrize("row", ROWS_OF_COMMANDS, ids=[row["id"] for row in ROWS_OF_COMMANDS])
def test_a_published_command_gives_its_facts(row: dict[str, Any]) -> None:
    form = SERVE.recognise(row["argv"])
    assert form is not None
    found = facts(SERVE.given(form, {}, {}, None, False).readings)
    for key, value in row["expected"].items():
        if key != "engine.name":
            assert found.get(key, found.get(key.replace("serve.args.", "serve."))) == value
    assert not set(row.get("unknown", ())) & found.keys()


def test_the_model_is_the_first_argument_and_was_an_option_before() -> None:
    model = given("o/n@abc").model
    assert model is not None
    assert (model.text, model.revision) == ("o/n", "abc")
    assert facts(given("o/n@abc").readings) == {"checkpoint.repo": "o/n", "checkpoint.revision": "abc"}
    old = given("--force_model", "o/n", version="4.57.1")
    assert (old.model and old.model.text, old.checks) == ("o/n", ())
    assert [check.status for check in given("--force-model", "o/n").checks] == [CheckStatus.FAIL]
    gguf = given("o/n:q.gguf").model
    assert gguf is not None
    assert (gguf.text, gguf.file) == ("o/n", "q.gguf")
    assert given("/models/m").model == given("/models/m").model
    assert given().warnings


def test_options_have_their_neutral_names() -> None:
    found = facts(
        given("m", "--dtype", "float32", "--attn_implementation", "eager", "--quantization", "bnb-4bit").readings
    )
    assert found == {
        "serve.dtype": "float32",
        "serve.attention_backend": "eager",
        "serve.quantization": "bitsandbytes-4bit",
    }
    kept = facts(given("m", "--cb-block-size", "32", "--compile", "--new-thing", "3").readings)
    assert kept == {"serve.args.cb_block_size": 32, "serve.args.compile": True, "serve.args.new_thing": 3}
    kwargs = facts(given("m", "--chat-template-kwargs", '{"enable_thinking": true}').readings)
    assert kwargs == {"serve.chat_template_kwargs.enable_thinking": True}
    assert facts(given("m", "--dtype", "auto").readings) == {}
    assert given("m", "--port", "9", "--host", "x").port == 9


def test_defaults_follow_the_checkpoint() -> None:
    found = force("m", do_sample=True, temperature=0.6, repetition_penalty=1.05)
    assert (found["serve.dtype"], found["serve.attention_backend"]) == ("bfloat16", "sdpa")
    assert (found["serve.continuous_batching"], found["serve.max_num_seqs"]) == (False, 1)
    assert (found["sampling.temperature"], found["sampling.top_k"], found["sampling.top_p"]) == (0.6, 50, 1)
    assert (found["sampling.repetition_penalty"], found["sampling.max_tokens"]) == (1.05, 1024)


def test_it_stays_greedy_where_the_checkpoint_does_not_sample() -> None:
    found = force("m", temperature=0.6, max_new_tokens=4096)
    assert (found["sampling.temperature"], found["sampling.do_sample"]) == (0, False)
    assert found["sampling.max_tokens"] == 4096


def test_continuous_batching_drops_penalties_and_says_nothing() -> None:
    assert force("m", "--continuous-batching", repetition_penalty=1.05)["sampling.repetition_penalty"] == 1
    checks = list(SERVE.checks(given("m", "--continuous-batching"), context(repetition_penalty=1.05)))
    assert [check.name for check in checks] == ["check.settings_take_effect"]
    assert list(SERVE.checks(given("m"), context(repetition_penalty=1.05))) == []


@pytest.mark.parametrize("version", ["4.57.1", "5.0.0", "5.5.4", "5.25.0", "6.0"])
def test_the_defaults_of_a_release_that_was_not_read_are_unknown(version: str) -> None:
    found = list(SERVE.effective(given("m", version=version), context(version)))
    assert facts(found) == {}
    assert {"serve.dtype", "sampling.temperature"} <= unseen(found)
    assert list(SERVE.effective(given("m"), context(None))) == []
    assert "a release that was read: 5.6.0 to 5.24.0" in " ".join(each.fix for each in found if hasattr(each, "fix"))


@pytest.mark.parametrize("version", ["5.6.0", "5.6.2", "5.12.1", "5.19.0", "5.23.0", "5.24.0"])
def test_the_defaults_of_the_releases_that_were_read_are_alike(version: str) -> None:
    found = facts(SERVE.effective(given("m", version=version), context(version)))
    assert (found["serve.dtype"], found["serve.attention_backend"]) == ("bfloat16", "sdpa")
    assert (found["sampling.temperature"], found["sampling.max_tokens"]) == (0, 1024)


@pytest.mark.parametrize(
    "architecture", ["Gemma2ForCausalLM", "VaultGemmaForCausalLM", "GPTJForCausalLM", "ZambaForCausalLM"]
)
def test_an_attention_that_moved_between_releases_is_not_guessed(architecture: str) -> None:
    def seen(version: str) -> dict[str, Any]:
        checkpoint = {("checkpoint", "architecture"): architecture}
        return facts(SERVE.effective(given("m"), Context(version=version, checkpoint=checkpoint)))

    assert "serve.attention_backend" not in seen("5.19.0")
    assert seen("5.24.0")["serve.attention_backend"] == ("eager" if "Gemma" in architecture else "sdpa")


def test_what_is_not_known_of_the_checkpoint_stays_unknown() -> None:
    found = list(SERVE.effective(given("m"), Context(version="5.24.0")))
    assert {"serve.dtype", "serve.attention_backend"} <= unseen(found)


@pytest.mark.parametrize("folder", sorted(DATA.glob("captures/*")), ids=lambda folder: folder.name)
def test_a_capture_shows_the_models_name_and_nothing_else(folder: Path) -> None:
    answers = captured(folder, SERVE.probes)
    assert SERVE.detect(answers)
    found = list(SERVE.from_http(answers, Context()))
    argv, env = command_line(folder)
    form = SERVE.recognise(argv)
    assert form is not None
    pinned = SERVE.given(form, env, {}, "5.24.0", True).model
    shown = {"checkpoint.path": pinned.text} if pinned else {}
    assert facts(found) == {"engine.name": "transformers", **shown}
    assert ("checkpoint" in unseen(found)) == (pinned is None)
    assert {"engine.version", "serve.dtype", "serve.continuous_batching", "sampling"} <= unseen(found)


@pytest.mark.parametrize("body", [None, [], {"data": 3}, {"data": [3, {"id": 4, "status": 5}]}, {"paths": []}])
def test_answers_of_another_shape_are_no_reading(body: Any) -> None:
    answers = [
        Answer(probe=Probe(path=path), status=200, headers={}, text="", json=body)
        for path in ("/v1/models", "/openapi.json")
    ]
    assert not SERVE.detect(answers)
    assert set(facts(SERVE.from_http(answers, Context()))) <= {"engine.name"}


def test_the_log_names_the_model_alone() -> None:
    lines = (DATA / "transformers-5.24.0-1.log").read_text(errors="replace").split("\n")
    expected = json.loads((DATA / "transformers-5.24.0-1.expected.json").read_text())
    found = facts(SERVE.from_log(lines))
    assert found["engine.name"] == "transformers"
    assert found["serve.continuous_batching"] is True
    assert not set(expected["unknown"]) & found.keys()
    assert list(SERVE.from_log(["INFO: Uvicorn running"])) == []


@pytest.mark.parametrize(
    "wanted",
    [
        {"serve.dtype": "float16", "serve.continuous_batching": True, "serve.seed": 3},
        {"serve.attention_backend": "eager", "serve.quantization": "bitsandbytes-8bit"},
        {"serve.args.cb_block_size": 32, "serve.chat_template_kwargs.enable_thinking": False},
    ],
)
def test_the_command_for_facts_puts_these_facts_in_force(wanted: dict[str, Any]) -> None:
    plain = {parse(key): read(fact(key), value) for key, value in {"checkpoint.repo": "o/n", **wanted}.items()}
    made = SERVE.command(plain, Context())
    assert made.argv[:3] == ("transformers", "serve", "o/n")
    found = facts(given(*made.argv[2:]).readings)
    assert {key: found[key] for key in wanted} == wanted


def test_every_fact_can_be_asked_where_it_is_set_and_seen() -> None:
    for row in ROWS:
        assert set(SERVE.where(row)) <= {"set_by", "default", "seen_at", "unknown"}
    assert SERVE.where(fact("serve.dtype"))["set_by"] == "--dtype"
