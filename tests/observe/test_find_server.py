from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lockllm.errors import UsageError
from lockllm.facts.observation import Unobserved
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
        with pytest.raises(UsageError, match=rf"process {child} \(cat\) is no server"):
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
    assert gap.reason.startswith(f"what listens on port {port} is no engine")
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
    assert gap.reason == "192.0.2.7 is another host: only HTTP was asked"
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
