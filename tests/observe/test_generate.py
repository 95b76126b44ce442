"""`--probe-generate`: nothing that makes a token is sent without it, and with it one bounded request of each kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockllm import engines
from lockllm.facts.observation import By, Observation
from lockllm.observe import observe
from lockllm.observe.request import Request
from tests.conftest import TINY
from tests.observe import hosts
from tests.servers import start

RECORDING = """
import http.server, json, os, sys, threading
bodies = json.load(open(os.environ["BODIES"]))
class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self):
        size = int(self.headers.get("Content-Length") or 0)
        with open(os.environ["SAID"], "a") as out:
            out.write(json.dumps([self.command, self.path, json.loads(self.rfile.read(size) or "null")]) + "\\n")
        status, body = bodies.get(f"{self.command} {self.path}", [404, None])
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
    do_GET = do_POST = reply
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""
RESPONSE = {
    "object": "response", "status": "incomplete", "temperature": 1.0, "top_p": 1.0, "max_output_tokens": 1, "top_logprobs": None,
    "truncation": "disabled", "presence_penalty": 0.0, "frequency_penalty": 0.0,
}  # fmt: skip
CHAT = {"object": "chat.completion", "system_fingerprint": "vllm-0.32.0-c5abc010", "usage": {"completion_tokens": 1}}
MODELS = {"object": "list", "data": [{"id": "m", "owned_by": "vllm", "root": "m", "parent": None, "max_model_len": 64}]}
GENERATING = ["/v1/responses", "/v1/chat/completions"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = hosts.environment(tmp_path_factory.mktemp("generating") / "venv", {"vllm": "0.32.0"})
    (made / "bin" / "vllm").write_text(f"#!{made}/bin/python\n{RECORDING}")
    (made / "bin" / "vllm").chmod(0o755)
    return made


def look(home: Path, answers: dict[str, Any], **more: Any) -> tuple[Observation, list[Any]]:
    """What is observed of a server with these answers, and what was sent to it."""
    said = home / "said"
    said.write_text("")
    bodies = {"GET /version": [200, {"version": "0.32.0"}], "GET /v1/models": [200, MODELS], **answers}
    (home / "bodies.json").write_text(json.dumps(bodies))
    env = {"BODIES": str(home / "bodies.json"), "SAID": str(said), "HF_HUB_OFFLINE": "1"}
    with hosts.running([home / "bin/vllm", "serve", "m"], env, home) as (_, port):
        asked = Request(server=f"http://127.0.0.1:{port}", gpu="none", quick=True, cache="off", **more)
        seen = observe(asked)
    return seen, [json.loads(line) for line in said.read_text().splitlines()]


def shown(seen: Observation, group: str) -> dict[str, Any]:
    found = (each for each in seen.readings if each.by is By.ENDPOINT and each.fact.group == group)
    return {each.fact.key: each.value for each in found}


def told(seen: Observation) -> list[str]:
    return [each for each in seen.warnings if each.startswith("--probe-generate: ")]


ANSWERS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {}, {"sampling.temperature": 1.0, "sampling.top_p": 1.0}),
    ({"temperature": 0.6, "top_p": 0.95}, {}, {"sampling.temperature": 0.6, "sampling.top_p": 0.95}),
    ({"presence_penalty": 1.5}, {}, {"sampling.presence_penalty": 1.5, "sampling.frequency_penalty": 0.0}),
    ({"frequency_penalty": 0.5}, {}, {"sampling.frequency_penalty": 0.5}),
    ({"temperature": 0.0, "top_p": 1.0}, {}, {"sampling.temperature": 0.0}),
    ({}, {"system_fingerprint": "vllm-0.32.0-tp2-pp4-c5abc010"}, {"serve.tensor_parallel_size": 2, "serve.pipeline_parallel_size": 4}),
    ({}, {"system_fingerprint": "vllm-0.32.0-dp8-c5abc010"}, {"serve.data_parallel_size": 8}),
]  # fmt: skip


@pytest.mark.parametrize("response, chat, expected", ANSWERS)
def test_one_token_shows_what_no_free_endpoint_shows(
    home: Path, response: dict[str, Any], chat: dict[str, Any], expected: dict[str, Any]
) -> None:
    answers = {
        "POST /v1/responses": [200, {**RESPONSE, **response}],
        "POST /v1/chat/completions": [200, {**CHAT, **chat}],
    }
    plain, before = look(home, answers)
    assert not [each for each in before if each[1] in GENERATING]
    assert not expected.keys() & {**shown(plain, "sampling"), **shown(plain, "serve")}.keys()
    assert told(plain) == []
    seen, sent = look(home, answers, probe_generate=True)
    generating = [each for each in sent if each[1] in GENERATING]
    assert sorted(each[1] for each in generating) == sorted(GENERATING)
    assert [each[2].get("max_output_tokens", each[2].get("max_tokens")) for each in generating] == [1, 1]
    assert expected.items() <= {**shown(seen, "sampling"), **shown(seen, "serve")}.items()
    if response.get("temperature") == 0:
        assert "sampling.top_p" not in shown(seen, "sampling")
    word = "the server was asked to generate 2 tokens: POST /v1/responses, POST /v1/chat/completions"
    assert told(seen) == [f"--probe-generate: {word}"]


@pytest.mark.parametrize("reply", [
    [404, None], [400, {"error": "no"}], [500, None], [403, None], [503, None], [200, None], [200, []], [200, "x"],
    [200, {"temperature": "hot", "top_p": None}], [200, {"temperature": True}], [200, {"system_fingerprint": 3}],
])  # fmt: skip
def test_an_answer_of_another_shape_shows_nothing(home: Path, reply: list[Any]) -> None:
    seen, _ = look(home, {"POST /v1/responses": reply, "POST /v1/chat/completions": reply}, probe_generate=True)
    assert shown(seen, "sampling") == {}
    assert "engine.version" in {each.fact.key for each in seen.readings}
    assert len(told(seen)) == 1
    assert ("answers" in told(seen)[0]) is (reply[0] != 200)


def test_without_a_server_nothing_is_generated(home: Path) -> None:
    seen = observe(
        Request(command=(str(home / "bin/vllm"), "serve", "m"), gpu="none", probe_generate=True, cwd=str(home))
    )
    assert told(seen) == ["--probe-generate: no running server was asked: nothing was generated"]


def test_llama_cpp_is_not_made_to_generate(llama_home: Path) -> None:
    with start.llama_server(llama_home, "-m", str(TINY / "tiny.gguf")) as server:
        before = server.get("/slots")
        seen = observe(Request(pid=server.pid, gpu="none", quick=True, cache="off", probe_generate=True))
        assert server.get("/slots") == before
    word = "no request that generates shows more of llama.cpp than the others: none was sent"
    assert told(seen) == [f"--probe-generate: {word}"]


@pytest.mark.parametrize("name", engines.available())
def test_what_generates_makes_one_token_and_is_kept_nowhere(name: str) -> None:
    for probe in engines.load(name).probes:
        if probe.generates:
            assert probe.body is not None
            assert probe.body.get("max_output_tokens", probe.body.get("max_tokens")) == 1
            assert probe.path != "/v1/responses" or probe.body["store"] is False
