"""An Ollama host: a store, a server with the runner that it started, and the whole loop on it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.cli.conftest import Call
from tests.incidents.raw import gguf
from tests.observe.hosts import running
from tests.observe.test_workers import program

KIND = "application/vnd.ollama.image."
SERVER = """#!{python}
import http.server, json, subprocess, sys, threading
runner = subprocess.Popen({runner!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
runner.stdout.readline()
BODIES = {{"/api/version": {{"version": "0.32.12"}}, "/api/tags": {{"models": []}}, "/api/ps": {ps}}}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = BODIES.get(self.path)
        text = b"Ollama is running" if self.path == "/" else json.dumps(body).encode()
        self.send_response(404 if body is None and self.path != "/" else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
runner.stdin.close()
runner.wait()
"""
RUNNER = "#!{python}\nimport sys\nprint(flush=True)\nsys.stdin.read()\n"
LAYERS: dict[str, bytes] = {
    "model": gguf(),
    "template": b"{{ .Prompt }}",
    "system": b"You are terse.",
    "params": json.dumps({"temperature": 0.7, "top_k": 20, "stop": ["<|im_end|>"], "num_ctx": 2048, "num_keep": 8}).encode(),
    "license": b"A license.",
    "projector": b"a projector",
    "adapter": b"an adapter",
    "messages": b"[]",
}  # fmt: skip
CONFIG: dict[str, Any] = {"model_format": "gguf", "renderer": "qwen3-coder", "parser": "qwen3-coder"}


def write(store: Path, layers: dict[str, bytes], config: dict[str, Any], name: str = "qwen3.5") -> str:
    """The model `library/qwen3.5:latest` with these layers; the digest of its weights."""
    blobs = store / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)

    def blob(raw: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(raw).hexdigest()
        (blobs / f"sha256-{digest}").write_bytes(raw)
        return {"digest": f"sha256:{digest}", "size": len(raw)}

    told = [{"mediaType": KIND + kind, **blob(raw)} for kind, raw in layers.items()]
    own = {"mediaType": "application/vnd.docker.container.image.v1+json", **blob(json.dumps(config).encode())}
    manifest = store / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "config": own, "layers": told}))
    return hashlib.sha256(layers["model"]).hexdigest()


@contextmanager
def serving(folder: Path, context: int = 2048) -> Iterator[str]:
    """The server of that store; the address that it listens on."""
    weights = folder / "store" / "blobs" / f"sha256-{hashlib.sha256(LAYERS['model']).hexdigest()}"
    runner = program(folder / "lib" / "ollama" / "llama-server", RUNNER)
    argv = [str(runner), "--model", str(weights), "-c", str(context), "-np", "1"]
    manifest = (folder / "store" / "manifests" / "registry.ollama.ai" / "library" / "qwen3.5" / "latest").read_bytes()
    loaded = {"name": "qwen3.5:latest", "digest": hashlib.sha256(manifest).hexdigest(), "context_length": context}
    server = program(folder / "bin" / "ollama", SERVER, runner=argv, ps=json.dumps({"models": [loaded]}))
    with running([server, "serve"], {"OLLAMA_MODELS": str(folder / "store")}) as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # whoever asks the Hub gets no answer
    write(tmp_path / "store", LAYERS, CONFIG)
    return tmp_path


def locked(call: Call, host: Path) -> None:
    with serving(host) as url:
        done = call("init", "--server", url)
        assert done.code == 0, done.err
        done = call("observe", "--server", url, "-o", "host.json", "--gpu", "none")
        assert done.code == 0, done.err
        done = call("lock", "--observation", "host.json", "--gpu", "none")
        assert done.code == 0, done.err


def verified(call: Call, host: Path) -> tuple[int, set[str], Any]:
    with serving(host) as url:
        done = call("verify", "--server", url, "--gpu", "none", "--format", "json")
    report = done.json
    return done.code, {each["fact"] for each in report["results"] if each["status"] == "mismatch"}, report


def test_init_observe_lock_and_verify_agree_and_no_hub_is_asked(call: Call, host: Path) -> None:
    locked(call, host)
    text = (host / "llm.lock").read_text()
    assert 'repo = "library/qwen3.5"' in text
    assert "manifest_sha256" in text
    assert 'source = "built in: qwen3-coder of ollama 0.32.12"' in text
    code, mismatches, report = verified(call, host)
    assert (code, mismatches) == (0, set()), [each for each in report["results"] if each["status"] != "match"]


@pytest.mark.parametrize(
    ("kind", "raw", "fact"),
    [
        ("template", b"{{ .System }}{{ .Prompt }}", "checkpoint.layers.template"),
        ("system", b"You are verbose.", "checkpoint.layers.system"),
        ("params", b'{"top_k": 40}', "checkpoint.layers.params"),
        ("license", b"Another license.", "checkpoint.license_sha256"),
        ("projector", b"another projector", "checkpoint.layers.projector"),
        ("adapter", b"another adapter", "checkpoint.layers.adapter"),
        ("messages", b'[{"role": "user", "content": "hi"}]', "checkpoint.layers.messages"),
        ("draft", b"a draft model", "checkpoint.layers.draft"),
        ("system", None, "checkpoint.layers.system"),
        ("adapter", None, "checkpoint.layers.adapter"),
    ],
)
def test_a_layer_that_moved_is_named(call: Call, host: Path, kind: str, raw: bytes | None, fact: str) -> None:
    locked(call, host)
    moved = {name: held for name, held in LAYERS.items() if name != kind}
    write(host / "store", moved if raw is None else {**LAYERS, kind: raw}, CONFIG)
    code, mismatches, _ = verified(call, host)
    assert code == 1
    assert {"checkpoint.manifest_sha256", fact} <= mismatches
    kinds = {each for each in mismatches if each.startswith(("checkpoint.layers.", "checkpoint.license"))}
    assert kinds == {fact}


@pytest.mark.parametrize("name", ["renderer", "parser"])
@pytest.mark.parametrize("value", ["qwen3.5", None])
def test_a_renderer_or_parser_that_moved_is_named(call: Call, host: Path, name: str, value: str | None) -> None:
    locked(call, host)
    config = {key: held for key, held in CONFIG.items() if key != name}
    write(host / "store", LAYERS, config if value is None else {**config, name: value})
    code, mismatches, report = verified(call, host)
    assert code == 1
    assert f"serve.args.{name}" in mismatches
    assert ("chat_template.source" in mismatches) is (name == "renderer" and value is not None)
    assert report["exit_code"] == 1


@pytest.mark.parametrize("kind", [kind for kind in LAYERS if kind != "model"])
@pytest.mark.parametrize("left", [b"", b"\0"])
def test_a_damaged_layer_is_told_though_its_manifest_stands(call: Call, host: Path, kind: str, left: bytes) -> None:
    locked(call, host)
    (host / "store" / "blobs" / f"sha256-{hashlib.sha256(LAYERS[kind]).hexdigest()}").write_bytes(left)
    code, _, report = verified(call, host)
    (check,) = [each for each in report["checks"] if each["check"] == "check.layers_whole"]
    assert code == 1
    assert check["status"] == "fail"
    assert f"{kind}: {len(left)} bytes exist" in check["detail"]
    assert check["fix"].endswith("ollama pull qwen3.5:latest")


def test_a_model_that_shares_its_weights_is_told_by_the_server(call: Call, host: Path) -> None:
    write(host / "store", {**LAYERS, "system": b"Another model."}, CONFIG, name="mine")
    locked(call, host)
    assert 'repo = "library/qwen3.5"' in (host / "llm.lock").read_text()
    assert verified(call, host)[0] == 0
    write(host / "store", {**LAYERS, "system": b"You are verbose."}, CONFIG)
    assert "checkpoint.layers.system" in verified(call, host)[1]


def test_parameters_of_a_model_hold_on_the_routes_that_read_them(call: Call, host: Path) -> None:
    locked(call, host)
    held = tomllib.loads((host / "llm.lock").read_text())
    assert held["sampling"]["temperature"] == 1
    assert held["sampling"]["native"] == {"temperature": 0.7, "top_p": 0.9}
    assert held["sampling"]["top_k"] == 20
    assert held["serve"]["args"]["num_keep"] == 8
    assert "temperature" not in (host / "llm.toml").read_text()


def test_a_spec_that_names_the_blob_by_its_path_locks_manifest_and_layers_too(call: Call, host: Path) -> None:
    weights = hashlib.sha256(LAYERS["model"]).hexdigest()
    with serving(host) as url:
        assert call("observe", "--server", url, "-o", "host.json", "--gpu", "none").code == 0
    (host / "llm.toml").write_text(
        f'[checkpoint]\npath = "store/blobs/sha256-{weights}"\n[engine]\nname = "ollama"\nversion = "0.32.12"\n'
    )
    done = call("lock", "--observation", "host.json", "--gpu", "none")
    assert done.code == 0, done.err
    assert verified(call, host)[0] == 0
    write(host / "store", {**LAYERS, "system": b"You are verbose."}, CONFIG)
    code, mismatches, _ = verified(call, host)
    assert code == 1
    assert "checkpoint.layers.system" in mismatches


def test_locking_an_ollama_model_without_an_observation_asks_no_hub(call: Call, host: Path) -> None:
    (host / "llm.toml").write_text(
        '[checkpoint]\nrepo = "library/qwen3.5"\n[engine]\nname = "ollama"\nversion = "0.32.12"\n'
    )
    done = call("lock", "--gpu", "none")
    assert done.code == 0, done.err
    assert "commit" not in (host / "llm.lock").read_text().split("[checkpoint]")[1]


MODELFILE = """FROM ./m.gguf
TEMPLATE {{ .Prompt }}
RENDERER qwen3-coder
PARSER qwen3-coder
PARAMETER temperature 0.7
PARAMETER top_p 0.5
PARAMETER top_k 20
SYSTEM You are terse.
"""


def test_a_modelfile_gives_its_renderer_and_the_native_routes_their_temperature(call: Call, host: Path) -> None:
    (host / "Modelfile").write_text(MODELFILE)
    done = call("inspect", "--format", "json", "--", "ollama", "create", "x", "-f", "Modelfile")
    found = done.json["facts"]
    assert found["chat_template.source"] == "built in: qwen3-coder of ollama"
    assert "chat_template.sha256" not in found
    assert found["sampling.native.temperature"] == 0.7
    assert found["sampling.native.top_p"] == 0.5
    assert found["sampling.top_k"] == 20
    assert "sampling.temperature" not in found
    (told,) = [each for each in done.json["checks"] if each["check"] == "check.one_template"]
    assert "does not use the TEMPLATE" in told["detail"]


def test_a_spec_from_a_modelfile_locks_what_the_openai_routes_use(call: Call, host: Path) -> None:
    (host / "Modelfile").write_text(MODELFILE)
    (host / "m.gguf").write_bytes(gguf())
    assert call("init", "--", "ollama", "create", "x", "-f", "Modelfile").code == 0
    text = (host / "llm.toml").read_text().replace('# version = ">=0.10,<0.11"', 'version = "0.32.12"')
    (host / "llm.toml").write_text(text)
    done = call("lock", "--gpu", "none")
    assert done.code == 0, done.err
    held = tomllib.loads((host / "llm.lock").read_text())
    assert held["sampling"]["temperature"] == 1
    assert held["sampling"]["native"]["temperature"] == 0.7
    assert held["chat_template"]["source"] == "built in: qwen3-coder of ollama 0.32.12"
    assert "sha256" not in held["chat_template"]
