"""Workers of a running server say what it resolved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lockllm.facts.observation import By
from lockllm.observe import servers, workers
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
        found = servers.by_pid(pid)
        assert found.engine == "ollama"
        told = list(workers.readings(found))
        model = workers.given(found)[0].model
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
        found = servers.by_pid(pid)
        told = facts(workers.readings(found))
    assert told["serve.attention_backend"] == "flashinfer"
    assert told["serve.enable_prefix_caching"] is True
    assert told["serve.tensor_parallel_size"] == 2
    assert told["serve.quantization"] == "awq"
    assert json.dumps(told).count("org/m") == 0
