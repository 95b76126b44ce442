"""What each engine's server says it serves is held against the command that started it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts.observation import CheckStatus, Observation
from lockllm.observe import observe
from lockllm.observe.request import Request
from tests.cli.test_init_server import ANSWERING
from tests.observe import hosts

SERVED = "check.served_model"
TGI_INFO = {
    "docker_label": None,
    "max_concurrent_requests": 128,
    "version": "3.3.6-dev0",
    "sha": "a" * 40,
    "router": "text-generation-router",
}
TRT = {"/version": {"version": "1.2.1"}, "/server_info": {"disaggregated_params": None}}
PROPS = {"default_generation_settings": {"n_ctx": 512, "params": {}}, "total_slots": 1, "build_info": "b11434-0123456"}
LLAMA = ["bin/llama-server", "-m", "models/a.gguf"]
LMDEPLOY = ["bin/lmdeploy", "serve", "api_server", "models/tiny"]
TRTLLM = ["bin/trtllm-serve", "serve", "models/tiny"]
TGI = ["bin/text-generation-launcher", "--model-id", "models/tiny"]
TRANSFORMERS = ["bin/transformers", "serve", "models/tiny"]
BINDING = ["venv/bin/python", "-m", "llama_cpp.server", "--model", "models/a.gguf"]

Bodies = dict[str, Any]


def listed(owner: str, *ids: str, status: str | None = None) -> Bodies:
    more = {"status": {"value": status}} if status else {}
    rows = [{"id": each, "object": "model", "owned_by": owner, "root": each, "parent": None, **more} for each in ids]
    return {"/v1/models": {"object": "list", "data": rows}}


def lmdeploy(*ids: str) -> Bodies:
    return {**listed("lmdeploy", *ids), "/is_sleeping": {"is_sleeping": False}}


def trtllm(*ids: str) -> Bodies:
    return {**TRT, **listed("tensorrt_llm", *ids)}


def tgi(model: str, listing: str | None = None) -> Bodies:
    return {"/info": {**TGI_INFO, "model_id": model, "model_sha": None}, **listed("x", listing or model)}


def transformers(*ids: str) -> Bodies:
    return {**listed("local", *ids, status="loaded"), "/health": {"status": "ok"}}


def binding(*ids: str) -> Bodies:
    paths = {"/openapi.json": {"openapi": "3.1.0", "info": {"title": "llama.cpp Python API", "version": "0.3.36"}}}
    return {**paths, **listed("me", *ids)}


def llama(path: str, *adapters: str) -> Bodies:
    rows = [{"id": number, "path": each, "scale": 1.0} for number, each in enumerate(adapters)]
    return {"/props": {**PROPS, "model_path": path}, "/lora-adapters": rows, "/health": {"status": "ok"}}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host with a stand-in for the server of each engine."""
    made = tmp_path_factory.mktemp("host")
    venv = hosts.environment(
        made / "venv", {"transformers": "5.24.0", "lmdeploy": "0.18.0", "llama-cpp-python": "0.3.36"}
    )
    (made / "bin").symlink_to("venv/bin")
    for name in ("llama-server", "lmdeploy", "trtllm-serve", "text-generation-launcher", "transformers"):
        (venv / "bin" / name).write_text(f"#!{sys.executable}\n{ANSWERING}")
        (venv / "bin" / name).chmod(0o755)
    package = hosts.site(venv) / "llama_cpp" / "server"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(ANSWERING)
    for folder in ("models/tiny", "models/other"):
        (made / folder).mkdir(parents=True)
        (made / folder / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (made / "alias").symlink_to("models/tiny")
    for name in ("models/a.gguf", "models/b.gguf", "l.gguf", "m.gguf", "x/l.gguf"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(b"GGUF")
    return made


def look(prefix: Path, argv: list[str], bodies: Bodies) -> Observation:
    """What is observed of that command while its server answers these bodies."""
    (prefix / "bodies.json").write_text(json.dumps(bodies))
    words: list[str | Path] = [prefix / argv[0], *argv[1:]]
    with hosts.running(words, {"BODIES": str(prefix / "bodies.json"), "HF_HUB_OFFLINE": "1"}, prefix) as (_, port):
        return observe(Request(server=f"http://127.0.0.1:{port}", gpu="none", quick=True, cache="off"))


def odd(seen: Observation) -> set[str]:
    """The finding, and the adapters that were loaded while the server ran."""
    failed = {each.name for each in seen.checks if each.name == SERVED and each.status is CheckStatus.FAIL}
    return failed | {each.fact.path[1] for each in seen.readings if each.fact.path[::2] == ("adapters", "loaded")}


SAME: list[tuple[list[str], Bodies]] = [
    (LMDEPLOY, lmdeploy("models/tiny")),
    (LMDEPLOY, lmdeploy("./models/tiny/")),
    (LMDEPLOY, lmdeploy("alias")),
    ([*LMDEPLOY, "--model-name", "nice"], lmdeploy("nice")),
    ([*LMDEPLOY, "--model-na=nice"], lmdeploy("nice")),
    ([*LMDEPLOY, "--adapters", "a=x"], lmdeploy("models/tiny", "a")),
    (["bin/lmdeploy", "serve", "api_server", "org/m"], lmdeploy("org/m")),
    (["bin/lmdeploy", "serve", "api_server", "org/m"], lmdeploy("/c/models--org--m/snapshots/" + "1" * 40)),
    (TRTLLM, trtllm("tiny")),
    (TRTLLM, trtllm("models/tiny")),
    ([*TRTLLM, "--served_model_name", "nice"], trtllm("nice")),
    (["bin/trtllm-serve", "org/m"], trtllm("org/m")),
    (TGI, tgi("models/tiny")),
    (["bin/text-generation-launcher", "--model-id", "org/m"], tgi("org/m")),
    (TRANSFORMERS, transformers("models/tiny")),
    (["bin/transformers", "serve", "org/m@main"], transformers("org/m@main")),
    (["bin/transformers", "serve", "org/m@main"], transformers("org/m")),
    (["bin/transformers", "serve"], transformers("org/any")),
    (BINDING, binding("models/a.gguf")),
    (LLAMA, llama("models/a.gguf")),
    (LLAMA, llama("./models/a.gguf")),
    ([*LLAMA, "--lora", "l.gguf"], llama("models/a.gguf", "l.gguf")),
    ([*LLAMA, "--lora", "l.gguf", "--lora", "x/l.gguf"], llama("models/a.gguf", "l.gguf", "x/l.gguf")),
    ([*LLAMA, "--lora-scaled", "l.gguf:0.5"], llama("models/a.gguf", "./l.gguf")),
]  # fmt: skip

OTHER: list[tuple[list[str], Bodies, set[str]]] = [
    (LMDEPLOY, lmdeploy("models/other"), {SERVED}),
    (LMDEPLOY, lmdeploy("org/m"), {SERVED}),
    ([*LMDEPLOY, "--model-name", "nice"], lmdeploy("models/tiny"), {SERVED}),
    (LMDEPLOY, lmdeploy("models/tiny", "late"), {"late"}),
    ([*LMDEPLOY, "--adapters", "a=x"], lmdeploy("models/tiny", "a", "late"), {"late"}),
    ([*LMDEPLOY, "--adapters", "a=x"], lmdeploy("models/tiny"), {SERVED}),
    (["bin/lmdeploy", "serve", "api_server", "org/m"], lmdeploy("/c/models--org--n/snapshots/" + "1" * 40), {SERVED}),
    (TRTLLM, trtllm("other"), {SERVED}),
    (TRTLLM, trtllm("org/m"), {SERVED}),
    ([*TRTLLM, "--served_model_name", "nice"], trtllm("tiny"), {SERVED}),
    (TGI, tgi("models/other"), {SERVED}),
    (TGI, tgi("org/m"), {SERVED}),
    (TGI, tgi("models/tiny", "org/m"), {SERVED}),
    (["bin/text-generation-launcher", "--model-id", "org/m"], tgi("org/n"), {SERVED}),
    (TRANSFORMERS, transformers("models/other"), {SERVED}),
    (["bin/transformers", "serve", "org/m"], transformers("org/n"), {SERVED}),
    (BINDING, binding("models/b.gguf"), {SERVED}),
    (LLAMA, llama("models/b.gguf"), {SERVED}),
    (LLAMA, llama("models/a.gguf", "l.gguf"), {"l"}),
    ([*LLAMA, "--lora", "l.gguf"], llama("models/a.gguf", "m.gguf"), {"m", SERVED}),
    ([*LLAMA, "--lora", "l.gguf"], llama("models/a.gguf", "x/l.gguf"), {"l"}),
    ([*LLAMA, "--lora", "l.gguf"], llama("models/a.gguf"), {SERVED}),
    (["bin/llama-server", "-hf", "org/m-GGUF:Q4_K_M"], llama("/c/models--org--n-GGUF/snapshots/1/n-Q4_K_M.gguf"), {SERVED}),
]  # fmt: skip


@pytest.mark.parametrize("argv, bodies", SAME)
def test_what_the_command_names_is_served(prefix: Path, argv: list[str], bodies: Bodies) -> None:
    assert odd(look(prefix, argv, bodies)) == set()


@pytest.mark.parametrize("argv, bodies, fault", OTHER)
def test_what_the_command_does_not_name_is_found(
    prefix: Path, argv: list[str], bodies: Bodies, fault: set[str]
) -> None:
    assert odd(look(prefix, argv, bodies)) == fault


COMMIT = "0123456789abcdef0123456789abcdef01234567"
FOLLOWING: list[tuple[list[str], str]] = [
    (["lmdeploy", "serve", "api_server", "org/m"], "main"),
    (["lmdeploy", "serve", "api_server", "org/m", "--revision", "v1"], "v1"),
    (["trtllm-serve", "org/m"], "main"),
    (["text-generation-launcher", "--model-id", "org/m"], "main"),
    (["text-generation-launcher", "--model-id", "org/m", "--revision", "v1"], "v1"),
    (["transformers", "serve", "org/m"], "main"),
    (["transformers", "serve", "org/m@v1"], "v1"),
    (["transformers", "serve", f"org/m@{COMMIT}"], ""),
    (["lmdeploy", "serve", "api_server", "org/m", "--revision", COMMIT], ""),
    (["lmdeploy", "serve", "api_server", "org/m", "--revision", COMMIT[:12]], ""),
    (["text-generation-launcher", "--model-id", "models/tiny"], ""),
    (["text-generation-launcher", "--model-id", f"hub/models--org--m/snapshots/{COMMIT}"], ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def hub(prefix: Path) -> Path:
    """A cache of the Hub with one commit, that a branch and a tag name."""
    folder = prefix / "hub" / "models--org--m"
    (folder / "refs").mkdir(parents=True)
    shutil.copytree(prefix / "models" / "tiny", folder / "snapshots" / COMMIT)
    for ref in ("main", "v1", COMMIT[:12]):
        (folder / "refs" / ref).write_text(COMMIT)
    return prefix / "hub"


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("argv, ref", FOLLOWING)
def test_a_command_that_follows_a_branch_or_tag_is_told(
    prefix: Path, hub: Path, argv: list[str], ref: str, planned: bool
) -> None:
    env = {"HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1", "BODIES": str(prefix / "none.json")}
    (prefix / "none.json").write_text("{}")
    words: list[str | Path] = [prefix / "bin" / argv[0], *argv[1:]]
    common = {"gpu": "none", "quick": True, "cache": "off"}
    if planned:
        command = tuple(map(str, words))
        seen = observe(Request(command=command, environ={**os.environ, **env}, cwd=str(prefix), **common))
    else:
        with hosts.running(words, env, prefix) as (pid, _):
            seen = observe(Request(pid=pid, **common))
    told = [each for each in seen.warnings if "a restart may serve another commit" in each]
    who = "the command" if planned else "the server"
    wanted = f"{who} follows {ref} of org/m: a restart may serve another commit; name the commit in it: {COMMIT}"
    assert told == ([wanted] if ref else [])
