"""vLLM's endpoints, as real servers answered them, and answers that are none."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from lockllm.engines import Answer, Context, Probe
from lockllm.engines.vllm.http import METRICS, from_fingerprint
from tests.engines.vllm.material import VLLM, captured, facts, given

CONTEXT = Context(version="0.32.0")
FOLDERS = ["A-default-dev", "B-prod-small-llama", "C-changed-dev", "D-prod-smollm2"]


def read(folder: str) -> dict[str, Any]:
    return facts(VLLM.from_http(captured(folder), CONTEXT))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_real_server_is_known_by_its_answers(folder: str) -> None:
    assert VLLM.detect(captured(folder))
    assert read(folder)["engine.version"] == "0.32.0"


def test_the_development_mode_shows_the_whole_configuration() -> None:
    found = read("C-changed-dev")
    assert {
        "serve.dtype": "float32", "serve.enable_prefix_caching": False, "serve.generation_config": "vllm", "serve.seed": 7,
        "serve.max_model_len": 2048, "serve.enforce_eager": True, "serve.max_num_seqs": 16, "serve.quantization": "none",
        "serve.kv_cache_dtype": "float32", "serve.tensor_parallel_size": 1, "serve.batch_invariant": False,
        "serve.attention_backend": None, "sampling.temperature": 1, "sampling.top_k": 0,
        "packages.transformers": "5.19.0", "packages.torch": "2.13.0+cpu",
    }.items() <= found.items()  # fmt: skip
    template = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    template += "{% if add_generation_prompt %}[assistant] {% endif %}"
    assert found["chat_template.sha256"] == hashlib.sha256(template.encode()).hexdigest()


def test_two_configurations_differ_in_what_was_changed_alone() -> None:
    one, two = read("A-default-dev"), read("C-changed-dev")
    changed = {key for key in one if key in two and one[key] != two[key]}
    assert changed == {
        "serve.dtype", "serve.enable_prefix_caching", "serve.generation_config", "serve.seed", "serve.max_model_len",
        "serve.enforce_eager", "serve.kv_cache_dtype",
    }  # fmt: skip


@pytest.mark.parametrize("folder", ["B-prod-small-llama", "D-prod-smollm2"])
def test_what_no_open_endpoint_shows_is_unknown_with_a_fix(folder: str) -> None:
    found = list(VLLM.from_http(captured(folder), CONTEXT))
    told = facts(found)
    assert told["serve.max_model_len"] == 2048
    assert told["serve.enable_prefix_caching"] is True
    for key in ("serve.dtype", "serve.seed", "serve.quantization", "serve.max_num_seqs", "serve.kv_cache_dtype"):
        assert told[key] is None
    fixes = [each.fix for each in found if not hasattr(each, "fact")]
    assert fixes
    assert all("VLLM_SERVER_DEV_MODE" in fix for fix in fixes)


@pytest.mark.parametrize("folder", FOLDERS)
def test_process_and_endpoint_agree(folder: str) -> None:
    from tests.engines.vllm.material import DATA

    process = json.loads((DATA / "captures" / folder / "_proc.json").read_text())[0]
    launch = VLLM.recognise(process["cmdline"])
    assert launch is not None
    said = facts(VLLM.given(launch, process["environ"], {}, "0.32.0", True).readings)
    shown = read(folder)
    same = {key for key in said if shown.get(key) is not None}
    assert {key: said[key] for key in same} == {key: shown[key] for key in same}
    assert "serve.max_model_len" in same or folder == "B-prod-small-llama"


def test_no_secret_of_the_server_leaves_its_answer() -> None:
    answers = captured("A-default-dev")
    info = next(answer for answer in answers if answer.json and "vllm_config" in answer.json)
    info.json["vllm_config"]["model_config"]["hf_token"] = "hf_planted"
    info.json["vllm_env"]["VLLM_API_KEY"] = "planted"
    assert "planted" not in str(list(VLLM.from_http(answers, CONTEXT)))


@pytest.mark.parametrize("body", [None, [], {}, "x", 3, {"version": 7}, {"data": [1]}, {"data": [{"root": 3, "max_model_len": "x"}]},
                                  {"vllm_config": []}, {"vllm_config": {"model_config": 3, "cache_config": []}},
                                  {"sampling_params": {"temperature": "hot"}}, {"chat_template": ["x"]}])  # fmt: skip
@pytest.mark.parametrize("status", [200, 401, 404, 500])
def test_an_answer_of_any_shape_is_no_traceback(body: Any, status: int) -> None:
    answers = [
        Answer(probe=probe, status=status, headers={}, text="vllm:cache_config_info{a=\x00}", json=body)
        for probe in VLLM.probes
    ]
    VLLM.detect(answers)
    list(VLLM.from_http(answers, CONTEXT))


def test_another_engine_is_not_taken_for_this_one() -> None:
    body = {"data": [{"id": "m", "owned_by": "sglang", "root": "m", "max_model_len": 1}]}
    answer = Answer(probe=Probe(path="/v1/models"), status=200, headers={}, text=json.dumps(body), json=body)
    assert not VLLM.detect([answer])


def test_a_newer_release_with_other_labels_still_shows_what_it_says() -> None:
    text = 'vllm:cache_config_info{enable_prefix_caching="False",cache_dtype="fp8_e4m3",new="x"} 1.0\n'
    found = facts(VLLM.from_http([Answer(probe=METRICS, status=200, headers={}, text=text)], Context(version="9.0")))
    assert (found["serve.enable_prefix_caching"], found["serve.kv_cache_dtype"]) == (False, "fp8_e4m3")


def test_adapters_are_listed_by_their_repositories() -> None:
    data = [{"id": "base", "owned_by": "vllm", "root": "a/b", "parent": None, "max_model_len": 8},
            {"id": "sql", "owned_by": "vllm", "root": "a/lora", "parent": "base"},
            {"id": "own", "owned_by": "vllm", "root": "/loras/own", "parent": "base"}]  # fmt: skip
    answer = Answer(probe=Probe(path="/v1/models"), status=200, headers={}, text="", json={"data": data})
    found = facts(VLLM.from_http([answer], CONTEXT))
    assert {key: value for key, value in found.items() if value is not None} == {
        "checkpoint.repo": "a/b", "serve.max_model_len": 8, "adapters.sql.repo": "a/lora", "engine.name": "vllm",
    }  # fmt: skip


def test_the_full_fingerprint_names_parallel_sizes() -> None:
    assert facts(from_fingerprint("vllm-0.32.0-tp2-dp4-ep-c5abc010", "chat")) == {
        "serve.tensor_parallel_size": 2, "serve.data_parallel_size": 4,
    }  # fmt: skip
    assert facts(from_fingerprint("custom", "chat")) == {}


def test_every_probe_is_harmless() -> None:
    assert {probe.path for probe in VLLM.probes if probe.method == "POST" and not probe.generates} == {
        "/tokenize", "/v1/chat/completions/render",
    }  # fmt: skip
    assert [probe.path for probe in VLLM.probes if probe.generates] == ["/v1/responses", "/v1/chat/completions"]
    assert given("m").port is None


def test_the_old_text_form_is_read_as_the_log_is() -> None:
    text = "model='/m', dtype=torch.bfloat16, max_seq_len=2048, quantization=None, enforce_eager=True, kv_cache_dtype=auto, "
    text += (
        "seed=None, enable_prefix_caching=True, chunked_prefill_enabled=True, tensor_parallel_size=2, load_format=auto"
    )
    body = {"vllm_config": text}
    answer = Answer(probe=Probe(path="/server_info?config_format=json"), status=200, headers={}, text="", json=body)
    found = facts(VLLM.from_http([answer], Context(version="0.10.2")))
    assert {
        "serve.dtype": "bfloat16", "serve.kv_cache_dtype": "bfloat16", "serve.max_model_len": 2048, "serve.seed": "absent",
        "serve.enforce_eager": True, "serve.tensor_parallel_size": 2, "serve.quantization": "none",
    }.items() <= found.items()  # fmt: skip


@pytest.mark.parametrize("folder", ["A-default-dev", "C-changed-dev"])
def test_the_rules_tell_what_the_development_mode_shows(folder: str) -> None:
    from tests.engines.vllm.material import DATA

    process = json.loads((DATA / "captures" / folder / "_proc.json").read_text())[0]
    launch = VLLM.recognise(process["cmdline"])
    assert launch is not None
    said = VLLM.given(launch, process["environ"], {}, "0.32.0", True)
    checkpoint = {
        ("checkpoint", "architecture"): "LlamaForCausalLM", ("checkpoint", "dtype"): "bfloat16",
        ("checkpoint", "max_position_embeddings"): 2048, ("quantization", "method"): "none",
    }  # fmt: skip
    context = Context(version="0.32.0+cpu", checkpoint=checkpoint, packages={"transformers": "5.19.0"})
    ruled = {**facts(VLLM.effective(said, context)), **facts(said.readings)}
    shown = {key: value for key, value in read(folder).items() if key.startswith("serve.") and value is not None}
    differ = {key: (ruled.get(key), value) for key, value in shown.items() if ruled.get(key) != value}
    assert differ == {}
