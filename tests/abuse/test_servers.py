"""Servers that drip, never end, swell, lie or change their mind: `verify` ends in time and never says that all is well."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.abuse.conftest import Ours

LOCK = 'lock_version = 1\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'
Talk = Callable[[socket.socket, threading.Event, int], None]


@contextmanager
def serving(talk: Talk) -> Iterator[int]:
    """A loopback server; `talk(connection, over, number)` answers each connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def one(connection: socket.socket, number: int) -> None:
        with connection:
            try:
                connection.settimeout(5)
                connection.recv(65536)
                talk(connection, over, number)
            except OSError:
                pass

    def accept() -> None:
        for number in range(10_000):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection, number), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        listener.close()


def reply(body: bytes, kind: str = "application/json", more: str = "", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def drips_head(connection: socket.socket, over: threading.Event, number: int) -> None:
    for char in b"HTTP/1.1 200 OK\r\nX-" + b"a" * 10_000:
        connection.sendall(bytes([char]))
        if over.wait(0.1):
            return


def drips_body(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while not over.wait(0.1):
        connection.sendall(b" ")


def silent(connection: socket.socket, over: threading.Event, number: int) -> None:
    over.wait(30)


def endless(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"[" * 65536)


def endless_head(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.is_set():
        connection.sendall(b"X-A: b\r\n" * 1000)


def endless_chunks(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"1\r\n{\r\n" * 5000)


def saying(raw: bytes) -> Talk:
    def talk(connection: socket.socket, over: threading.Event, number: int) -> None:
        connection.sendall(raw)

    return talk


BOMB = gzip.compress(b"[" * (64 << 20))
TALKS: dict[str, Talk] = {
    "a head that drips": drips_head,
    "a body that drips": drips_body,
    "silence": silent,
    "a body without end": endless,
    "a head without end": endless_head,
    "chunks without end": endless_chunks,
    "a compressed bomb": saying(reply(BOMB, more="Content-Encoding: gzip\r\n")),
    "deep JSON": saying(reply(b'{"a":' * 200_000)),
    "a huge number": saying(reply(b'{"version": ' + b"9" * 2_000_000 + b"}")),
    "a huge exponent": saying(reply(b'{"version": 1e999999, "data": [-1e999999]}')),
    "not a number": saying(reply(b'{"version": NaN}')),
    "another host": saying(reply(b"", status="302 Found", more="Location: http://192.0.2.1/version\r\n")),
    "a local file": saying(reply(b"", status="302 Found", more="Location: file:///etc/passwd\r\n")),
    "a socket's scheme": saying(reply(b"", status="302 Found", more="Location: gopher://127.0.0.1:1/x\r\n")),
    "itself": saying(reply(b"", status="302 Found", more="Location: /version\r\n")),
    "a location that is none": saying(reply(b"", status="302 Found", more="Location: http://[\r\n")),
    "a web page": saying(reply(b"<html>" * 1000, "text/html")),
    "a picture": saying(reply(b"\x89PNG\xff\xfe", "image/png")),
    "another charset": saying(reply('{"version": "0.10.2"}'.encode("utf-16"), "application/json; charset=utf-16")),
    "no HTTP": saying(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "a length that lies": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999999\r\n\r\n{}"),
    "a negative length": saying(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "a text for a list": saying(reply(b'{"object": "list", "data": "x", "version": {"a": []}}')),
}


@pytest.mark.parametrize("name", TALKS)
def test_a_hostile_server_costs_its_time_and_is_never_a_match(work: Path, ours: Ours, name: str) -> None:
    (work / "llm.lock").write_text(LOCK)
    with serving(TALKS[name]) as port:
        begun = time.monotonic()
        done = ours(
            "verify",
            "--server",
            f"http://127.0.0.1:{port}",
            "--stage",
            "live",
            "--timeout",
            "1",
            "--format",
            "json",
            env={"SECRET_KEY": "sk-hidden-value"},
            timeout=40,
        )
        took = time.monotonic() - begun
    assert done.code in (1, 3), done.out + done.err
    told = json.loads(done.out)
    assert not [each for each in told["results"] if each["status"] == "match"]
    assert "root:" not in done.out
    assert took < 30


def test_answers_that_change_between_questions_are_told(work: Path, ours: Ours) -> None:
    (work / "llm.lock").write_text(LOCK)
    versions = ["0.10.2", "0.10.1"]

    def talk(connection: socket.socket, over: threading.Event, number: int) -> None:
        body: dict[str, Any] = {"version": versions[number % 2], "object": "list", "data": []}
        connection.sendall(reply(json.dumps(body).encode()))

    with serving(talk) as port:
        done = ours("verify", "--server", f"127.0.0.1:{port}", "--stage", "live", "--format", "json", "--timeout", "3")
    assert done.code != 0
