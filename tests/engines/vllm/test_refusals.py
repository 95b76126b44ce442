"""What each release refuses of a command whose options it has: values, keys of JSON, stray words."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.engines.vllm import options, refusals
from tests.engines.vllm.material import VLLM, facts, failing, given

REFUSED: list[tuple[str, list[str], str]] = [
    ("0.32.0", ["--kv-cache-dtype", "fp16"], "'fp16' is none of"),
    ("0.10.2", ["--kv-cache-dtype", "nvfp4"], "'nvfp4' is none of"),
    ("0.10.2", ["--prefix-caching-hash-algo", "builtin"], "'builtin' is none of"),
    ("0.8.5", ["--reasoning-parser", "qwen3"], "'qwen3' is none of"),
    ("0.32.0", ["--max-lora-rank", "24"], "'24' is none of"),
    ("0.32.0", ["--convert", "reward"], "'reward' is none of"),
    ("0.8.5", ["--block-size", "256"], "'256' is none of"),
    ("0.9.0", ["--guided-decoding-backend", "lmfe"], "'lmfe' is none of"),
    ("0.32.0", ["--collect-detailed-traces", "model", "gpu"], "'gpu' is none of"),
    ("0.6.6", ["-q", "torchao"], "'torchao' is none of"),
    ("0.32.0", ["--moe-backend", "cuda"], "'cuda' is none of"),
    ("0.32.0", ["--compilation-config", '{"use_cudagraph": true}'], "no key 'use_cudagraph' in its JSON"),
    ("0.32.0", ["-cc.pass_config.enable_fusion", "true"], "no key 'enable_fusion' in pass_config"),
    ("0.32.0", ["--speculative-config", '{"num_tokens": 3}'], "no key 'num_tokens'"),
    ("0.8.5", ["--speculative-config", '{"speculative_model": "d"}'], "no key 'speculative_model'"),
    ("0.32.0", ["--kv-transfer-config", '{"kv_role": "both"}'], "'both' in kv_role is none of"),
    ("0.32.0", ["--structured-outputs-config", '{"backend": "x"}'], "'x' in backend is none of"),
    ("0.32.0", ["--kernel-config", "1"], "its JSON is no object"),
    ("0.32.0", ["--lora-modules", "adapter"], "neither name=path nor JSON"),
    ("0.32.0", ["--lora-modules", '{"name": "a"}'], "no name and path"),
    ("0.32.0", ["--model", "other"], "named twice"),
    ("0.32.0", ["--max-num-seqs", "None"], "not a whole number"),
    ("0.8.4", ["--no-enable-lora"], "no such option"),
    ("0.8.4", ["--max-num-batched-tokens", "8k"], "not a whole number"),
    ("0.8.4", ["--enable-chunked-prefill", "m2"], "neither true nor false"),
    ("0.9.2", ["--compilation-config", "{'level': 3}"], "its value is no JSON"),
    ("0.8.5", ["--hf-overrides", "{'a': 3}"], "its value is no JSON"),
    ("0.19.0", ["--kv-transfer-config", '{"kv_buffer_size": 4k}'], "its value is no JSON"),
    ("0.32.0", ["--default-chat-template-kwargs", '{"a": 4k}'], "its value is no JSON"),
    ("0.32.0", ["--kernel-config", '{"moe_backend": 1.5K}'], "its value is no JSON"),
    ("0.16.0", ["--additional-config", "{'a': 1}"], "its value is no JSON"),
    ("0.10.2", ["--enable-auto-tool-choice", "--tool-call-parser", "llama3"], "'llama3' is none of"),
    ("0.12.0", ["--reasoning-parser", "gemma4"], "'gemma4' is none of"),
    ("0.15.0", ["--task", "embed"], "no such option"),
    ("0.32.0", ["--config"], "its value is missing"),
    ("0.32.0", ["--config", "a.yaml", "--config", "b.yaml"], "more than one file"),
    ("0.32.0", ["--config", "a.json"], "no .yaml or .yml"),
    ("0.32.0", ["--seed", "None"], "not a whole number"),
    ("0.9.0", ["--model", "other"], "first argument"),
]
TAKEN: list[tuple[str, list[str]]] = [
    ("0.10.2", ["--kv-cache-dtype", "fp8_inc"]),
    ("0.8.5", ["--quantization", "ascend"]),
    ("0.32.0", ["--kv-cache-dtype", "nvfp4"]),
    ("0.33.0", ["--kv-cache-dtype", "a_plugin's"]),
    ("0.32.0", ["--kv-cache-dtype", "$KV"]),
    ("0.9.0", ["--reasoning-parser", "qwen3"]),
    ("0.11.0", ["--compilation-config", '{"use_cudagraph_x": true}']),
    ("0.32.0", ["--compilation-config", '{"inductor_compile_config": {"any": 1}, "cudagraph_mode": "NONE"}']),
    ("0.9.1", ["--max-num-batched-tokens", "8k"]),
    ("0.8.5", ["--compilation-config", "{'level': 3}"]),
    ("0.20.0", ["--kv-transfer-config", '{"kv_buffer_size": 4k}']),
    ("0.32.0", ["--hf-overrides", "{{ overrides }}"]),
    ("0.32.0", ["--hf-overrides", "my.module.function"]),
    ("0.32.0", ["--compilation-config", "$CC", "--speculative-config", '{"num_speculative_tokens": $N}']),
    ("0.32.0", ["--lora-modules", "$LORA", "--reasoning-parser", "$PARSER"]),
    ("0.10.2", ["--tool-call-parser", "llama3"]),
    ("0.10.2", ["--enable-auto-tool-choice", "--tool-call-parser", "my", "--tool-parser-plugin", "my.py"]),
    ("0.32.0", ["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3"]),
    ("0.33.0", ["--reasoning-parser", "NONE"]),
    ("0.12.0", ["--reasoning-parser", "my", "--reasoning-parser-plugin", "my.py"]),
    ("0.8.5", ["--no-enable-lora"]),
    ("0.8.4", ["--enable-chunked-prefill", "False"]),
    ("0.9.1", ["--headless", "-dpr", "4", "-asc", "2"]),
    ("0.19.0", ["--grpc"]),
    ("0.11.0", ["--guided-decoding-backend", "outlines"]),
    ("0.32.0", ["--lora-modules", "a=b", '{"name": "c", "path": "d"}']),
    ("0.15.0", ["--all2all-backend", "mori"]),
    ("0.15.1", ["--kernel-config", "{}", "--ssl-ciphers", "x"]),
    ("0.22.0", ["--moe-backend", "triton", "--linear-backend", "cutlass"]),
]


@pytest.mark.parametrize("version, args, why", REFUSED)
def test_a_release_refuses_what_its_parser_refuses(version: str, args: list[str], why: str) -> None:
    assert why in failing(given("m", *args, version=version).checks)["check.flags_accepted"]


@pytest.mark.parametrize("version, args", TAKEN)
def test_a_release_takes_what_its_parser_takes(version: str, args: list[str]) -> None:
    assert "check.flags_accepted" not in failing(given("m", *args, version=version).checks)


@pytest.mark.parametrize(
    "args, key, wanted",
    [
        (["--enable-chunked-prefill", "false"], "serve.enable_chunked_prefill", False),
        (["--enable-chunked-prefill", "False", "--kv-transfer-config", '{"kv_role": "kv_both"}'],
         "serve.enable_chunked_prefill", False),
        (["--guided-decoding-backend", "xgrammar:disable-any-whitespace", "--num-scheduler-steps", "8"],
         "serve.args.num_scheduler_steps", 8),
        (["--prefix-caching-hash-algo", "builtin"], "serve.args.prefix_caching_hash_algo", "builtin"),
        (["--compilation-config", "{'cudagraph_capture_sizes': [1, 2]}"],
         "serve.args.compilation_config.cudagraph_capture_sizes", [1, 2]),
        (["--compilation-config", '{"use_cudagraph": true}', "--task", "embed"], "serve.args.task", "embed"),
    ],
)  # fmt: skip
def test_without_a_version_a_command_is_read_by_a_release_that_takes_its_values(
    args: list[str], key: str, wanted: Any
) -> None:
    found = given("m", *args, version=None)
    assert facts(found.readings)[key] == wanted
    assert failing(found.checks) == {}


def test_an_off_spelling_finds_the_release_that_had_it() -> None:
    found = given("m", "--no-disable-log-requests", "--no-enable-lora-bias", version=None)
    assert (facts(found.readings), failing(found.checks)) == ({"serve.args.enable_lora_bias": False}, {})


def test_vllm_serve_needs_its_model_up_to_082() -> None:
    assert "first argument" in failing(given("--dtype", "half", version="0.8.2").checks)["check.flags_accepted"]
    assert failing(given("--dtype", "half", version="0.8.3").checks) == {}


@pytest.mark.parametrize(
    "version, args, key",
    [
        ("0.7.3", ["-O3"], "compilation_config.level"),
        ("0.7.3", ["-O", "3"], "compilation_config.level"),
        ("0.8.5", ["--compilation-config", "3"], "compilation_config.level"),
        ("0.10.2", ["-O=3"], "compilation_config.level"),
        ("0.11.0", ["-O", "3"], "compilation_config.level"),
        ("0.11.2", ["-O3"], "compilation_config.mode"),
        ("0.12.0", ["-O3"], "optimization_level"),
        ("0.12.0", ["-O.mode", "3"], "compilation_config.mode"),
    ],
)
def test_a_level_is_what_the_release_makes_of_it(version: str, args: list[str], key: str) -> None:
    found = given("m", *args, version=version)
    assert facts(found.readings) == {f"serve.args.{key}": 3}
    assert failing(found.checks) == {}


def test_a_model_that_an_option_would_swallow_is_read_by_a_release_that_leaves_it() -> None:
    found = given("--api-key", "key-abcdef", "org/name", "--dtype", "half", version=None)
    assert (found.model and found.model.text, found.secrets) == ("org/name", ("key-abcdef",))
    swallowed = given("--served-model-name", "a", "org/name", version="0.17.0")
    assert "first argument" in failing(swallowed.checks)["check.flags_accepted"]


def test_options_of_dynamos_worker_are_not_refused_for_sure() -> None:
    launch = VLLM.recognise(["python3", "-m", "dynamo.vllm", "--model", "org/name", "--is-prefill-worker"])
    assert launch is not None
    status = [check.status.value for check in VLLM.given(launch, {}, {}, None, False).checks]
    assert status == ["unknown"]


def test_an_option_that_may_be_none_is_left_unset_by_that_word() -> None:
    found = given("m", "--quantization", "None", "--max-log-len", "", "--revision", "r", "--revision", "None")
    assert (found.readings, found.operational, found.model and found.model.revision) == ((), (), None)
    assert failing(found.checks) == {}


def test_a_model_that_the_module_does_not_read_is_told() -> None:
    found = given("org/name", version="0.16.0", module=True)
    assert found.model is None
    assert "does not read it" in failing(found.checks)["check.settings_take_effect"]
    assert "belongs to no option" in failing(given("m", version="0.9.2", module=True).checks)["check.flags_accepted"]


@pytest.mark.parametrize("release", options.READ)
def test_every_list_belongs_to_an_option_of_its_release(release: str) -> None:
    known = refusals.lists(release, release)
    names = {option.name for option in options.options(release).options}
    assert all(taken for taken in (*known.values.values(), *known.keys.values()))
    assert {path.partition(".")[0] for path in (*known.values, *known.keys)} <= names
