"""A server that asks for a key that nobody gave is unknown, whatever its open endpoints say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts.observation import CheckStatus, Observation
from lockllm.observe import observe
from lockllm.observe.request import Request
from tests.observe import hosts

GUARDED = """
import http.server, json, os, sys, threading
bodies = json.load(open(os.environ["BODIES"]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        key = "sesame" in (self.headers.get("Authorization") or self.headers.get("X-Api-Key") or "")
        status = 404 if path not in bodies else 200 if key or path in bodies["open"] else 401
        raw = json.dumps(bodies.get(path)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
    do_POST = do_GET
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""
LISTING = {"object": "list", "data": [{"id": "m", "root": "m", "parent": None, "owned_by": "vllm", "object": "model"}]}
LMDEPLOY = {"object": "list", "data": [{"id": "m", "owned_by": "lmdeploy", "object": "model"}]}
PROPS = {"default_generation_settings": {"n_ctx": 512, "params": {}}, "total_slots": 1, "model_path": "m.gguf"}
INFO = {"version": "0.5.23", "model_path": "m", "internal_states": [{}]}
Bodies = dict[str, Any]
SERVERS: list[tuple[list[str], Bodies]] = [
    (["vllm", "serve", "m"], {"open": ["/version"], "/version": {"version": "0.32.0"}, "/v1/models": LISTING}),
    (["vllm", "serve", "m"], {"open": [], "/version": {"version": "0.32.0"}, "/v1/models": LISTING}),
    (["llama-server", "-m", "m.gguf"], {"open": ["/health"], "/health": {"status": "ok"}, "/props": PROPS}),
    (["llama-server", "-m", "m.gguf"], {"open": [], "/props": PROPS, "/v1/models": LISTING}),
    (["lmdeploy", "serve", "api_server", "m"], {"open": ["/health"], "/v1/models": LMDEPLOY, "/health": {}}),
    (["python", "-m", "sglang.launch_server", "--model-path", "m"], {"open": ["/health"], "/server_info": INFO}),
]  # fmt: skip
WITH_KEY: list[dict[str, Any]] = [
    {"api_key": "sesame"},
    {"headers": ("X-Api-Key: sesame",)},
    {"headers": ("Authorization: Bearer sesame",)},
]
WITHOUT: list[dict[str, Any]] = [{}, {"headers": ("X-Tenant: blue",)}]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = hosts.environment(tmp_path_factory.mktemp("guarded") / "venv", {"vllm": "0.32.0", "sglang": "0.5.23"})
    for name in ("vllm", "llama-server", "lmdeploy"):
        (made / "bin" / name).write_text(f"#!{made}/bin/python\n{GUARDED}")
        (made / "bin" / name).chmod(0o755)
    (hosts.site(made) / "sglang").mkdir()
    (hosts.site(made) / "sglang" / "launch_server.py").write_text(GUARDED)
    return made


def look(home: Path, argv: list[str], bodies: Bodies, **more: Any) -> Observation:
    (home / "bodies.json").write_text(json.dumps(bodies))
    with hosts.running([home / "bin" / argv[0], *argv[1:]], {"BODIES": str(home / "bodies.json")}, home) as (_, port):
        return observe(Request(server=f"http://127.0.0.1:{port}", gpu="none", quick=True, cache="off", **more))


@pytest.mark.parametrize("more", WITHOUT)
@pytest.mark.parametrize("argv, bodies", SERVERS)
def test_a_key_that_is_missing_is_unknown(home: Path, argv: list[str], bodies: Bodies, more: dict[str, Any]) -> None:
    seen = look(home, argv, bodies, **more)
    gap = next(each for each in seen.unobserved if each.path == ("check", "server_answers"))
    assert "answers 401: it requires a key" in gap.reason
    assert gap.fix == "name the variable that holds it with --api-key-env"
    assert [each.status for each in seen.checks if each.name == "check.server_answers"] == [CheckStatus.UNKNOWN]
    assert not any("hangs" in each.fix for each in seen.unobserved)


@pytest.mark.parametrize("more", WITH_KEY)
@pytest.mark.parametrize("argv, bodies", SERVERS)
def test_a_key_that_is_given_opens_the_server(
    home: Path, argv: list[str], bodies: Bodies, more: dict[str, Any]
) -> None:
    seen = look(home, argv, bodies, **more)
    assert ("check", "server_answers") not in [each.path for each in seen.unobserved]


@pytest.mark.parametrize("argv, bodies", SERVERS)
def test_a_key_that_opens_nothing_is_unknown_too(home: Path, argv: list[str], bodies: Bodies) -> None:
    seen = look(home, argv, {**bodies, "open": []}, api_key="wrong")
    assert ("check", "server_answers") in [each.path for each in seen.unobserved]
