"""Workers of a running server say what it resolved."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from lockllm.facts.observation import By, Unobserved
from lockllm.observe.server import find, ollama_store, workers
from tests.engines.replay import facts
from tests.observe.hosts import running

PARENT = """#!{python}
import subprocess, sys
workers = []
for argv, env in {workers!r}:
    workers.append(subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
for worker in workers:
    worker.stdout.readline()
print(0, flush=True)
sys.stdin.read()
for worker in workers:
    worker.stdin.close()
    worker.wait()
"""
WORKER = "#!{python}\nimport sys\nprint(flush=True)\nsys.stdin.read()\n"


def program(path: Path, text: str, **values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(python=sys.executable, **values))
    path.chmod(0o755)
    return path


def test_a_runner_of_ollama_shows_slots_context_and_cache(tmp_path: Path) -> None:
    runner = program(tmp_path / "lib" / "ollama" / "llama-server", WORKER)
    argv = [str(runner), "--model", "/blobs/sha256-1", "-c", "32768", "-np", "2", "--flash-attn", "on"]
    server = program(tmp_path / "ollama", PARENT, workers=[(argv, {})])
    with running([server, "serve"], {"OLLAMA_NUM_PARALLEL": "0"}) as (pid, _):
        found = find.by_pid(pid)
        assert found.engine == "ollama"
        told = list(workers.readings(found))
        model = workers.given(found)[0][1].model
    assert facts(told) == {"serve.max_num_seqs": 2, "serve.max_model_len": 16384, "serve.flash_attn": "on"}
    assert {reading.by for reading in told} == {By.WORKER}
    assert model is not None
    assert model.text == "/blobs/sha256-1"


def test_shards_of_tgi_show_what_the_launcher_resolved(tmp_path: Path) -> None:
    shard = program(tmp_path / "text-generation-server", WORKER)
    argv = [str(shard), "serve", "org/m", "--uds-path", "/tmp/s", "--quantize", "awq", "--dtype", "float16"]
    shards = [
        (argv, {"ATTENTION": "flashinfer", "PREFIX_CACHING": "true", "WORLD_SIZE": "2", "RANK": str(n)}) for n in (0, 1)
    ]
    launcher = program(tmp_path / "text-generation-launcher", PARENT, workers=shards)
    with running([launcher, "--model-id", "org/m"]) as (pid, _):
        found = find.by_pid(pid)
        told = facts(workers.readings(found))
    assert told["serve.attention_backend"] == "flashinfer"
    assert told["serve.enable_prefix_caching"] is True
    assert told["serve.tensor_parallel_size"] == 2
    assert told["serve.quantization"] == "awq"
    assert json.dumps(told).count("org/m") == 0


def store(folder: Path, tags: dict[str, dict[str, bytes]]) -> dict[str, str]:
    """A store with these models, each a set of layers; the digests of their manifests."""
    digests = {}
    (folder / "blobs").mkdir(parents=True)
    for name, layers in tags.items():
        told = []
        for kind, raw in layers.items():
            digest = hashlib.sha256(raw).hexdigest()
            (folder / "blobs" / f"sha256-{digest}").write_bytes(raw)
            told.append(
                {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{digest}", "size": len(raw)}
            )
        path = folder / "manifests" / "registry.ollama.ai" / "library" / name.replace(":", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schemaVersion": 2, "layers": told}))
        digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def blob(folder: Path, raw: bytes) -> Path:
    return folder / "blobs" / f"sha256-{hashlib.sha256(raw).hexdigest()}"


PARAMS = json.dumps({"temperature": 0.3, "top_k": 20, "stop": ["<|end|>"], "num_ctx": 4096}).encode()


def test_the_store_names_the_tag_and_what_its_layers_hold(tmp_path: Path) -> None:
    digests = store(tmp_path, {"qwen:7b": {"model": b"weights", "template": b"{{ .Prompt }}", "params": PARAMS}})
    found = facts(ollama_store.readings(blob(tmp_path, b"weights"), "shown"))
    assert found == {
        "checkpoint.manifest_sha256": digests["qwen:7b"],
        "checkpoint.repo": "library/qwen",
        "checkpoint.revision": "7b",
        "chat_template.sha256": hashlib.sha256(b"{{ .Prompt }}").hexdigest(),
        "sampling.native.temperature": 0.3,
        "sampling.top_k": 20,
        "sampling.stop": ["<|end|>"],
        "serve.max_model_len": 4096,
        "checkpoint.layers.model": hashlib.sha256(b"weights").hexdigest(),
        "checkpoint.layers.template": hashlib.sha256(b"{{ .Prompt }}").hexdigest(),
        "checkpoint.layers.params": hashlib.sha256(PARAMS).hexdigest(),
    }


def test_a_lock_of_edition_1_is_held_against_the_manifest_alone(tmp_path: Path) -> None:
    digests = store(tmp_path, {"qwen:7b": {"model": b"weights", "template": b"{{ .Prompt }}", "params": PARAMS}})
    found = facts(ollama_store.readings(blob(tmp_path, b"weights"), "shown", edition=1))
    assert found["checkpoint.manifest_sha256"] == digests["qwen:7b"]
    assert not [key for key in found if key.startswith(("checkpoint.layers", "serve."))]


def test_a_tag_that_moved_has_another_manifest(tmp_path: Path) -> None:
    before = store(tmp_path / "a", {"qwen:7b": {"model": b"weights", "params": PARAMS}})
    after = store(tmp_path / "b", {"qwen:7b": {"model": b"weights", "params": b"{}"}})
    assert before != after


def test_models_that_share_weights_are_told_and_none_is_guessed(tmp_path: Path) -> None:
    store(tmp_path, {"a:1": {"model": b"weights"}, "b:1": {"model": b"weights", "params": PARAMS}})
    (found,) = ollama_store.readings(blob(tmp_path, b"weights"), "shown")
    assert isinstance(found, Unobserved)
    assert "library/a:1" in found.reason
    assert "library/b:1" in found.reason


def test_the_server_tells_models_apart_that_share_weights(tmp_path: Path) -> None:
    digests = store(tmp_path, {"a:1": {"model": b"weights"}, "b:1": {"model": b"weights", "params": PARAMS}})
    found = facts(ollama_store.readings(blob(tmp_path, b"weights"), "shown", loaded=digests["b:1"]))
    assert found["checkpoint.repo"] == "library/b"
    (other,) = ollama_store.readings(blob(tmp_path, b"weights"), "shown", loaded="0" * 64)
    assert isinstance(other, Unobserved)


def test_a_broken_manifest_is_passed_over(tmp_path: Path) -> None:
    store(tmp_path, {"a:1": {"model": b"weights"}})
    for name, text in (("b", "{"), ("c", "[]"), ("d", '{"layers": [{"digest": 1}]}'), ("e", '{"layers": 3}')):
        path = tmp_path / "manifests" / name / "x" / "y" / "z"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert [tag.name for tag in ollama_store.manifests(tmp_path / "manifests")] == ["registry.ollama.ai/library/a:1"]
    (found,) = ollama_store.readings(blob(tmp_path, b"others"), "shown")
    assert isinstance(found, Unobserved)
