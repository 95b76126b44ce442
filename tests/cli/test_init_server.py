"""`init` of a running server, then `observe` and `lock --observation`: what init writes is a spec that lock accepts, and so again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.conftest import TINY
from tests.observe import hosts

ANSWERING = """
import http.server, json, os, sys, threading
bodies = json.load(open(os.environ["BODIES"]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = bodies.get(self.path.partition("?")[0])
        raw = json.dumps(body).encode()
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
    def do_POST(self):
        self.send_error(404)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""
"""A stand-in that answers what a file says."""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the metadata of both engines, and stand-ins for their servers."""
    packages = {"vllm": "0.32.0", "sglang": "0.5.23", "torch": "2.13.0", "transformers": "5.19.0"}
    made = hosts.environment(tmp_path_factory.mktemp("engines") / "venv", packages)
    (made / "bin" / "vllm").write_text(f"#!{made}/bin/python\n{ANSWERING}")
    (made / "bin" / "vllm").chmod(0o755)
    package = hosts.site(made) / "sglang"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(ANSWERING)
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    for name in ("models/tiny", "draft", "tk"):
        shutil.copytree(TINY / "model", tmp_path / name)
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8, "lora_alpha": 16}')
    (tmp_path / "t.jinja").write_text("{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}")
    (tmp_path / "p.py").write_text("X = 1\n")
    return tmp_path


@contextmanager
def running(home: Path, argv: list[str | Path], bodies: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[int]:
    (home / "bodies.json").write_text(json.dumps(bodies))
    with hosts.running([*argv, "--port", "0"], {"BODIES": str(home / "bodies.json"), **env}, home) as (pid, _):
        yield pid


def of_vllm(words: tuple[str, ...]) -> dict[str, Any]:
    """What vLLM 0.32 answers without its development mode."""
    model = {
        "id": "models/tiny",
        "object": "model",
        "owned_by": "vllm",
        "root": "models/tiny",
        "parent": None,
        "max_model_len": 256,
    }
    more = (
        [{**model, "id": "a", "root": "lora", "parent": "models/tiny", "max_model_len": None}]
        if "--lora-modules" in words
        else []
    )
    return {"/version": {"version": "0.32.0"}, "/v1/models": {"object": "list", "data": [model, *more]}}


def of_sglang(words: tuple[str, ...]) -> dict[str, Any]:
    """The keys of SGLang 0.5.23's /server_info that these options move."""

    def given(flag: str, default: Any) -> Any:
        return words[words.index(flag) + 1] if flag in words else default

    info = {
        "version": "0.5.23", "model_path": "models/tiny", "tokenizer_path": given("--tokenizer-path", "models/tiny"),
        "tp_size": 1, "dtype": "auto", "random_seed": 1, "grammar_backend": given("--grammar-backend", "xgrammar"),
        "chat_template": given("--chat-template", None), "disable_radix_cache": False, "internal_states": [{}],
        "speculative_algorithm": given("--speculative-algorithm", None),
        "speculative_draft_model_path": given("--speculative-draft-model-path", None),
    }  # fmt: skip
    return {"/server_info": info, "/get_server_info": info, "/v1/models": {"object": "list", "data": []}}


VLLM = [
    (), ("--chat-template", "t.jinja"), ("--enable-lora", "--lora-modules", "a=lora"), ("--tool-parser-plugin", "p.py"),
    ("--speculative-config", '{"model": "draft", "num_speculative_tokens": 3}'), ("--chat-template-content-format", "openai"),
    ("--tokenizer", "tk"), ("--default-chat-template-kwargs", '{"enable_thinking": false}'),
    ("--chat-template", "t.jinja", "--enable-lora", "--lora-modules", "a=lora", "--chat-template-content-format", "string"),
]  # fmt: skip
SGLANG = [
    (), ("--chat-template", "t.jinja"), ("--grammar-backend", "outlines"), ("--tokenizer-path", "tk"),
    ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "draft"), ("--random-seed", "1"),
]  # fmt: skip


@pytest.mark.parametrize(
    "engine, words", [*(("vllm", each) for each in VLLM), *(("sglang", each) for each in SGLANG)],
    ids=lambda value: value if isinstance(value, str) else "_".join(value)[:40] or "bare",
)  # fmt: skip
def test_what_init_writes_of_a_server_is_a_spec_that_lock_accepts(
    call: Call, home: Path, venv: Path, engine: str, words: tuple[str, ...]
) -> None:
    if engine == "vllm":
        argv: list[str | Path] = [venv / "bin" / "vllm", "serve", "models/tiny", "--max-model-len", "256", *words]
        bodies = of_vllm(words)
    else:
        argv = [venv / "bin" / "python", "-m", "sglang.launch_server", "--model-path", "models/tiny", *words]
        bodies = of_sglang(words)
    with running(home, argv, bodies, {"HF_HUB_OFFLINE": "1"}) as pid:
        made = call("init", "--pid", str(pid))
        assert made.code == 0, made.err
        text = (home / "llm.toml").read_text()
        assert 'path = "models/tiny"' in text
        assert "HF_HUB_OFFLINE" not in text
        assert call("observe", "--pid", str(pid), "--gpu", "none", "-o", "host.json").code == 0
        locked = call("lock", "--offline", "--observation", "host.json")
        assert locked.code == 0, text + locked.err
        again = call("lock", "--offline", "--observation", "host.json")
        assert (again.code, "up to date" in again.err) == (0, True), again.err
        judged = call("verify", "--pid", str(pid), "--gpu", "none", "--format", "json").json
    differing = {
        each["fact"]: (each["expected"], each["found"]) for each in judged["results"] if each["status"] == "mismatch"
    }
    assert differing == {}, text
