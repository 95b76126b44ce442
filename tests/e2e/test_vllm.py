"""vLLM on the CPU: three real servers that differ in what is locked, and every single change before a server starts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.e2e.loop import good, lockllm, verify
from tests.servers import start

pytestmark = pytest.mark.vllm

ARGS = ("--max-model-len", "1024", "--max-num-seqs", "8")
ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "ONEDNN_DEFAULT_FPMATH_MODE": "STRICT"}
SPEC = """\
[checkpoint]
path = "model"

[engine]
name = "vllm"

[serve]
max_model_len = 1024
max_num_seqs = 8
enforce_eager = true
"""
OTHER = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}"


def host(folder: Path) -> Path:
    shutil.copytree(TINY / "model", folder / "model")
    (folder / "llm.toml").write_text(SPEC)
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, vllm_venv: Path) -> Path:
    """A host locked from its running server and its start log, and verified clean."""
    made = host(tmp_path_factory.mktemp("first"))
    with start.vllm_serve(made / "model", *ARGS, env=ENV, venv=vllm_venv) as server:
        (made / "server.log").write_text("\n".join(server.log))
        good(made, "observe", "--server", server.url, "--log", "server.log", "-o", "host.json")
        good(made, "lock", "--observation", "host.json", "--pin", "env.*")
        clean = verify(made, "--server", server.url, "--log", "server.log")
    assert (clean.code, clean.causes, clean.unknown, clean.failed) == (0, set(), {}, set())
    return made


@pytest.fixture
def locked(first: Path, tmp_path: Path) -> Path:
    """Another host like it, with the first one's lock: to be changed at will."""
    made = host(tmp_path)
    shutil.copy(first / "llm.lock", made / "llm.lock")
    return made


def flip_a_weight(home: Path) -> None:
    data = bytearray((home / "model" / "model.safetensors").read_bytes())
    data[-8] ^= 1
    (home / "model" / "model.safetensors").write_bytes(data)


def edit_the_template(home: Path) -> None:
    (home / "model" / "chat_template.jinja").write_text(OTHER)


def delete_the_generation_config(home: Path) -> None:
    (home / "model" / "generation_config.json").unlink()


def raise_the_temperature(home: Path) -> None:
    path = home / "model" / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "temperature": 0.9}))


def write_a_template(home: Path) -> None:
    (home / "other.jinja").write_text(OTHER)


def nothing(home: Path) -> None:
    pass


FILE = 'checkpoint.files."{}"'.format
Change = tuple[str, Callable[[Path], None], tuple[str, ...], dict[str, str], set[str]]
CHANGES: list[Change] = [
    ("another byte of the weights", flip_a_weight, (), {}, {FILE("model.safetensors")}),
    ("another template text", edit_the_template, (), {}, {FILE("chat_template.jinja")}),
    ("a template given", write_a_template, ("--chat-template", "other.jinja"), {}, {"chat_template.source"}),
    ("a deleted generation_config.json", delete_the_generation_config, (), {}, {FILE("generation_config.json")}),
    ("another sampling default", raise_the_temperature, (), {}, {FILE("generation_config.json")}),
    ("no generation config", nothing, ("--generation-config", "vllm"), {}, {"serve.generation_config"}),
    ("another context length", nothing, ("--max-model-len", "512"), {}, {"serve.max_model_len"}),
    ("prefix caching off", nothing, ("--no-enable-prefix-caching",), {}, {"serve.enable_prefix_caching"}),
    ("another dtype", nothing, ("--dtype", "float32"), {}, {"serve.dtype"}),
    ("a seed", nothing, ("--seed", "7"), {}, {"serve.seed"}),
    ("more sequences", nothing, ("--max-num-seqs", "16"), {}, {"serve.max_num_seqs"}),
    ("a changed variable", nothing, (), {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, {"env.ONEDNN_DEFAULT_FPMATH_MODE"}),
]


@pytest.mark.parametrize(
    ("change", "args", "env", "causes"), [change[1:] for change in CHANGES], ids=[change[0] for change in CHANGES]
)
def test_a_change_keeps_the_server_from_starting_and_is_named_alone(
    locked: Path,
    vllm_venv: Path,
    change: Callable[[Path], None],
    args: tuple[str, ...],
    env: dict[str, str],
    causes: set[str],
) -> None:
    change(locked)
    command = start.vllm_command(locked / "model", *ARGS, *args, venv=vllm_venv)
    refused = lockllm(locked, "exec", "--lock", "llm.lock", "--", *command, env={**start.VLLM_ENV, **ENV, **env})
    assert refused.code == 1, refused
    assert set(re.findall(r"^\d+\. (.+)$", refused.out + refused.err, re.MULTILINE)) == causes


def test_five_flags_of_a_running_server_are_five_differences(locked: Path, vllm_venv: Path) -> None:
    write_a_template(locked)
    flags = ("--dtype", "float32", "--no-enable-prefix-caching", "--seed", "7", "--max-model-len", "512")
    template = ("--chat-template", str(locked / "other.jinja"))
    with start.vllm_serve(locked / "model", *ARGS, *flags, *template, env=ENV, venv=vllm_venv) as server:
        found = verify(locked, "--server", server.url)
    assert (found.code, found.unknown) == (1, {})
    serve = {"serve.dtype", "serve.enable_prefix_caching", "serve.seed", "serve.max_model_len"}
    assert found.causes == serve | {"chat_template.source"}


def test_changed_files_packages_and_variables_of_a_running_server_are_named(locked: Path, vllm_venv: Path) -> None:
    flip_a_weight(locked)
    delete_the_generation_config(locked)
    venv = start.linked_venv(vllm_venv, locked / "venv")
    start.set_version(venv, "xgrammar", "0.2.7")
    env = {**ENV, "ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}
    with start.vllm_serve(locked / "model", *ARGS, env=env, venv=venv) as server:
        found = verify(locked, "--server", server.url)
    assert (found.code, found.unknown) == (1, {})
    files = {FILE("model.safetensors"), FILE("generation_config.json")}
    assert found.causes == files | {"packages.xgrammar", "env.ONEDNN_DEFAULT_FPMATH_MODE"}
