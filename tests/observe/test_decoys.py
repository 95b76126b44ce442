"""Processes that are no server, or pretend to be one: what they hold is never told, and they cost a look little."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lockllm.errors import UsageError
from lockllm.facts.observation import By, Unobserved
from lockllm.observe import Request, observe
from lockllm.observe.process import proc
from lockllm.observe.server import find
from lockllm.observe.web import http
from tests.observe import hosts

SECRETS = ["-p", "CANARY-1", "--pw=CANARY-2", "-u", "admin:CANARY-3", "CANARY-4"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = hosts.environment(tmp_path_factory.mktemp("host") / "venv", {"vllm": "0.10.2"})
    hosts.program(made, "vllm")
    return made


@pytest.mark.parametrize("words", [SECRETS, ["vllm", *SECRETS], ["--api-key", "CANARY-5"], ["https://me:CANARY@x/"]])
def test_the_arguments_of_a_process_that_is_no_engine_are_never_told(words: list[str]) -> None:
    with hosts.running([sys.executable, "-c", hosts.STAND_IN, *words]) as (pid, port):
        gap = find.by_address(http.parse(str(port)))
    assert isinstance(gap, Unobserved)
    program = os.path.basename(os.path.realpath(sys.executable))
    assert (
        gap.reason
        == f"the program that listens on port {port} is not an engine (pid {pid} ({program})): only HTTP was used"
    )
    with subprocess.Popen(["tail", "-f", "/dev/null", "--pid", str(os.getpid()), *["/dev/null"] * 3]) as other:
        with pytest.raises(UsageError) as raised:
            find.by_pid(other.pid)
        other.kill()
    assert raised.value.what in (
        f"process {other.pid} (tail) is not a server",
        f"process {other.pid} (coreutils) is not a server",
    )


@contextmanager
def decoys(home: Path, count: int, words: list[str], env: dict[str, str]) -> Iterator[list[int]]:
    """So many processes with these words, that wait and do nothing else."""
    with ExitStack() as stack:
        argv = [str(home / "bin/vllm"), "serve", *words]
        yield [stack.enter_context(hosts.running(argv, env))[0] for _ in range(count)]


def test_what_is_held_of_all_processes_is_bounded_whatever_they_are_called(home: Path) -> None:
    long = ["x" * 100_000] * 10
    with decoys(home, 4, ["model", *long], {f"V{at}": "y" * 90_000 for at in range(6)}) as pids:
        processes = proc.everything(lambda process: process.pid in pids)
        for pid in pids:
            held = processes[pid]
            assert sum(map(len, held.argv)) <= 64 << 10
            assert sum(len(name) + len(value) for name, value in held.env.items()) <= 64 << 10
            assert not held.env_whole
        assert not any(process.argv for pid, process in processes.items() if pid not in pids)
        assert len(proc.read(pids[0]).argv) > 10  # one that is chosen is read whole


def test_more_servers_than_can_be_told_end_the_search_with_some_of_them(home: Path) -> None:
    with decoys(home, 10, ["model"], {}), pytest.raises(UsageError) as raised:
        find.choose("vllm")
    assert raised.value.what.startswith("several LLM servers are running on this host: ")
    assert raised.value.what.count("pid ") == 8
    assert "more" in raised.value.what


def test_more_processes_than_are_held_are_an_error_and_no_omission(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "_MOST_HELD", 10_000)
    with decoys(home, 2, ["model", "z" * 9_000], {}), pytest.raises(UsageError) as raised:
        find.choose("vllm")
    assert raised.value.what == "more LLM servers run on this host than lockllm inspects"


def test_a_server_of_another_user_is_told_with_its_owner(home: Path) -> None:
    with hosts.running([home / "bin/vllm", "serve", "model"]) as (pid, _):
        assert " of " not in find.describe(find.by_pid(pid))
    with hosts.nobodys_server() as (pid, port):
        assert find.describe(find.by_pid(pid)).startswith(f"pid {pid} of user nobody lmdeploy, port {port}")


@pytest.mark.parametrize("listening", [True, False])
def test_a_process_that_merely_looks_like_the_server_shows_nothing_of_it(listening: bool) -> None:
    with hosts.nobodys_server(listening) as (pid, _):
        if [each.process.pid for each in find.running("lmdeploy")] != [pid]:
            pytest.skip("another LMDeploy runs on this machine")
        seen = observe(Request(engine="lmdeploy", gpu="none", timeout=0.3))
    what = "does not answer" if listening else "listens on no port"
    reasons = {gap.path: gap.reason for gap in seen.unobserved}
    assert reasons[("engine", "name")] == f"pid {pid} of user nobody {what}, and may not be the server"
    assert ("serve", "args") not in seen.complete
    assert not [each for each in seen.readings if each.by in (By.PROCESS, By.LIBRARY)]
    assert (
        next(each.source for each in seen.checks if each.name == "check.server_current") == f"pid {pid} of user nobody"
    )
