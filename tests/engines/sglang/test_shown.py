"""What a running SGLang shows: its endpoints and its start log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Answer, Context, load
from lockllm.facts.observation import Reading, Unobserved
from tests.engines import replay

HERE = Path(__file__).parent
SGLANG = load("sglang")
FILES = {
    "/server_info": "get-server_info",
    "/model_info": "get-model_info",
    "/v1/models": "get-v1-models",
    "/v1/loads": "get-v1-loads",
}


def answers(case: str, **changes: Any) -> list[Answer]:
    found = []
    for probe in SGLANG.probes:
        if probe.path in FILES:
            kept = json.loads((HERE / "data" / "captures" / case / f"{FILES[probe.path]}.json").read_text())
            body = {**kept["body_json"], **(changes if probe.path == "/server_info" else {})}
            found.append(Answer(probe=probe, status=200, headers={}, text=json.dumps(body), json=body))
    return found


def told(case: str, **changes: Any) -> dict[str, Any]:
    return replay.facts(SGLANG.from_http(answers(case, **changes), Context()))


@pytest.mark.parametrize("log", replay.logs(HERE), ids=lambda log: log.stem)
def test_a_start_log_reads_as_it_is(log: Path) -> None:
    assert replay.misread(log, "sglang") == []


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (
            "Load weight end. elapsed=3.10 s, type=LlamaForCausalLM, quant=compressed-tensors, avail mem=60.00 GB",
            "serve.quantization",
            "compressed-tensors",
        ),
        ("Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=60.00 GB", "serve.dtype", "bfloat16"),
        ("Capture target verify CUDA graph begin. backend=full, avail mem=9 GB", "serve.enforce_eager", False),
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=9 GB", "serve.enforce_eager", False),
        ("Cuda graph is disabled because of using torch native attention backend", "serve.enforce_eager", True),
        ("MLA optimization is turned on. Use flashmla backend.", "serve.attention_backend", "flashmla"),
        ("Using triton as attention backend for Gemma3ForCausalLM.", "serve.attention_backend", "triton"),
    ],
)
def test_a_line_of_a_start_log_tells_its_fact(line: str, key: str, value: Any) -> None:
    for stamp in ("[2026-01-30 10:00:01] ", "[2026-01-30 10:00:01.123 DP0 TP0 EP0] ", "[2026-01-30 10:00:01 TP0] "):
        assert replay.facts(SGLANG.from_log([stamp + line]))[key] == value
    assert key not in replay.facts(SGLANG.from_log([f"[2026-01-30 10:00:01 TP1] {line}"]))


def test_half_a_log_is_no_traceback() -> None:
    for log in replay.logs(HERE):
        text = log.read_text()
        list(SGLANG.from_log(text[: len(text) // 2].splitlines()))
        list(SGLANG.from_log([line[:300] for line in text.splitlines()]))


def test_a_default_server_shows_its_configuration() -> None:
    found = told("A-default")
    assert found["engine.version"] == "0.5.23"
    assert found["serve.attention_backend"] == "torch_native"
    assert found["serve.max_model_len"] == 1024
    assert found["serve.max_num_seqs"] == 2048
    assert found["serve.enable_prefix_caching"] is True
    assert found["serve.generation_config"] == "auto"
    assert "serve.dtype" not in found


def test_two_configurations_differ_in_what_was_changed() -> None:
    one, other = told("A-default"), told("B-changed")
    moved = {key for key in set(one) | set(other) if one.get(key, "-") != other.get(key, "-")}
    assert moved == {
        "serve.dtype", "serve.enable_prefix_caching", "serve.seed", "serve.generation_config", "serve.max_num_seqs",
        "serve.max_model_len", "serve.chunked_prefill_size", "serve.chat_template", "sampling.temperature",
        "sampling.top_p", "sampling.top_k", "sampling.min_p", "sampling.repetition_penalty",
    }  # fmt: skip


def test_a_template_file_is_known_to_be_there_and_not_what_it_holds() -> None:
    unseen = [each for each in SGLANG.from_http(answers("B-changed"), Context()) if isinstance(each, Unobserved)]
    assert [each.path[1] for each in unseen] == ["quantization", "kv_cache_dtype", "chat_template"]


def test_a_share_of_a_chunk_is_not_taken_for_what_was_asked() -> None:
    shown = {"enable_dp_attention": True, "dp_size": 8, "tp_size": 8, "chunked_prefill_size": 1024}
    assert "serve.chunked_prefill_size" not in told("A-default", **shown)
    assert told("A-default", enable_dp_attention=False, chunked_prefill_size=1024)["serve.chunked_prefill_size"] == 1024


def test_keys_in_the_answer_are_never_read() -> None:
    command = "--model-path m --api-key sk-secret --admin-api-key=sk-other --max-total-tokens 4096"
    found = list(
        SGLANG.from_http(
            answers("A-default", api_key="sk-secret", admin_api_key="sk-other", launch_command=command), Context()
        )
    )
    assert "sk-secret" not in repr(found)
    assert "sk-other" not in repr(found)
    assert any(isinstance(each, Reading) and each.fact.key == "serve.args.max_total_tokens" for each in found)


@pytest.mark.parametrize(("status", "word"), [(401, "key"), (503, "loading"), (404, "no configuration")])
def test_an_endpoint_that_does_not_answer_says_why(status: int, word: str) -> None:
    probe = SGLANG.probes[0]
    found = list(SGLANG.from_http([Answer(probe=probe, status=status, headers={}, text="")], Context()))
    assert isinstance(found[0], Unobserved)
    assert word in found[0].reason


@pytest.mark.parametrize(
    "body", [[], "text", {"tp_size": {"a": 1}}, {"internal_states": [1]}, {"cuda_graph_config": {"a": 1}}]
)
def test_a_body_of_another_shape_is_no_traceback(body: Any) -> None:
    probe = SGLANG.probes[0]
    list(SGLANG.from_http([Answer(probe=probe, status=200, headers={}, text="", json=body)], Context()))


def test_sglang_is_told_from_other_engines() -> None:
    assert SGLANG.detect(answers("A-default"))
    assert not SGLANG.detect([Answer(probe=SGLANG.probes[0], status=200, headers={}, text="", json={"model_id": "m"})])


@pytest.mark.parametrize(
    ("field", "chosen"),
    [
        ("fp4_gemm_runner_backend", "flashinfer_cudnn"),
        ("moe_runner_backend", "flashinfer_trtllm"),
        ("mamba_backend", "flashinfer"),
    ],
)
def test_kernels_that_the_server_chose_otherwise_are_another_value(field: str, chosen: str) -> None:
    """One release chose other kernels than the one before, under the same command."""
    before, after = told("A-default"), told("A-default", **{field: chosen})
    assert after[f"kernels.{field}"] == chosen
    assert before[f"kernels.{field}"] != chosen
