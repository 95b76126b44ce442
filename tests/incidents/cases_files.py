"""What moved in files: a branch in the cache, a link, a shard, a template, a quantization, an adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.conftest import TINY
from tests.incidents.cases_vllm import vllm
from tests.incidents.raw import Case, Side, weights

CONFIG = (TINY / "model" / "config.json").read_text()
ONE, TWO = "a" * 40, "b" * 40


def cached(
    commits: Mapping[str, Mapping[str, str]], main: str, flags: str = "", blobs: Mapping[str, str] = {}, **more: Any
) -> Side:
    """vLLM on a repository in the Hub's cache: commit -> its files."""
    root = "hub/models--org--name"
    home = {
        f"{root}/snapshots/{commit}/{name}": text for commit, files in commits.items() for name, text in files.items()
    }
    said = {"vllm": "0.10.2", "torch": "2.7.0", "transformers": "4.57.1"}
    env = {"HF_HOME": "{home}", "HF_HUB_OFFLINE": "1"}
    home = {**home, f"{root}/refs/main": main, **{f"{root}/blobs/{name}": text for name, text in blobs.items()}}
    home |= more.pop("home", {})
    return Side(argv=f"vllm serve org/name {flags}".strip(), packages=said, env=env, home=home, **more)


def _lora(base: str, rank: int = 16) -> str:
    return json.dumps(
        {"peft_type": "LORA", "r": rank, "base_model_name_or_path": base, "target_modules": ["down_proj"]}
    )


def _adapted(version: str, config: str, tensors: str = "F32", flags: str = "") -> Side:
    home = {"lora/adapter_config.json": config, "lora/adapter_model.safetensors": weights(tensors)}
    return vllm(version, f"--enable-lora --lora-modules a={{home}}/lora {flags}".strip(), home=home)


WHOLE: Mapping[str, str] = {"config.json": CONFIG, "model.safetensors": weights("BF16")}
INDEX = json.dumps(
    {
        "metadata": {"total_size": 32},
        "weight_map": {"w": "model-00001-of-00002.safetensors", "v": "model-00002-of-00002.safetensors"},
    }
)
SHARDS = {
    "model.safetensors": None,
    "model.safetensors.index.json": INDEX,
    "model-00001-of-00002.safetensors": weights("BF16"),
    "model-00002-of-00002.safetensors": weights("BF16").replace('"w"', '"v"'),
}
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
TURNS = "{% for m in messages %}[{{m.role}}]{{m.content}}{% endfor %}"
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
MAPPED = {"auto_map": {"AutoModelForCausalLM": "vendor/modeling--modeling_x.XForCausalLM"}}
REMOTE = {**WHOLE, "config.json": json.dumps({**json.loads(CONFIG), **MAPPED})}
WHOLE_SHARDS = {"config.json": CONFIG, **{name: text for name, text in SHARDS.items() if text is not None}}
PART = {name: text for name, text in WHOLE_SHARDS.items() if name != "model-00001-of-00002.safetensors"}


def _code(commit: str, text: str) -> Mapping[str, str]:
    root = "hub/models--vendor--modeling"
    return {f"{root}/refs/main": commit, f"{root}/snapshots/{commit}/modeling_x.py": text}


def _templated(text: str) -> Mapping[str, str | None]:
    return {"chat_template.jinja": None, "tokenizer_config.json": json.dumps({"chat_template": text})}


CASES: Mapping[str, Case] = {
    "modelexpress-598": Case(
        engine="vllm",
        before=cached({ONE: WHOLE}, ONE),
        after=cached({ONE: {**WHOLE, "model.safetensors": weights("F32")}}, ONE),
    ),
    "huggingface_hub-3007": Case(
        engine="vllm",
        before=cached({ONE: {**WHOLE, "generation_config.json": "{}"}, TWO: WHOLE}, ONE),
        after=cached({TWO: WHOLE}, TWO),
    ),
    "huggingface_hub-3643": Case(
        engine="vllm",
        before=vllm("0.10.2", files={"model.safetensors": weights("BF16")}),
        after=vllm("0.10.2", files={"model.safetensors": weights("BF16")[:-1] + "x"}),
    ),
    "huggingface_hub-4624": Case(
        engine="vllm",
        before=cached({ONE: {**WHOLE, "generation_config.json": "{}"}}, ONE),
        after=cached({ONE: WHOLE}, ONE),
    ),
    "lighteval-721": Case(
        engine="vllm",
        before=cached(
            {ONE: {**WHOLE, "chat_template.jinja": CHAT, "tokenizer_config.json": "{}"}},
            ONE,
            f"--revision {ONE} --tokenizer-revision {ONE}",
        ),
        after=cached(
            {
                ONE: {**WHOLE, "chat_template.jinja": CHAT, "tokenizer_config.json": "{}"},
                TWO: {**WHOLE, "chat_template.jinja": "x" + CHAT, "tokenizer_config.json": "{}"},
            },
            TWO,
            f"--revision {ONE} --tokenizer-revision {TWO}",
        ),
    ),
    "marin-8159": Case(engine="vllm", before=cached({ONE: WHOLE}, ONE), after=cached({TWO: WHOLE}, TWO)),
    "kubernetes-manifests-2517": Case(
        engine="vllm", before=vllm("0.10.2"), after=vllm("0.10.2", links={"config.json": "../../blobs/0123"})
    ),
    "deepseek-v4-flash-dspark-2x-dgx-spark-60": Case(
        engine="vllm", before=vllm("0.10.2"), after=vllm("0.10.2", links={"model.safetensors": "../../blobs/0123"})
    ),
    "glm-5-3-flash-exl3-2x-dgx-sparks-52": Case(
        engine="vllm", before=cached({ONE: WHOLE}, ONE), after=cached({ONE: WHOLE}, TWO)
    ),
    "tt-inference-server-4986": Case(
        engine="vllm",
        before=cached({ONE: WHOLE_SHARDS}, ONE),
        after=cached({ONE: PART}, ONE, blobs={"0123.incomplete": "x"}),
    ),
    "unsloth-880": Case(
        engine="vllm",
        before=vllm(
            "0.10.2",
            files={
                "chat_template.jinja": TURNS + "[assistant]",
                "tokenizer_config.json": "{}",
            },
        ),
        after=vllm(
            "0.10.2",
            files={
                "chat_template.jinja": TURNS + "{% if add_generation_prompt %}[assistant]{% endif %}",
                "tokenizer_config.json": "{}",
            },
        ),
    ),
    "fizgig-32": Case(
        engine="vllm",
        before=cached({ONE: REMOTE}, ONE, "--trust-remote-code", home=_code(ONE, "x = 1")),
        after=cached({ONE: REMOTE}, ONE, "--trust-remote-code", home=_code(TWO, "x = 2")),
    ),
    "vllm-13125": Case(
        engine="vllm",
        before=vllm("0.7.2", "--reasoning-parser deepseek_r1", files=_templated(CHAT)),
        after=vllm(
            "0.7.2",
            "--reasoning-parser deepseek_r1",
            files=_templated(CHAT.replace("<assistant>", "<assistant><think>\n")),
        ),
    ),
    "vllm-4180": Case(
        engine="vllm",
        before=vllm("0.4.0", files={"generation_config.json": '{"eos_token_id": 128001}'}),
        after=vllm("0.4.1", files={"generation_config.json": '{"eos_token_id": [128001, 128009]}'}),
    ),
    "vllm-26092": Case(
        engine="vllm",
        before=vllm("0.11.0", config={"quantization_config": GPTQ}),
        after=vllm("0.11.0", config={"quantization_config": {**GPTQ, "checkpoint_format": "gptq_v2"}}),
    ),
    "vllm-34186": Case(
        engine="vllm",
        before=_adapted("0.15.1", _lora("vendor/model-vl")),
        after=_adapted("0.15.1", _lora("vendor/model-text")),
    ),
    "vllm-42125": Case(
        engine="vllm",
        before=_adapted("0.20.1", _lora("vendor/model"), flags="--enable-prefix-caching"),
        after=_adapted("0.20.1", _lora("vendor/model"), "BF16", "--enable-prefix-caching"),
    ),
}
