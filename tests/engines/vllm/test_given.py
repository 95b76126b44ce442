"""vLLM's command lines, variables and YAML files, as people write them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from lockllm.engines.vllm import options, refusals
from lockllm.engines.vllm.options import READ
from lockllm.facts.observation import By
from tests.engines.vllm.material import DATA, VLLM, facts, failing, form, given

ROWS = [json.loads(line) for line in (DATA / "commands.jsonl").read_text().splitlines()]
SPREAD_ALIKE = {"serve.dtype": {"half": "float16"}}


def told(*args: str, **more: Any) -> dict[str, Any]:
    return facts(given(*args, **more).readings)


def same(expected: Any, found: Any) -> bool:
    if isinstance(expected, list):
        return list(map(str, expected)) == list(map(str, found or ()))
    if isinstance(expected, (int, float)) and not isinstance(expected, bool) and isinstance(found, (int, float)):
        return abs(expected - found) < 1e-6
    return str(expected).lower() == str(found).lower()


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_published_command_gives_its_facts_and_no_others(row: dict[str, Any]) -> None:
    env = {name: str(value) for name, value in row.get("env", {}).items()}
    files = {name.rpartition("/")[2]: text for name, text in row.get("files", {}).items()}
    launch = VLLM.recognise(row["run_as"])
    assert launch is not None
    read = VLLM.given(launch, env, files, row.get("version"), False)
    found = {**facts(read.readings), **{f"serve.args.{name}": value for name, value in read.per_node.items()}}
    for key, value in row["expected"].items():
        group, _, rest = key.partition(".")
        if (
            group in ("engine", "checkpoint", "draft")
            or (group == "tokenizer" and rest == "repo")
            or group == "adapters"
        ):
            continue
        value = SPREAD_ALIKE.get(key, {}).get(value, value) if isinstance(value, str) else value
        spellings = [(key, value), *map(tuple, row.get("also", {}).get(key, ()))]
        spellings += [(f"serve.{key.removeprefix('serve.args.')}", value)] if key.startswith("serve.args.") else []
        assert any(name in found and same(wanted, found[name]) for name, wanted in spellings), (key, value, found)
    models = [("checkpoint", read.model), ("draft", read.draft), ("tokenizer", read.tokenizer)]
    models += [(f"adapters.{name}", model) for name, model in read.adapters.items()]
    named = {f"{group}.repo": model.text for group, model in models if model is not None}
    wanted = {key: value for key, value in row["expected"].items() if key.endswith(".repo")}
    assert {key: named.get(key) for key in wanted} == wanted
    arguments = " ".join([*row["run_as"], *files.values()]).replace("-", "_").lower()
    for key in found:
        if key.startswith("serve.args.") and not _abbreviated(key.split(".")[2], arguments):
            raise AssertionError(f"{key} is invented")
    variables = facts(read.env)
    assert {key: variables.get(key) for key in row.get("env_facts", {})} == row.get("env_facts", {})
    assert all(secret in read.secrets for secret in row.get("secrets", ()))
    assert not any(secret in str(found) for secret in row.get("secrets", ()) if len(secret) > 5)
    if "refused" in row:
        assert "check.flags_accepted" in failing(read.checks)


def _abbreviated(name: str, arguments: str) -> bool:
    return any(f"{name[:length]}" in arguments for length in range(len(name), 3, -1)) or name in (
        "optimization_level", "compilation_config", "enable_expert_parallel",
    )  # fmt: skip


@pytest.mark.parametrize(
    "args, wanted",
    [
        (["m", "-tp", "2", "-tp=4"], {"serve.tensor_parallel_size": 4}),
        (["m", "--tensor_parallel_size=8"], {"serve.tensor_parallel_size": 8}),
        (["m", "--tensor-par", "2"], {"serve.tensor_parallel_size": 2}),
        (["m", "--max-model-len", "32k"], {"serve.max_model_len": 32000}),
        (["m", "--max-model-len", "32K"], {"serve.max_model_len": 32768}),
        (["m", "--max-model-len", "25.6k"], {"serve.max_model_len": 25600}),
        (["m", "--no-enable-prefix-caching"], {"serve.enable_prefix_caching": False}),
        (["m", "-O3"], {"serve.args.optimization_level": 3}),
        (["m", "-O", "3"], {"serve.args.optimization_level": 3}),
        (["m", "-O=3"], {"serve.args.optimization_level": 3}),
        (["m", "-cc.cudagraph_mode=none", "-cc.mode", "3"],
         {"serve.args.compilation_config.cudagraph_mode": "none", "serve.args.compilation_config.mode": 3}),
        (["m", "--compilation-config", '{"mode": 1, "level": 2}', "--compilation-config.mode", "3"],
         {"serve.args.compilation_config.mode": 3}),
        (["m", "--compilation-config.custom_ops+", "a", "--compilation-config.custom_ops+=b,c"],
         {"serve.args.compilation_config.custom_ops": ["a", "b", "c"]}),
        (["m", "--attention-config.backend", "FLASH_ATTN"],
         {"serve.args.attention_config.backend": "FLASH_ATTN", "serve.attention_backend": "FLASH_ATTN"}),
        (["m", "--kv-cache-memory-bytes", "80g"], {"serve.args.kv_cache_memory_bytes": 80_000_000_000}),
        (["m", "--hf-overrides", '{"a.b": {"c": []}}'], {'serve.args.hf_overrides."a.b".c': []}),
        (["m", "--tokenizer-mode", "mistral"], {"tokenizer.mode": "mistral"}),
        (["m", "--generation-config", "auto"], {"serve.generation_config": "auto"}),
        (["m", "--override-generation-config", '{"max_new_tokens": 100, "top_k": 5}'],
         {"sampling.max_tokens": 100, "sampling.top_k": 5}),
    ],
)  # fmt: skip
def test_the_grammar_is_the_engines_own(args: list[str], wanted: dict[str, Any]) -> None:
    found = told(*args)
    assert {key: value for key, value in found.items() if key != "engine.name"} == wanted


def test_a_short_option_with_its_number_glued_on_is_refused() -> None:
    assert "check.flags_accepted" in failing(given("m", "-tp2").checks)


def test_a_value_that_no_release_takes_is_refused() -> None:
    assert "'fp16' is none of" in failing(given("m", "--dtype", "fp16").checks)["check.flags_accepted"]
    assert failing(given("m", "--dtype", "$DTYPE").checks) == {}


def test_033_takes_disable_for_enable() -> None:
    assert told("m", "--disable-prefix-caching", version="0.33.0") == {"serve.enable_prefix_caching": False}
    assert "check.flags_accepted" in failing(given("m", "--disable-prefix-caching", version="0.32.0").checks)


def test_auto_is_no_reading() -> None:
    found = given("m", "--dtype", "auto", "--kv-cache-dtype", "auto", "--max-model-len", "-1")
    assert found.readings == ()
    assert {path[1] for path in found.auto} == {"dtype", "kv_cache_dtype", "max_model_len"}


def test_options_fall_into_five_classes() -> None:
    found = given(
        "org/name", "--revision", "v1", "--host", "::", "--port", "8001", "--served-model-name", "a", "b", "--api-key",
        "key-of-mine", "other-key", "--node-rank", "1", "--headless", "--hf-token", "hf_mine", "--block-size", "16",
        "--new-option-of-a-fork", "7", "--seed", "3",
    )  # fmt: skip
    assert facts(found.readings) == {
        "serve.args.block_size": 16, "serve.args.new_option_of_a_fork": 7, "serve.seed": 3,
    }  # fmt: skip
    assert found.per_node == {"node_rank": 1, "headless": True}
    assert set(found.operational) == {"host", "port", "served_model_name"}
    assert set(found.secrets) == {"key-of-mine", "other-key", "hf_mine"}
    assert (found.port, found.model and found.model.text, found.model and found.model.revision) == (
        8001,
        "org/name",
        "v1",
    )
    assert "--new-option-of-a-fork" in failing(found.checks)["check.flags_accepted"]


def test_secrets_in_json_variables_and_urls_stay_out() -> None:
    found = given(
        "m", "--kv-transfer-config", '{"auth_token": "tok-abcdef", "url": "http://u:pw-abcdef@h/x", "role": "both"}',
        "--my-api-key", "abcdef-k", "--override-generation-config", '{"api_key": "gen-abcdef"}',
        env={"VLLM_API_KEY": "env-abcdef", "HF_TOKEN": "hf-abcdef"},
    )  # fmt: skip
    assert "abcdef" not in str((found.readings, found.env, found.checks, found.warnings))
    assert {"tok-abcdef", "abcdef-k", "env-abcdef", "hf-abcdef", "gen-abcdef"} <= set(found.secrets)


def test_a_yaml_file_counts_below_the_command_line() -> None:
    text = "model: org/yaml\ntensor-parallel-size: 4\nenable-prefix-caching: true\nseed: 1\nlora-modules: [a=x, b=y]\n"
    text += "compilation-config:\n  mode: 3\n  pass_config: {fuse: true}\n"
    found = given("--config", "c.yaml", "--seed", "2", files={"c.yaml": text})
    assert facts(found.readings) == {
        "serve.tensor_parallel_size": 4, "serve.enable_prefix_caching": True, "serve.seed": 2,
        "serve.args.compilation_config.mode": 3, "serve.args.compilation_config.pass_config.fuse": True,
    }  # fmt: skip
    sources = {reading.fact.key: reading.source for reading in found.readings}
    assert sources["serve.seed"] == "argument --seed"
    assert sources["serve.tensor_parallel_size"] == "c.yaml: tensor-parallel-size"
    assert (found.model and found.model.text, set(found.adapters)) == ("org/yaml", {"a", "b"})
    assert list(VLLM.wants_files(form("--config", "c.yaml"), {})) == ["c.yaml"]


def test_a_false_in_yaml_is_dropped_and_said_so() -> None:
    text = "enable-prefix-caching: false\nenforce-eager: false\n"
    found = given("m", "--config", "c.yaml", files={"c.yaml": text})
    assert found.readings == ()
    assert "enable-prefix-caching: false" in failing(found.checks)["check.settings_take_effect"]
    assert "enforce-eager" not in failing(found.checks)["check.settings_take_effect"]
    module = given("--config", "c.yaml", files={"c.yaml": text}, version="0.33.0", module=True)
    assert facts(module.readings) == {"serve.enable_prefix_caching": False, "serve.enforce_eager": False}


def test_a_yaml_file_is_read_as_the_release_reads_it() -> None:
    text = "lora-modules: [a=x, b=y]\ndisable-log-stats: false\nmax-log-len: null\ncode-revision: null\n"
    files = {"c.yaml": text}
    new = given("--config", "c.yaml", files=files, version="0.33.0", module=True)
    assert (set(new.adapters), new.readings, failing(new.checks)) == ({"a", "b"}, (), {})
    old = given("m", "--config", "c.yaml", files={"c.yaml": "lora-modules: [a=x, b=y]\n"}, version="0.9.2")
    assert "neither name=path nor JSON" in failing(old.checks)["check.flags_accepted"]
    switch = given("m", "--config", "c.yaml", files={"c.yaml": "enforce-eager: true\n"}, version="0.6.3")
    assert "'True' belongs to no option" in failing(switch.checks)["check.flags_accepted"]


def test_a_glued_config_file_is_not_read() -> None:
    found = given("m", "--config=c.yaml", files={"c.yaml": "seed: 1\n"})
    assert found.readings == ()
    assert list(VLLM.wants_files(form("m", "--config=c.yaml"), {})) == []
    assert "--config=c.yaml" in failing(found.checks)["check.settings_take_effect"]


def test_a_chat_template_is_its_text(tmp_path: Any) -> None:
    template = "{{ messages }}\r\n"
    found = given("m", "--chat-template", "t.jinja", files={"t.jinja": template})
    digest = hashlib.sha256(b"{{ messages }}\n").hexdigest()
    assert facts(found.readings) == {
        "chat_template.source": "--chat-template", "chat_template.sha256": digest, "serve.chat_template": digest,
    }  # fmt: skip
    assert list(VLLM.wants_files(form("m", "--chat-template", "t.jinja"), {})) == ["t.jinja"]
    typed = told("m", "--chat-template", "{{ messages }}\n")
    assert typed["chat_template.sha256"] == digest
    assert [path.path for path in given("m", "--chat-template", "gone.jinja").paths] == ["gone.jinja"]


def test_a_folder_of_its_own_gives_the_sampling_defaults() -> None:
    text = '{"temperature": 0.3, "top_k": 20, "max_new_tokens": 9}'
    found = given("m", "--generation-config", "gc/", files={"gc/generation_config.json": text})
    assert facts(found.readings) == {
        "serve.generation_config": hashlib.sha256(text.encode()).hexdigest(),
        "sampling.temperature": 0.3, "sampling.top_k": 20, "sampling.max_tokens": 9,
    }  # fmt: skip


def test_variables_count_where_the_release_reads_them() -> None:
    env = {"VLLM_ATTENTION_BACKEND": "FLASHINFER", "VLLM_BATCH_INVARIANT": "1", "NCCL_ALGO": "Ring", "EDITOR": "vi"}
    old = given("m", env=env, version="0.12.0")
    assert facts(old.readings) == {"serve.batch_invariant": True, "serve.attention_backend": "FLASHINFER"}
    assert set(facts(old.env)) == {"env.VLLM_ATTENTION_BACKEND", "env.VLLM_BATCH_INVARIANT", "env.NCCL_ALGO"}
    new = given("m", env=env, version="0.16.0")
    assert facts(new.readings) == {"serve.batch_invariant": True}
    assert set(facts(new.env)) == {"env.VLLM_BATCH_INVARIANT", "env.NCCL_ALGO"}
    assert "VLLM_ATTENTION_BACKEND" in failing(new.checks)["check.variables_known"]
    assert given("m", env={"VLLM_BATCH_INVARIANT": "0"}).readings[0].value is False


def test_drafts_and_adapters_are_models_of_their_own() -> None:
    found = given(
        "m", "--speculative-config", '{"model": "org/draft", "revision": "r", "num_speculative_tokens": 3, "method": "eagle"}',
        "--lora-modules", "a=org/lora", '{"name": "b", "path": "/b", "base_model_name": "m"}',
    )  # fmt: skip
    assert facts(found.readings) == {
        "serve.speculative.method": "eagle", "serve.speculative.num_speculative_tokens": 3,
    }  # fmt: skip
    assert (found.draft and (found.draft.text, found.draft.revision)) == ("org/draft", "r")
    assert {name: model.text for name, model in found.adapters.items()} == {"a": "org/lora", "b": "/b"}


def test_a_key_that_sampling_does_not_keep_has_no_effect() -> None:
    found = given("m", "--override-generation-config", '{"presence_penalty": 1, "temperature": 0}', version="0.20.2")
    assert facts(found.readings) == {
        "sampling.temperature": 0, "serve.args.override_generation_config.presence_penalty": 1,
    }  # fmt: skip
    assert "presence_penalty" in failing(found.checks)["check.settings_take_effect"]


def test_a_newer_release_parses_and_its_new_options_are_not_refused() -> None:
    found = given("m", "--brand-new", "1", "--dtype", "half", version="0.99.0")
    assert facts(found.readings) == {"serve.args.brand_new": 1, "serve.dtype": "float16"}
    assert [check.status.value for check in found.checks if check.name == "check.flags_accepted"] == ["unknown"]


NEW = {release: {name for name, span in options.history().items() if span[0] == release} for release in READ}


@pytest.mark.parametrize("release", [release for release in READ if NEW[release]])
def test_no_option_of_any_release_is_lost(release: str) -> None:
    known = refusals.lists(release, release)
    for option in options.options(release).options:
        key = min(known.keys.get(option.name, {"k"}))
        value = min(known.values.get(f"{option.name}.{key}", {"1"}) - {"", "None"})
        samples = {"int": "3", "number": "0.5", "human": "4k", "human-auto": "4k"}
        samples |= dict.fromkeys(("json", "json-or-text"), json.dumps({key: value}))
        takes = option.take.value not in ("switch", "both", "boolean")
        text = "x=y" if option.name == "lora_modules" else samples.get(option.kind.value, "x")
        words = [min(known.values.get(option.name, {text}) - {"", "None"})] if takes else []
        if option.name not in NEW[release] or option.name in ("config", "model"):
            continue
        found = given("org/name", option.flags[0], *words, version=release)
        seen = facts(found.readings)
        places = [
            option.name in found.operational, option.name in found.per_node, "x" in found.secrets, bool(found.paths),
            bool(seen), bool(found.adapters), found.draft is not None, found.tokenizer is not None, bool(found.auto),
            option.name in ("revision", "tokenizer_revision"), option.name in options.SECRET,
        ]  # fmt: skip
        assert any(places), option.name
        assert "check.flags_accepted" not in failing(found.checks), option.name
        if option.off:
            off = facts(given("org/name", option.off[0], version=release).readings)
            assert option.name in options.OPERATIONAL | options.PER_NODE or False in off.values(), option.name


@pytest.mark.parametrize(
    "argv",
    [
        ["vllm", "serve", "--", "a", "b"], ["vllm", "serve"], ["vllm", "serve", ""], ["vllm", "serve", "-", "-O"],
        ["vllm", "serve", "--config"], ["vllm", "serve", "m", "--compilation-config."], ["vllm", "serve", "m", "-x.y"],
        ["vllm", "serve", "m", "--max-model-len", "9" * 5000], ["vllm", "serve", "m", "--hf-overrides", "[" * 50_000],
        ["vllm", "serve", "m", "--hf-overrides", '{"a":' * 5000 + "1" + "}" * 5000], ["vllm", "serve", "m", "--a\x00b=\ud800"],
        ["vllm", "serve", "m", "--lora-modules", "{", "=", "[1]"], ["vllm", "serve", "m", "--speculative-config", "[1]"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", [None, "0.32.0", "0.7.3", "nonsense"])
def test_no_command_line_is_too_odd_to_be_read(argv: list[str], version: str | None) -> None:
    launch = VLLM.recognise(argv)
    assert launch is not None
    list(VLLM.wants_files(launch, {}))
    assert VLLM.given(launch, {}, {}, version, True).engine == "vllm"


def test_a_running_process_is_a_better_witness_than_a_plan() -> None:
    launch = form("m", "--seed", "1")
    assert VLLM.given(launch, {}, {}, "0.32.0", True).readings[0].by is By.PROCESS
    assert VLLM.given(launch, {}, {}, "0.32.0", False).readings[0].by is By.PLAN
