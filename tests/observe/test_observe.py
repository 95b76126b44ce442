"""Whole looks at hosts: from raw processes, files and answers to one observation."""

from __future__ import annotations

import http.server
import itertools
import json
import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents import observation as document
from lockllm.facts.fact import Stage
from lockllm.facts.observation import By, CheckStatus, Observation
from lockllm.facts.registry import dump
from lockllm.facts.registry import seen as fact
from lockllm.observe import Request, merge, observe, subject
from lockllm.observe.collector import Collector
from tests.conftest import ENVIRON
from tests.observe import hosts
from tests.servers import start

PROPS = {
    "build_info": "b11549-0c1e5701", "model_path": "/models/m.gguf", "total_slots": 2, "chat_template": "{{ messages }}",
    "default_generation_settings": {"n_ctx": 512, "params": {"temperature": 0.5, "top_k": 40}},
}  # fmt: skip
INFO = {"tp_size": 1, "random_seed": 1, "version": "0.5.3"}


class Seen:
    """An observation by key."""

    def __init__(self, observation: Observation) -> None:
        self.all = observation
        self.text = json.dumps(document.dump(observation), ensure_ascii=False)
        self.readings = {readings[0].fact.key: readings for readings in observation.by_path().values()}
        self.gaps = {".".join(gap.path): gap for gap in observation.unobserved}
        self.checks = {check.name: check for check in observation.checks}

    def __getitem__(self, key: str) -> Any:
        reading = self.readings[key][0]
        return dump(reading.fact, reading.value)


def look(**asked: Any) -> Seen:
    return Seen(observe(Request(**{"timeout": 0.5, "gpu": "none", "environ": ENVIRON, **asked})))


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with SGLang's metadata, and a module of that name that only listens."""
    versions = {"sglang": "0.5.5", "torch": "2.8.0+cu128", "transformers": "4.57.1"}
    home = hosts.environment(tmp_path_factory.mktemp("host") / "venv", versions)
    module = hosts.site(home) / "sglang"
    module.mkdir()
    (module / "__init__.py").write_text("")
    (module / "launch_server.py").write_text(hosts.STAND_IN)
    return home


@contextmanager
def serving(bodies: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[str]:
    """A web server that answers these bodies: to the process that looks it is no engine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.get(self.path.partition("?")[0])
            body = body() if callable(body) else body
            raw = json.dumps(body).encode()
            self.send_response(200 if body is not None else 404)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *words: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_raw_host_gives_the_values_in_force(sglang: Path, tiny: Path) -> None:
    argv = [sglang / "bin/python", "-m", "sglang.launch_server", "--model-path", tiny, "--tp", "2"]
    with hosts.running(argv, {"CUDA_VISIBLE_DEVICES": "0,1"}, sglang) as (pid, _):
        seen = look(pid=pid)
    assert seen.all.stage is Stage.ALL
    assert (seen["engine.name"], seen["engine.version"], seen["packages.torch"]) == ("sglang", "0.5.5", "2.8.0+cu128")
    assert (seen["serve.tensor_parallel_size"], seen["serve.dtype"], seen["sampling.temperature"]) == (
        2,
        "bfloat16",
        0.6,
    )
    assert seen['checkpoint.files."config.json"']["size"] == (tiny / "config.json").stat().st_size
    assert seen["chat_template.source"] == "chat_template.jinja"
    assert seen.checks["check.server_current"].status is CheckStatus.PASS
    assert {("serve", "args"), ("env",), ("packages",), ("checkpoint", "files")} <= seen.all.complete


def test_what_only_a_full_look_can_close_is_not_due_beside_a_running_server(sglang: Path, tiny: Path) -> None:
    argv = [sglang / "bin/python", "-m", "sglang.launch_server", "--model-path", tiny]
    with hosts.running(argv, {}, sglang) as (pid, _):
        whole, live = look(pid=pid), look(pid=pid, stage=Stage.LIVE)
    open_at = {key: gap.due for key, gap in live.gaps.items() if key.startswith("serve.")}
    assert open_at
    assert set(open_at.values()) == {Stage.ALL}
    assert not {gap.due for key, gap in whole.gaps.items() if key.startswith("serve.")} & {Stage.ALL}


def test_no_secret_of_the_host_is_kept(sglang: Path, tiny: Path) -> None:
    argv = [sglang / "bin/python", "-m", "sglang.launch_server", "--model-path", tiny, "--api-key", "sk-first-secret"]
    env = {"HF_TOKEN": "hf_second_secret", "http_proxy": "http://user:third-secret@proxy:1"}
    with hosts.running(argv, env, sglang) as (pid, _):
        seen = look(pid=pid, api_key="sk-fourth-secret", headers=("X-Auth: fifth-secret",))
    assert "-secret" not in seen.text
    assert "hf_second" not in seen.text


def test_files_replaced_under_a_running_server_are_a_finding(sglang: Path, tiny: Path) -> None:
    with hosts.running([sglang / "bin/python", "-m", "sglang.launch_server", "--model-path", tiny], {}, sglang) as (
        pid,
        _,
    ):
        later = os.stat(f"/proc/{pid}").st_ctime + 60
        os.utime(tiny / "config.json", (later, later))
        check = look(pid=pid).checks["check.server_current"]
    assert (check.status, check.detail) == (
        CheckStatus.FAIL,
        "changed or replaced since the server started: config.json",
    )


def test_a_server_without_revision_is_what_main_names_now(sglang: Path, tiny: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub" / "models--org--name"
    commits = ["a" * 40, "b" * 40]
    for commit in commits:
        (hub / "snapshots" / commit).mkdir(parents=True)
        for file in tiny.iterdir():
            (hub / "snapshots" / commit / file.name).write_bytes(file.read_bytes())
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(commits[1])
    argv = [sglang / "bin/python", "-m", "sglang.launch_server", "--model-path", "org/name"]
    with hosts.running(argv, {"HF_HUB_CACHE": str(tmp_path / "hub")}, sglang) as (pid, _):
        assert look(pid=pid, repo="org/name", commit=commits[0])["checkpoint.commit"] == commits[1]
    with hosts.running([*argv, "--revision", commits[0]], {"HF_HUB_CACHE": str(tmp_path / "hub")}, sglang) as (pid, _):
        assert look(pid=pid)["checkpoint.commit"] == commits[0]
    with hosts.running(argv, {"HF_HUB_CACHE": str(tmp_path)}, sglang) as (pid, _):
        assert look(pid=pid).gaps["checkpoint"].reason == "the cache has no org/name"


def test_a_planned_command_is_read_in_place_of_a_process(sglang: Path, tiny: Path) -> None:
    command = (str(sglang / "bin/python"), "-m", "sglang.launch_server", "--model-path", "model", "--tp", "4")
    seen = look(command=command, cwd=str(tiny.parent), environ={"PATH": "/bin"})
    assert seen.all.stage is Stage.PREFLIGHT
    assert seen.readings["serve.tensor_parallel_size"][0].by is By.PLAN
    assert (seen["engine.version"], seen["serve.tensor_parallel_size"]) == ("0.5.5", 4)
    assert 'checkpoint.files."config.json"' in seen.readings
    assert subject(Request(command=command), seen.all) == "the planned command, before it runs"


def test_without_server_or_command_only_files_and_packages_are_looked_at(tiny: Path) -> None:
    seen = look(stage=Stage.PREFLIGHT, checkpoint=str(tiny), engine="sglang")
    assert 'checkpoint.files."config.json"' in seen.readings
    assert seen.gaps["serve"].due is Stage.LIVE
    assert seen.gaps["packages"].fix == "name the interpreter of the serving environment with --python"


def test_the_interpreter_that_is_named_is_the_environment(sglang: Path) -> None:
    seen = look(
        stage=Stage.PREFLIGHT, python=str(sglang / "bin/python"), engine="sglang", packages=frozenset(["xgrammar"])
    )
    assert (seen["engine.version"], seen["packages.xgrammar"]) == ("0.5.5", None)


def test_what_is_no_process_of_ours_is_seen_over_http_alone() -> None:
    with serving({"/props": PROPS, "/health": {"status": "ok"}}, {"Server": "llama.cpp"}) as url:
        seen = look(server=url)
    assert (seen["engine.name"], seen["serve.max_model_len"], seen["sampling.temperature"]) == ("llama.cpp", 512, 0.5)
    assert "only HTTP was used" in seen.gaps["host"].reason
    assert seen.gaps["checkpoint"].fix == "run `lockllm observe` there, and pass the file with --observation"
    assert seen.checks["check.replicas_agree"].status is CheckStatus.PASS
    assert subject(Request(server=url), seen.all) == f"server at {url}"


def test_replicas_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([PROPS, *[{**PROPS, "total_slots": 4}] * 9])
    with serving({"/props": lambda: next(turns)}, {"Server": "llama.cpp"}) as url:
        seen = look(server=url, engine="llama.cpp")
    check = seen.checks["check.replicas_agree"]
    assert (check.status, check.detail) == (CheckStatus.FAIL, "answers differ from call to call: serve.max_num_seqs")
    assert {reading.value for reading in seen.readings["serve.max_num_seqs"]} == {2, 4}


def test_replicas_are_compared_however_much_each_answer_holds() -> None:
    told = {"tp_size": 1, "random_seed": 1, "version": "0.5.3"}
    turns = itertools.count()

    def info() -> dict[str, Any]:
        """The members of a settings dump of SGLang with many schedulers: about a megabyte."""
        seed = 1 if next(turns) < 2 else 2
        return {**told, "random_seed": seed, **{f"k{at}": at for at in range(75_000)}}

    with serving({"/server_info": info, "/get_server_info": info}, {}) as url:
        seen = look(server=url, engine="sglang", timeout=20.0)
    check = seen.checks["check.replicas_agree"]
    assert (check.status, check.detail) == (CheckStatus.FAIL, "answers differ from call to call: serve.seed")


def test_replicas_that_could_not_be_compared_are_unknown() -> None:
    turns = iter([PROPS])
    with serving({"/props": lambda: next(turns, None)}, {"Server": "llama.cpp"}) as url:
        seen = look(server=url, engine="llama.cpp")
    check = seen.checks["check.replicas_agree"]
    assert (check.status, check.detail) == (CheckStatus.UNKNOWN, "no second round of answers was complete")


MOVED: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "a setting of llama.cpp": ("llama.cpp", {"/props": PROPS}, {"/props": {**PROPS, "total_slots": 4}}),
    "the template of llama.cpp": (
        "llama.cpp",
        {"/props": PROPS},
        {"/props": {**PROPS, "chat_template": "{{ other }}"}},
    ),
    "a setting of SGLang": ("sglang", {"/server_info": INFO}, {"/server_info": {**INFO, "random_seed": 2}}),
    "the release of SGLang": ("sglang", {"/server_info": INFO}, {"/server_info": {**INFO, "version": "0.5.5"}}),
}


@pytest.mark.parametrize("kind", MOVED)
def test_a_server_that_only_http_shows_is_asked_again_before_the_verdict(kind: str) -> None:
    engine, before, after = MOVED[kind]
    counts: Counter[str] = Counter()

    def answer(path: str) -> Any:
        counts[path] += 1
        return (before if counts[path] <= 3 else after).get(path)

    bodies = {path: partial(answer, path) for path in before}
    with serving(bodies, {"Server": "llama.cpp"} if engine == "llama.cpp" else {}) as url:
        seen = look(server=url, engine=engine)
    assert seen.checks["check.replicas_agree"].status is CheckStatus.PASS
    assert seen.checks["check.server_current"].status is CheckStatus.FAIL
    assert "its answers changed during the check" in seen.checks["check.server_current"].detail


@pytest.mark.parametrize("engine", ["llama.cpp", "sglang"])
def test_a_server_that_is_silent_at_the_end_is_unknown(engine: str) -> None:
    path, body = ("/props", PROPS) if engine == "llama.cpp" else ("/server_info", INFO)
    turns = iter([body] * 3)
    with serving({path: lambda: next(turns, None)}, {"Server": "llama.cpp"} if engine == "llama.cpp" else {}) as url:
        seen = look(server=url, engine=engine)
    assert seen.checks["check.server_answers"].status is CheckStatus.UNKNOWN
    assert "answered at first but not at the end" in seen.checks["check.server_answers"].detail
    assert ("check", "server_answers") in {each.path for each in seen.all.unobserved}
    assert not [each for each in seen.all.readings if each.by is By.ENDPOINT]


@pytest.mark.parametrize("engine", ["llama.cpp", "sglang"])
def test_a_server_that_says_the_same_at_the_end_has_no_finding(engine: str) -> None:
    path, body = ("/props", PROPS) if engine == "llama.cpp" else ("/server_info", INFO)
    with serving({path: body}, {"Server": "llama.cpp"} if engine == "llama.cpp" else {}) as url:
        seen = look(server=url, engine=engine)
    assert "check.server_current" not in seen.checks
    assert seen.checks["check.server_answers"].status is CheckStatus.PASS


def test_a_name_that_holds_a_secret_leaves_a_gap_where_it_stood() -> None:
    pile = Collector()
    pile.complete = {("serve", "args"), ("env",), ("packages",)}
    pile.add([fact(("env", "X_hidden-value"), "1", "environment", By.PROCESS)])
    kept = merge.redacted(pile, ["hidden-value"])
    assert (kept.readings, kept.complete) == ([], {("serve", "args"), ("packages",)})
    assert [(gap.path, gap.reason) for gap in kept.gaps()] == [(("env",), "a name in it contains a secret")]


def test_a_web_server_that_is_no_engine_is_a_finding() -> None:
    with serving({"/": {"hello": "world"}}, {}) as url:
        seen = look(server=url)
    assert seen.checks["check.server_answers"].status is CheckStatus.FAIL
    assert "engine.name" not in seen.readings


def test_a_port_with_nothing_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    seen = look(server=str(port))
    assert seen.checks["check.server_answers"].status is CheckStatus.UNKNOWN
    assert seen.gaps["host"].reason == f"nothing listens on port {port}"


@pytest.mark.parametrize("answer", [b"", b"\x00\xff" * 100, b"HTTP/1.1 200 OK\r\n\r\n<html>"])
def test_nonsense_on_a_port_takes_nothing_down(answer: bytes, tiny: Path) -> None:
    code = "import socket\nlistener = socket.create_server(('127.0.0.1', 0))\nprint(listener.getsockname()[1], flush=True)\n"
    code += (
        f"while True:\n    one = listener.accept()[0]\n    one.recv(99)\n    one.sendall({answer!r})\n    one.close()\n"
    )
    process = subprocess.Popen(["python3", "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        seen = look(server=process.stdout.readline().strip(), checkpoint=str(tiny))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert seen.checks["check.server_answers"].status is CheckStatus.FAIL
    assert 'checkpoint.files."config.json"' in seen.readings


def test_a_real_server_shows_itself_by_every_witness(llama_home: Path, tiny_gguf: Path) -> None:
    with start.llama_server(llama_home, "-m", str(tiny_gguf), "-c", "512", "-np", "2") as server:
        seen = look(server=server.url, timeout=10.0)
        live = look(server=server.url, timeout=10.0, stage=Stage.LIVE)
        by_pid = look(pid=server.pid, timeout=10.0)
    assert [reading.by for reading in seen.readings["serve.max_num_seqs"]][:2] == [By.ENDPOINT, By.PROCESS]
    assert seen['checkpoint.files."tiny.gguf"']["size"] == tiny_gguf.stat().st_size
    assert seen["libraries.xllamacpp.origin"] == "wheel"
    assert subject(Request(), seen.all) == f"server at {server.url} (pid {server.pid})"
    assert 'checkpoint.files."tiny.gguf"' not in live.readings
    assert set(by_pid.readings) == set(seen.readings)
