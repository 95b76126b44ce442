"""Real llama.cpp servers: what the rules say of a command line is what the server's endpoints show."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lockllm import engines
from lockllm.engines import Context
from lockllm.observe.server.command_line import plan
from tests.engines.llamacpp.material import ask, facts, unseen
from tests.servers import start

LLAMA = engines.load("llama.cpp")
TEMPLATE = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}\n"
SAMPLING = {"temperature": 0.6, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.05}
CONFIGURATIONS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "as it comes": ((), {}),
    "two slots": (("-np", "2"), {}),
    "padded and shared out": (("-c", "4096", "-np", "3"), {}),
    "smaller than the padding": (("-c", "100", "-np", "2"), {}),
    "one buffer by option": (("-c", "1000", "-np", "2", "--kv-unified"), {}),
    "more than the model was trained for": (("-c", "8192"), {}),
    "another sampling, by option and variable": (("--temp", "0.2", "-s", "42"), {"LLAMA_ARG_TOP_K": "7"}),
    "a template file": (("--chat-template-file", "other.jinja"), {}),
    "the name of a template": (("--chat-template", "llama3"), {}),
    "a small batch and another cache": (("-b", "64", "-ub", "32", "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on"), {}),
}


def context() -> Context:
    declared = {("checkpoint", "generation_config", key): value for key, value in SAMPLING.items()}
    checkpoint = {("checkpoint", "max_position_embeddings"): 2048, **declared}
    return Context(version="b11549", checkpoint=checkpoint, host={("host", "platform"): "cpu"})


@pytest.mark.parametrize(("args", "env"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_rules_and_server_agree(
    llama_home: Path, tiny_gguf: Path, tmp_path: Path, args: tuple[str, ...], env: dict[str, str]
) -> None:
    (tmp_path / "other.jinja").write_text(TEMPLATE)
    with start.llama_server(llama_home, "-m", str(tiny_gguf), *args, env=env, cwd=tmp_path) as server:
        answers = ask(server, LLAMA.probes)
        read = plan(server.argv, {"HOME": str(tmp_path), **env}, str(tmp_path), "b11549", live=True)
    assert LLAMA.detect(answers)
    shown = facts(LLAMA.from_http(answers, Context()))
    ruled = facts([*read.readings, *LLAMA.effective(read.given, context())])
    both = shown.keys() & ruled.keys()
    assert {"serve.max_model_len", "serve.max_num_seqs", "sampling.temperature", "sampling.samplers"} <= both
    assert {key: shown[key] for key in both} == {key: ruled[key] for key in both}
    assert read.warnings == ()


def test_what_the_server_says_of_itself_with_the_trace_switched_on(llama_home: Path, tiny_gguf: Path) -> None:
    args = ("-lv", "4", "-c", "1024", "-np", "2", "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on", "-b", "128", "-ub", "64")
    with start.llama_server(llama_home, "-m", str(tiny_gguf), *args) as server:
        read = plan(server.argv, {}, "/", "b11549", live=True)
        logged = list(server.log)
    found = facts(LLAMA.from_log(logged))
    ruled = facts([*read.readings, *LLAMA.effective(read.given, context())])
    keys = (
        "max_model_len",
        "max_num_seqs",
        "kv_unified",
        "kv_cache_dtype",
        "max_num_batched_tokens",
        "ubatch_size",
        "cache_ram",
    )
    assert {key: found[f"serve.{key}"] for key in keys} == {key: ruled[f"serve.{key}"] for key in keys}
    assert found["serve.flash_attn"] == "enabled"


def test_a_server_that_wants_a_key_is_unknown_until_it_is_given(llama_home: Path, tiny_gguf: Path) -> None:
    with start.llama_server(llama_home, "-m", str(tiny_gguf), "--api-key", "sesame") as server:
        closed, opened = ask(server, LLAMA.probes), ask(server, LLAMA.probes, "sesame")
    assert LLAMA.detect(closed)
    assert {"engine.version", "serve.max_model_len", "sampling"} <= unseen(LLAMA.from_http(closed, Context()))
    assert facts(LLAMA.from_http(opened, Context()))["serve.max_num_seqs"] == 4


def test_the_files_of_another_folder_are_the_same_server(llama_home: Path, tiny_gguf: Path, tmp_path: Path) -> None:
    copy = shutil.copy(tiny_gguf, tmp_path / "copy.gguf")
    found = []
    for model in (tiny_gguf, copy):
        with start.llama_server(llama_home, "-m", str(model)) as server:
            found.append(facts(LLAMA.from_http(ask(server, LLAMA.probes), Context())))
    assert {key for key in found[0] if found[0][key] != found[1][key]} == {"checkpoint.path"}
