"""Prompts that an engine writes in code of its own: whose template is in force, and what is not rendered in its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockllm.engines import Context, load
from lockllm.facts.observation import CheckStatus, Reading, Unobserved
from lockllm.prompt.readings import Prompt, Setup, observe
from lockllm.prompt.templates import Candidate

JINJA = "{% for m in messages %}{{ m.content }}{{ strftime_now('%Y') }}{% endfor %}"
V32, V4, OSS = ("DeepseekV32ForCausalLM", "deepseek_v32"), ("DeepseekV4ForCausalLM", "deepseek_v4"), (
    "GptOssForCausalLM", "gpt_oss",
)  # fmt: skip
K3, INKLING = ("KimiK3ForConditionalGeneration", "kimi_k3"), ("InklingForConditionalGeneration", "inkling")
KIMIA, LLAMA = ("MoonshotKimiaForCausalLM", "kimi_audio"), ("LlamaForCausalLM", "llama")


def look(kind: tuple[str, str], engine: str, version: str, template: bool, **setup: Any) -> Prompt:
    files = {"config.json": json.dumps({"architectures": [kind[0]], "model_type": kind[1]})}
    if template:
        files["chat_template.jinja"] = JINJA
    return observe(
        lambda name: files[name].encode() if name in files else None, sorted(files),
        Setup(engine=engine, version=version, **setup),
    )  # fmt: skip


def value(found: Prompt, key: str) -> Any:
    return next((reading.value for reading in found.readings if reading.fact.key == key), "unseen")


def reason(found: Prompt, path: tuple[str, ...]) -> str:
    return next((each.reason for each in found.unobserved if each.path == path), "")


BUILT_IN = [
    ("vllm", "0.33.0", OSS, {}, "Harmony"),
    ("vllm", "0.10.1", OSS, {"tokenizer_mode": "hf"}, "Harmony"),
    ("vllm", "0.33.0", OSS, {"explicit": Candidate(JINJA, "--chat-template")}, "Harmony"),
    ("vllm", "0.33.0", V32, {}, "DeepSeek V3.2"),
    ("vllm", "0.33.0", V32, {"explicit": Candidate(JINJA, "--chat-template")}, "DeepSeek V3.2"),
    ("vllm", "0.33.0", V4, {}, "DeepSeek V4"),
    ("vllm", "0.33.0", K3, {}, "Kimi K3"),
    ("vllm", "0.33.0", KIMIA, {}, "Kimi Audio"),
    ("vllm", "0.33.0", INKLING, {}, "Inkling"),
    ("vllm", "0.13.0", LLAMA, {"tokenizer_mode": "deepseek_v32"}, "DeepSeek V3.2"),
    ("vllm", "0.33.0", LLAMA, {"tokenizer_mode": "cohere"}, "Cohere"),
    ("sglang", "0.5.23", V4, {}, "DeepSeek V4"),
    ("sglang", "0.5.23", V4, {"explicit": Candidate(JINJA, "--chat-template")}, "DeepSeek V4"),
    ("sglang", "0.5.23", K3, {}, "Kimi K3"),
    ("sglang", "0.5.23", INKLING, {}, "Inkling"),
    ("sglang", "0.5.23", LLAMA, {"options": {"tool_call_parser": "deepseekv32"}}, "DeepSeek V3.2"),
    ("sglang", "0.5.23", LLAMA, {"options": {"tool_call_parser": "deepseekv4"}}, "DeepSeek V4"),
    ("tensorrt-llm", "1.2.1", OSS, {}, "Harmony"),
    ("tensorrt-llm", "1.2.1", V32, {"options": {"custom_tokenizer": "deepseek_v32"}}, "DeepSeek V3.2"),
    ("tensorrt-llm", "1.2.1", V32, {"options": {"custom_tokenizer": "my.own"}}, "custom tokenizer my.own"),
]  # fmt: skip


@pytest.mark.parametrize("template", [True, False])
@pytest.mark.parametrize(("engine", "version", "model", "setup", "name"), BUILT_IN)
def test_the_engines_own_renderer_is_in_force_whatever_stands_beside_it(
    engine: str, version: str, model: tuple[str, str], setup: dict[str, Any], name: str, template: bool
) -> None:
    found = look(model, engine, version, template, **setup)
    assert value(found, "chat_template.source") == f"built in: {name} of {engine} {version}"
    assert value(found, "chat_template.sha256") == "unseen"
    assert "own code" in reason(found, ("chat_template", "sha256"))
    assert name in reason(found, ("prompt_probes",))
    assert not [reading for reading in found.readings if reading.fact.group == "prompt_probes"]
    checks = {check.name: check for check in found.checks}
    assert "check.template_reads_clock" not in checks
    if template:
        assert checks["check.one_template"].status is CheckStatus.FAIL
        detail = checks["check.one_template"].detail
        assert "the engine does not use" in detail
        assert detail.endswith("chat_template.jinja")


@pytest.mark.parametrize(
    ("engine", "version", "model", "setup"),
    [
        ("vllm", "0.33.0", LLAMA, {}),
        ("vllm", "0.12.0", V32, {}),  # the release has no such tokenizer mode
        ("vllm", "0.33.0", V32, {"tokenizer_mode": "hf"}),
        ("sglang", "0.5.23", OSS, {}),  # chat completions take the template; `/v1/responses` alone goes through Harmony
        ("sglang", "0.5.23", V32, {}),  # its tokenizer has a template
        ("tensorrt-llm", "1.2.1", OSS, {"options": {"DISABLE_HARMONY_ADAPTER": "1"}}),
        ("transformers", "5.24.0", OSS, {}),
        ("vllm", "0.33.0", OSS, {"edition": 1}),  # a lock that was made before renderers were known is judged alike
    ],
)
def test_the_template_of_the_checkpoint_stays_in_force_elsewhere(
    engine: str, version: str, model: tuple[str, str], setup: dict[str, Any]
) -> None:
    found = look(model, engine, version, True, **setup)
    assert value(found, "chat_template.source") == "chat_template.jinja"
    assert len(value(found, "prompt_probes.user.text")) == 64


def test_mistral_common_takes_no_template_from_a_flag() -> None:
    flag = Candidate(JINJA, "--chat-template")
    found = look(LLAMA, "vllm", "0.33.0", False, tokenizer_mode="mistral", explicit=flag)
    assert value(found, "chat_template.source") == "built-in: mistral-common"
    assert (
        "does not use --chat-template"
        in next(each for each in found.checks if each.name == "check.one_template").detail
    )
    before = look(LLAMA, "vllm", "0.33.0", False, tokenizer_mode="mistral", explicit=flag, edition=1)
    assert value(before, "chat_template.source") == "--chat-template"


def test_deepseek_without_a_template_is_rendered_by_sglang_itself() -> None:
    found = look(V32, "sglang", "0.5.23", False)
    assert value(found, "chat_template.source") == "built in: DeepSeek V3.2 of sglang 0.5.23"
    assert "was not read" in reason(look(V32, "sglang", "0.5.0", False), ("chat_template",))


@pytest.mark.parametrize(("model", "version"), [(V32, "0.15.0"), (V4, "0.24.0")])
def test_a_release_whose_choice_was_not_read_leaves_the_template_unknown(model: tuple[str, str], version: str) -> None:
    found = look(model, "vllm", version, True)
    assert "give --tokenizer-mode" in reason(found, ("chat_template",))
    assert value(found, "chat_template.source") == "unseen"


@pytest.mark.parametrize("model_type", ["blip-2", "paligemma", "deepseek_vl_v2", "siglip"])
def test_vllm_has_templates_for_model_types_that_bring_none(model_type: str) -> None:
    found = look(("SomeModel", model_type), "vllm", "0.33.0", False)
    assert value(found, "chat_template.source") == f"built in: template for {model_type} of vllm 0.33.0"
    assert (
        value(look(("SomeModel", model_type), "vllm", "0.33.0", True), "chat_template.source") == "chat_template.jinja"
    )
    assert value(look(LLAMA, "vllm", "0.33.0", False), "chat_template.source") != "unseen"


def test_words_that_lmdeploy_takes_out_of_gpt_oss_leave_its_prompts_unprobed() -> None:
    found = look(OSS, "lmdeploy", "0.18.0", True)
    assert value(found, "chat_template.source") == "chat_template.jinja"
    assert "LMDeploy removes words" in reason(found, ("prompt_probes",))


@pytest.mark.parametrize("name", ["internvl-finetune", "models/llava", "/srv/Yi-VL-6B", "vicuna"])
def test_the_name_of_a_folder_leaves_the_template_of_lmdeploy_unknown(name: str) -> None:
    found = look(LLAMA, "lmdeploy", "0.18.0", True, model=name)
    assert "by its name alone" in reason(found, ("chat_template",))
    assert value(look(LLAMA, "lmdeploy", "0.18.0", True, model="qwen"), "chat_template.source") == "chat_template.jinja"


@pytest.mark.parametrize(
    ("engine", "version"),
    [("vllm", "0.11.0"), ("vllm", "0.20.0"), ("vllm", "0.33.0"), ("sglang", "0.5.6"), ("sglang", "0.5.23")],
)
@pytest.mark.parametrize("model", [V32[0], V4[0], "GlmMoeDsaForCausalLM"])
def test_the_cache_of_sparse_attention_is_never_told_as_the_models_dtype(engine: str, version: str, model: str) -> None:
    context = Context(
        version=version,
        checkpoint={
            ("checkpoint", "architecture"): model, ("checkpoint", "dtype"): "bfloat16",
            ("quantization", "method"): "fp8", ("checkpoint", "files", "config.json"): {},
        },
        host={("host", "gpu"): "NVIDIA H200", ("host", "platform"): "cuda"},
    )  # fmt: skip
    told = list(load(engine).effective(None, context))
    assert not [each for each in told if isinstance(each, Reading) and each.fact.key == "serve.kv_cache_dtype"]
    assert [each for each in told if isinstance(each, Unobserved) and each.path == ("serve", "kv_cache_dtype")]
