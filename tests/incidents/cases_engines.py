"""The other engines: SGLang, llama.cpp, Ollama, TGI, TensorRT-LLM, LMDeploy, transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.incidents.cases_vllm import F32, vllm
from tests.incidents.raw import Case, Side


def sglang(version: str, flags: str = "", packages: Mapping[str, str] = {}, **more: Any) -> Side:
    """A host that serves with SGLang."""
    said = {"sglang": version, "torch": "2.9.1", "transformers": "4.57.1", **packages}
    return Side(argv=f"python -m sglang.launch_server --model-path {{model}} {flags}".strip(), packages=said, **more)


def transformers(version: str, flags: str = "", packages: Mapping[str, str] = {}, **more: Any) -> Side:
    """A host that serves with transformers serve."""
    said = {"transformers": version, "torch": "2.9.1", **packages}
    return Side(argv=f"transformers serve {{model}} {flags}".strip(), packages=said, **more)


def llama(flags: str = "", build: str = "", **more: Any) -> Side:
    """A host that serves a GGUF with llama-server; `build`: as an installed xllamacpp carries it."""
    packages = {"xllamacpp": f"2026.1.{build.removeprefix('b')}"} if build else {}
    return Side(
        argv=f"llama-server -m {{home}}/model.gguf {flags}".strip(), gguf="model.gguf", packages=packages, **more
    )


def props(build: str, **more: Any) -> Mapping[str, Any]:
    """What llama-server answers."""
    return {"/props": {"build_info": build, "model_path": "/m.gguf", "total_slots": 1, "chat_template": "{{ messages }}",
        "default_generation_settings": {"n_ctx": 512, "params": {"temperature": 0.8, "top_k": 40}}, **more}}  # fmt: skip


def openapi(version: str, penalty: float) -> Mapping[str, Any]:
    """What llama-cpp-python's own description says of a request's defaults."""
    fields = {
        "repeat_penalty": penalty, "temperature": 0.8, "top_k": 40, "min_p": 0.05, "top_p": 0.95, "model": None,
    }  # fmt: skip
    schema = {"properties": {name: {"default": value} for name, value in fields.items()}}
    return {
        "/openapi.json": {
            "info": {"title": "🦙 llama.cpp Python API", "version": version},
            "components": {"schemas": {"CreateChatCompletionRequest": schema}},
        },
        "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "me", "permissions": []}]},
    }


IMAGE = "docker run openmmlab/lmdeploy@sha256:{} lmdeploy serve api_server internlm/internlm2-chat-7b"
CLOCK = (
    "{%- if not date_string is defined %}{%- if strftime_now is defined %}{%- set date_string = strftime_now('%d %b %Y') %}"
    "{%- else %}{%- set date_string = '26 Jul 2024' %}{%- endif %}{%- endif %}Today: {{ date_string }}\n{{ messages[0].content }}"
)


def _started(version: str, flags: str) -> str:
    """What Ollama logs where it starts a runner."""
    return (
        f'time=2024-10-20T10:00:00.000Z level=INFO source=routes.go:1158 msg="Listening on [::]:11434 (version {version})"\n'
        'time=2024-10-20T10:00:01.000Z level=INFO source=server.go:388 msg="starting llama server" '
        f'cmd="/tmp/ollama/runners/cuda_v12/ollama_llama_server --model /root/.ollama/models/blobs/sha256-{"a" * 64} {flags}"\n'
    )


def ollama(digest: str) -> Mapping[str, Any]:
    """What Ollama answers with one model loaded."""
    model = {
        "name": "ministral-3:14b",
        "digest": digest,
        "context_length": 4096,
        "details": {"quantization_level": "Q4_K_M"},
    }
    models = {"models": [model]}
    return {"/api/version": {"version": "0.13.2"}, "/api/ps": models, "/api/tags": models}


DATED = {"chat_template.jinja": None, "tokenizer_config.json": json.dumps({"chat_template": CLOCK})}
BOS = (b"add_bos_token\x07\0\0\0\0", b"add_bos_token\x07\0\0\0\1")
CASES: Mapping[str, Case] = {
    "olmo-cookbook-60": Case(
        engine="transformers", before=transformers("4.57.1", "--dtype float32", **F32), after=vllm("0.8.5", **F32)
    ),
    "transformers-34919": Case(engine="transformers", before=transformers("4.57.1"), after=transformers("5.0.0")),
    "mteb-5377": Case(
        engine="transformers", before=transformers("4.57.6", prompts=True), after=transformers("5.12.0", prompts=True)
    ),
    "transformers-45701": Case(
        engine="transformers", before=transformers("4.57.6", prompts=True), after=transformers("5.7.0", prompts=True)
    ),
    "transformers-31901": Case(
        engine="vllm",
        before=vllm("0.6.0", packages={"transformers": "4.41.2"}, prompts=True),
        after=vllm("0.6.0", packages={"transformers": "4.42.3"}, prompts=True),
    ),
    "transformerlens-404": Case(
        engine="transformers",
        before=transformers("4.33.1", packages={"tokenizers": "0.13.3"}, prompts=True),
        after=transformers("4.34.0", packages={"tokenizers": "0.14.1"}, prompts=True),
    ),
    "transformers-16588": Case(
        engine="transformers",
        before=transformers("4.57.1", packages={"torch": "1.11.0"}),
        after=transformers("4.57.1", packages={"torch": "1.12.0"}),
    ),
    "sglang-3296": Case(
        engine="sglang",
        before=sglang("0.4.2", packages={"transformers": "4.44.2"}, prompts=True, files=DATED),
        after=sglang("0.4.2", packages={"transformers": "4.48.0"}, prompts=True, files=DATED),
    ),
    "sglang-4324": Case(engine="sglang", before=sglang("0.4.1.post7+g1111111"), after=sglang("0.4.4+g2222222")),
    "sglang-10785": Case(
        engine="sglang",
        before=sglang("0.5.3", "--enable-deterministic-inference --attention-backend fa3 --tp 2", gpu={"count": "8"}),
        after=sglang("0.5.3", "--enable-deterministic-inference --attention-backend fa3 --tp 4", gpu={"count": "8"}),
    ),
    "sglang-18364": Case(
        engine="sglang",
        before=sglang("0.5.8", packages={"flashinfer-python": "0.5.3"}),
        after=sglang("0.5.8", packages={"flashinfer-python": "0.6.2"}),
    ),
    "sglang-19431": Case(
        engine="sglang",
        before=sglang("0.5.8", "--enable-deterministic-inference"),
        after=sglang("0.5.8", "--enable-deterministic-inference", config={"architectures": ["GptOssForCausalLM"]}),
    ),
    "sglang-25912": Case(
        engine="sglang",
        before=sglang("0.5.8", "--enable-deterministic-inference --max-running-requests 1 --tp 8", gpu={"count": "8"}),
        after=sglang("0.5.8", "--enable-deterministic-inference --max-running-requests 1 --tp 8", gpu={"count": "8"}),
    ),
    "sglang-36480": Case(
        engine="sglang", before=sglang("0.5.12+5a15cde85809b77"), after=sglang("0.5.17.dev36+gcb05a44")
    ),
    "llama-cpp-python-1590": Case(
        engine="llama-cpp-python", before=Side(bodies=openapi("0.2.82", 1.1)), after=Side(bodies=openapi("0.2.83", 1.0))
    ),
    "llama-cpp-python-1501": Case(
        engine="llama.cpp",
        before=llama(
            "--jinja --chat-template-file {home}/chat.jinja",
            "b8000",
            edit=BOS,
            home={"chat.jinja": "{% for m in messages %}[{{m.role}}]{{m.content}}{% endfor %}"},
        ),
        after=llama(
            "--jinja --chat-template-file {home}/chat.jinja",
            "b8000",
            edit=BOS,
            home={"chat.jinja": "<|im_start|>{% for m in messages %}[{{m.role}}]{{m.content}}{% endfor %}"},
        ),
    ),
    "llama-cpp-7052": Case(engine="llama.cpp", before=llama("-np 1", "b6000"), after=llama("-np 8", "b6000")),
    "llama-cpp-7476": Case(
        engine="llama.cpp",
        before=llama("", "b6000"),
        after=llama("", "b6000", edit=(b"tokenizer.ggml.pre", b"tokenizer.ggml.prx")),
    ),
    "ramalama-2422": Case(
        engine="llama.cpp", before=Side(bodies=props("b7200-1234567")), after=Side(bodies=props("b7400-89abcde"))
    ),
    "text-generation-inference-3247": Case(
        engine="tgi",
        before=Side(
            argv="text-generation-launcher --model-id {model}",
            prompts=True,
            files={"chat_template.jinja": None, "tokenizer_config.json": '{"chat_template": "T"}'},
        ),
        after=Side(
            argv="text-generation-launcher --model-id {model}",
            prompts=True,
            files={"chat_template.jinja": "T", "tokenizer_config.json": "{}"},
        ),
    ),
    "text-generation-inference-2223": Case(
        engine="tgi",
        before=Side(
            bodies={
                "/info": {
                    "model_id": "a/b",
                    "version": "2.0.2",
                    "sha": "6073ece4fc2bd7b1f4a3c7e4b6a3f8d5c9e2b1a0",
                    "docker_label": "sha-6073ece",
                    "max_concurrent_requests": 128,
                }
            }
        ),
        after=Side(
            bodies={
                "/info": {
                    "model_id": "a/b",
                    "version": "2.0.3",
                    "sha": "38d4cf93c1d9f2b3e4a5f6c7d8e9f0a1b2c3d4e5",
                    "docker_label": "sha-38d4cf9",
                    "max_concurrent_requests": 128,
                }
            }
        ),
    ),
    "text-generation-inference-2172": Case(
        engine="tgi",
        before=Side(argv="text-generation-launcher --model-id {model}", config={"rope_scaling": {"type": "su"}}),
        after=Side(argv="text-generation-launcher --model-id {model}", config={"rope_scaling": {"type": "longrope"}}),
    ),
    "lmdeploy-2150": Case(
        engine="lmdeploy",
        before=Side(
            argv="lmdeploy serve api_server {home}/internlm2-chat-7b",
            packages={"lmdeploy": "0.9.0"},
            folder="internlm2-chat-7b",
            prompts=True,
        ),
        after=Side(
            argv="lmdeploy serve api_server {home}/12000", packages={"lmdeploy": "0.9.0"}, folder="12000", prompts=True
        ),
    ),
    "lmdeploy-263": Case(
        engine="lmdeploy",
        before=Side(argv=IMAGE.format("8feea3b79334c86ea9bb8c0c1e4978b4d8453ef2dbb09f02876fd2abbb22f4c2")),
        after=Side(argv=IMAGE.format("2622309d921928fcbc543cd9876fdc9fcb91810e55e087c890d2d17f08a4584f")),
    ),
    "tensorrt-llm-1928": Case(
        engine="tensorrt-llm",
        before=Side(
            argv="trtllm-serve {model}",
            packages={"tensorrt-llm": "0.9.0"},
            site={"torch/version.py": "cuda = '12.1'\n"},
        ),
        after=Side(
            argv="trtllm-serve {model}",
            packages={"tensorrt-llm": "0.10.0"},
            site={"torch/version.py": "cuda = '12.4'\n"},
        ),
    ),
    "ollama-7534": Case(
        engine="ollama",
        before=Side(log=_started("0.3.14", "--ctx-size 8192 --batch-size 512 --flash-attn --parallel 1")),
        after=Side(log=_started("0.4.1", "--ctx-size 8192 --batch-size 2048 --parallel 1")),
    ),
    "ollama-10468": Case(
        engine="ollama",
        before=Side(log=_started("0.6.6", "--ctx-size 8192 --batch-size 512 --parallel 4")),
        after=Side(log=_started("0.6.7", "--ctx-size 8192 --batch-size 512 --parallel 2")),
    ),
    "ollama-13409": Case(
        engine="ollama",
        before=Side(bodies=ollama("9749fa413fe40d63a5ad8b60502e96b0e04ceec87b6090d9718715f10bb77535")),
        after=Side(bodies=ollama("e0297d335b44d060011a9793554d9e051dce05a20da6add405ebcdf9ba97cfdc")),
    ),
    "ollama-15918": Case(
        engine="ollama",
        before=Side(log=_started("0.20.6", "--ctx-size 8192") + "load_tensors: offloaded 33/33 layers to GPU\n"),
        after=Side(log=_started("0.20.6", "--ctx-size 8192") + "load_tensors: offloaded 0/33 layers to GPU\n"),
    ),
}
