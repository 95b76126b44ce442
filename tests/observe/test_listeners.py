"""A listener is known by address and port: real sockets of real processes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lockllm.facts.observation import Unobserved
from lockllm.observe.process import listeners
from lockllm.observe.server import find
from lockllm.observe.web import http
from tests.observe import hosts

LISTENS = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""
"""Listens at the address and port that are its arguments."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = hosts.environment(tmp_path_factory.mktemp("host") / "venv", {"vllm": "0.10.2"})
    script = made / "bin" / "vllm"
    script.write_text(f"#!{made}/bin/python\nimport sys; del sys.argv[1:3]\n{LISTENS}")
    script.chmod(0o755)
    return made


def has(address: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, 0))
            return True
    except OSError:
        return False


@contextmanager
def engines(home: Path, addresses: list[str]) -> Iterator[tuple[list[int], int]]:
    """One stand-in server for each address, all on one port: their pids, and the port."""
    with ExitStack() as stack, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        argv = [
            [home / "bin/vllm", "serve", f"model-{at}", each, str(port), "--port=0"]
            for at, each in enumerate(addresses)
        ]
        yield [stack.enter_context(hosts.running(words))[0] for words in argv], port


@pytest.mark.parametrize(
    "addresses, asked, answers",
    [
        (["127.0.0.2", "127.0.0.1"], "127.0.0.1", 1),
        (["127.0.0.2", "127.0.0.1"], "127.0.0.2", 0),
        (["0.0.0.0", "127.0.0.1"], "127.0.0.1", 1),
        (["0.0.0.0", "127.0.0.1"], "127.0.0.2", 0),
        (["0.0.0.0"], "0.0.0.0", 0),
        (["::1", "127.0.0.1"], "127.0.0.1", 1),
        (["::1", "127.0.0.1"], "::1", 0),
        (["::"], "127.0.0.1", 0),
        (["::"], "::1", 0),
        (["::ffff:127.0.0.1"], "127.0.0.1", 0),
    ],
)
def test_the_process_behind_an_address_is_the_one_that_the_kernel_chooses(
    home: Path, addresses: list[str], asked: str, answers: int
) -> None:
    if not all(map(has, addresses)):
        pytest.skip("this kernel has no IPv6")
    with engines(home, addresses) as (pids, port):
        assert listeners.accepting(asked, port) == (pids[answers],)
        found = find.by_address(http.Address("http", asked, port))
        assert isinstance(found, find.RunningServer)
        assert found.process.pid == pids[answers]


def test_a_port_that_is_in_use_at_another_address_alone_is_not_this_server(home: Path) -> None:
    with engines(home, ["127.0.0.2"]) as (_, port):
        gap = find.by_address(http.parse(f"http://127.0.0.1:{port}"))
    assert isinstance(gap, Unobserved)
    assert gap.reason == f"nothing listens on port {port} of 127.0.0.1: it is in use at another address"


def test_a_server_is_asked_where_it_answers_itself(home: Path) -> None:
    from lockllm.observe.server import locate

    with engines(home, ["0.0.0.0", "127.0.0.1"]) as (pids, port):
        shadowed, other = (locate._address(find.by_pid(pid)) for pid in pids)
    assert shadowed is None
    assert other == http.Address("http", "127.0.0.1", port)


def test_servers_that_share_an_address_are_told_apart_by_nobody(home: Path) -> None:
    with ExitStack() as stack:
        argv: list[str | Path] = [home / "bin/vllm", "serve", "model", "127.0.0.1", "0"]
        first, port = stack.enter_context(hosts.running(argv))
        argv[4] = str(port)
        second, _ = stack.enter_context(hosts.running(argv))
        gap = find.by_address(http.parse(str(port)))
    assert isinstance(gap, Unobserved)
    low, high = sorted((first, second))
    assert gap.reason == f"several servers share port {port}: pid {low}, pid {high}"
    assert gap.fix == "choose one of them with --pid"
