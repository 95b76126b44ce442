from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lockllm.errors import UsageError
from lockllm.facts.observation import CheckStatus, Unobserved
from lockllm.observe import observe
from lockllm.observe.process import proc
from lockllm.observe.request import Request
from lockllm.observe.server import find, locate
from lockllm.observe.web import http
from tests.observe import hosts


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = hosts.environment(tmp_path_factory.mktemp("host") / "venv", {"vllm": "0.10.2"})
    hosts.program(made, "vllm")
    return made


def test_a_server_is_found_by_pid_and_by_port(home: Path) -> None:
    with hosts.running([home / "bin/vllm", "serve", "model", "--port", "8000"]) as (pid, port):
        by_pid, by_port = find.by_pid(pid), find.by_address(http.parse(str(port)))
        assert isinstance(by_port, find.RunningServer)
        assert (by_pid.engine, by_pid.process.pid) == (by_port.engine, by_port.process.pid) == ("vllm", pid)
        assert by_pid.addresses == (("127.0.0.1", port),)


def test_only_launch_forms_of_the_engine_count(home: Path) -> None:
    with hosts.running([home / "bin/vllm", "serve", "model"]) as (pid, _):
        with hosts.running([home / "bin/python", "-c", hosts.STAND_IN, "vllm", "serve", "other"]) as (other, _):
            found = [each.process.pid for each in find.running("vllm")]
            assert pid in found
            assert other not in found
        assert pid not in [each.process.pid for each in find.running("sglang")]


def test_a_wrapper_and_what_it_runs_are_one_server(home: Path) -> None:
    argv = ["env", "-u", "NOTHING", "nice", "-n", "0", home / "bin/vllm", "serve", "model"]
    with hosts.running(argv) as (pid, _):
        assert [each.process.pid for each in find.running("vllm") if each.process.pid == pid] == [pid]
    script = f"{home}/bin/vllm serve model; exit"
    with hosts.running(["sh", "-c", script]) as (shell, port):
        found = find.by_address(http.parse(str(port)))
        assert isinstance(found, find.RunningServer)
        assert found.process.pid != shell


def test_several_servers_are_listed_and_none_is_chosen(home: Path) -> None:
    with (
        hosts.running([home / "bin/vllm", "serve", "one"]) as (first, port),
        hosts.running([home / "bin/vllm", "serve", "two"], {"CUDA_VISIBLE_DEVICES": "1"}) as (second, _),
        pytest.raises(UsageError, match="several LLM servers are running on this host: ") as raised,
    ):
        find.choose("vllm")
    assert f"pid {first} vllm, port {port}, model one" in raised.value.what
    assert f"pid {second} vllm, " in raised.value.what
    assert "model two, GPUs 1" in raised.value.what
    assert raised.value.exit_code == 2


def test_a_process_that_is_no_server_is_an_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.posix_spawn(
        "/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), (os.POSIX_SPAWN_CLOSE, writer)]
    )
    try:
        while Path(f"/proc/{child}/cmdline").read_bytes() != b"cat\0":
            time.sleep(0.01)
        with pytest.raises(UsageError, match=rf"process {child} \(cat\) is not a server"):
            find.by_pid(child)
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
    with pytest.raises(UsageError, match=f"no process {child}"):
        find.by_pid(child)


def test_what_listens_and_is_no_engine_is_asked_over_http_alone() -> None:
    with hosts.running([sys.executable, "-c", hosts.STAND_IN]) as (_, port):
        gap = find.by_address(http.parse(str(port)))
    assert isinstance(gap, Unobserved)
    assert gap.reason.startswith(f"the program that listens on port {port} is not an engine")
    after = find.by_address(http.parse(str(port)))
    assert isinstance(after, Unobserved)
    assert after.reason == f"nothing listens on port {port}"


@pytest.mark.parametrize("seconds, local", [(10.0, True), (0.1, False)])
def test_a_name_may_take_its_time_to_resolve_within_the_time_of_the_run(
    monkeypatch: pytest.MonkeyPatch, seconds: float, local: bool
) -> None:
    resolve = socket.getaddrinfo

    def slow(*words: Any, **options: Any) -> Any:
        time.sleep(0.8)
        return resolve(*words, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert bool(find.local_addresses("localhost", seconds)) is local


def test_a_server_of_another_host_is_not_looked_for_here() -> None:
    gap = find.by_address(http.parse("http://192.0.2.7:8000"))
    assert isinstance(gap, Unobserved)
    assert gap.reason == "192.0.2.7 is another host: only HTTP was used"
    assert gap.fix == "run `lockllm observe` there, and pass the file with --observation"


@pytest.mark.parametrize("spelling", [("--port", "{}"), ("--port={}",)])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_server_is_asked_at_the_port_that_its_command_gives_and_at_no_inner_one(
    home: Path, spelling: tuple[str, ...], is_open: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    program = home / "bin" / "vllm"
    script = "import socket, sys\nkept = [socket.create_server(('127.0.0.1', 0))]\n"
    script += f"kept += [socket.create_server(('127.0.0.1', {port}))]\n" if is_open else ""
    program.write_text(f"#!{home}/bin/python\n{script}print(1, flush=True)\nsys.stdin.read()\n")
    try:
        words = [word.format(port) for word in spelling]
        with hosts.running([program, "serve", "model", *words]) as (pid, _):
            found = locate.locate(Request(pid=pid))
            assert (found.address.port if found.address is not None else None) == (port if is_open else None)
    finally:
        hosts.program(home, "vllm")


UNTYPED: list[tuple[list[str], dict[str, str], int]] = [
    (["vllm", "serve", "m"], {}, 8000),
    (["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], {"VLLM_PORT": "9"}, 8000),
    (["vllm", "serve", "m", "--config", "c.yaml"], {}, 8123),
    (["python", "-m", "sglang.launch_server", "--model-path", "m"], {}, 30000),
    (["llama-server", "-m", "m.gguf"], {}, 8080),
    (["llama-server", "-m", "m.gguf"], {"LLAMA_ARG_PORT": "8124"}, 8124),
    (["lmdeploy", "serve", "api_server", "m"], {}, 23333),
    (["trtllm-serve", "m"], {}, 8000),
    (["text-generation-launcher", "--model-id", "m"], {}, 3000),
    (["text-generation-launcher", "--model-id", "m"], {"PORT": "8125"}, 8125),
    (["transformers", "serve", "m"], {}, 8000),
    (["python", "-m", "llama_cpp.server", "--model", "m.gguf"], {}, 8000),
    (["ollama", "serve"], {}, 11434),
    (["ollama", "serve"], {"OLLAMA_HOST": "127.0.0.1:8126"}, 8126),
    (["ollama", "serve"], {"OLLAMA_HOST": "http://[::1]:8127/x"}, 8127),
    (["ollama", "serve"], {"OLLAMA_HOST": "0.0.0.0"}, 11434),
    (["ollama", "serve"], {"OLLAMA_HOST": "https://example.org"}, 443),
]  # fmt: skip


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Servers of every engine that listen at one inner port of their own alone."""
    made = hosts.environment(tmp_path_factory.mktemp("loading") / "venv", {"vllm": "0.32.0"})
    for name in (
        "vllm",
        "llama-server",
        "lmdeploy",
        "trtllm-serve",
        "text-generation-launcher",
        "transformers",
        "ollama",
    ):
        hosts.program(made, name)
    for module in ("vllm/entrypoints/openai/api_server", "sglang/launch_server", "llama_cpp/server/__main__"):
        path = hosts.site(made) / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(hosts.STAND_IN)
    (made / "c.yaml").write_text("port: 8123\n")
    return made


@pytest.mark.parametrize("argv, env, number", UNTYPED)
def test_a_server_that_is_loading_is_not_asked_at_its_inner_ports(
    loading: Path, argv: list[str], env: dict[str, str], number: int
) -> None:
    with hosts.running([loading / "bin" / argv[0], *argv[1:]], env, loading) as (pid, inner):
        found = locate.locate(Request(pid=pid))
        assert found.server is not None
        assert [each[1] for each in found.server.addresses] == [inner]
        assert (locate.port(found.server), found.address) == (number, None)
        seen = observe(Request(pid=pid, gpu="none", quick=True, cache="off"))
    check = next(each for each in seen.checks if each.name == "check.server_answers")
    assert (check.status, f"does not listen on port {number} yet" in check.detail) == (CheckStatus.UNKNOWN, True)
    assert ("check", "server_answers") in [each.path for each in seen.unobserved]


@pytest.mark.parametrize("words", [("--port", "0"), ("--port=0",)])
def test_port_0_may_be_any(loading: Path, words: tuple[str, ...]) -> None:
    with hosts.running([loading / "bin/vllm", "serve", "m", *words], {}, loading) as (pid, port):
        address = locate.locate(Request(pid=pid)).address
        assert address is not None
        assert address.port == port


SUPERVISOR = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=sys.stdin)
child.wait()
"""
STARTERS: list[list[str]] = [
    ["sh", "-c", "{vllm} serve m; exit"],
    ["bash", "-c", "set -e; export A=1; {vllm} serve m; true"],
    ["bash", "-c", "exec 3<&0; {vllm} serve m <&3 & wait"],
    ["sh", "-c", "sh -c '{vllm} serve m; true'; true"],
    ["bash", "-c", "exec 3<&0; true | nice {vllm} serve m <&3; true"],
    ["sh", "start.sh"],
    [sys.executable, "-c", SUPERVISOR, "{vllm}", "serve", "m"],
    [sys.executable, "-c", SUPERVISOR, "sh", "-c", "{vllm} serve m; true"],
]


@pytest.mark.parametrize("argv", STARTERS, ids=lambda argv: " ".join(argv[:3])[:40])
def test_the_pid_of_what_started_a_server_finds_the_server(home: Path, tmp_path: Path, argv: list[str]) -> None:
    (tmp_path / "start.sh").write_text(f"{home}/bin/vllm serve m\ntrue\n")
    words = [word.replace("{vllm}", f"{home}/bin/vllm") for word in argv]
    with hosts.running(words, None, tmp_path) as (pid, port):
        found = find.by_pid(pid)
        assert (found.engine, found.process.pid != pid) == ("vllm", True)
        assert found.form is not None
        assert found.form.args == ("m",)
        assert [each[1] for each in found.addresses] == [port]


def test_several_servers_of_one_starter_are_listed(home: Path, tmp_path: Path) -> None:
    script = f"{home}/bin/vllm serve one <&3 & {home}/bin/vllm serve two <&3 & wait"
    with hosts.running(["bash", "-c", f"exec 3<&0; {script}"], None, tmp_path) as (pid, _):
        deadline = time.monotonic() + 60
        while len(proc_children(pid)) < 2 and time.monotonic() < deadline:
            pass
        with pytest.raises(UsageError, match="started several servers: pid ") as raised:
            find.by_pid(pid)
    assert raised.value.fix == "choose one of them with --pid"


def proc_children(pid: int) -> list[int]:
    below = proc.descendants(pid, proc.tree())
    return [each.pid for each in proc.whole(below) if "serve" in each.argv]


def test_a_shell_without_a_server_says_which_pid_to_give(tmp_path: Path) -> None:
    with (
        hosts.running(["sh", "-c", "echo 1; read line; true"], None, tmp_path) as (pid, _),
        pytest.raises(UsageError, match="is a shell, and no server runs below it") as raised,
    ):
        find.by_pid(pid)
    assert raised.value.fix == "give the pid of the server once the shell has started it"
