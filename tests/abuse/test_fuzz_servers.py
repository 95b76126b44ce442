"""Bytes of any kind in place of a server's answer: each is an answer, or a silence with its reason, and engines read it or leave it."""

from __future__ import annotations

import atexit
import json
import socket
import threading
from functools import lru_cache
from random import Random
from typing import Any

from hypothesis import given

from lockllm.engines import Answer, Context
from lockllm.observe.web import http
from tests.abuse.material import FOLDERS, bodies, bounded, engine, seeds, spoiled, told, values

NAMES = sorted(FOLDERS)
HEADS = (
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 \r\n", b"HTTP/1.1 302 Found\r\nLocation: /x\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 503 x\r\nRetry-After: 99999999999\r\n", b"HTTP/9.9 200 OK\r\n", b"HTTP/1.1 -1 OK\r\n",
    b"HTTP/1.1 401 No\r\nWWW-Authenticate: \xff\r\n", b"HTTP/1.1 200 OK\r\n folded: x\r\n", b"\xff\xfe", b"", b"HTTP/1.1 1e3 OK\r\n",
)  # fmt: skip
LINES = (
    b"Content-Type: application/json\r\n", b"Content-Type: application/json; charset=utf-32\r\n", b"Content-Type: x; charset=\xff\r\n",
    b"Content-Type: text/plain; charset=idna\r\n", b"Content-Encoding: gzip\r\n", b"Content-Encoding: br\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: x\r\n", b"Content-Length: 99999999\r\n",
    b"Content-Length: -1\r\n", b": x\r\n", b"x\r\n", b"Server: " + b"a" * 70_000 + b"\r\n", b"Server: \x1b[31m\r\n", b"A: b\r\n" * 150,
    b"Location: //x/\r\n", b"Location: http://[::1\r\n", b"Set-Cookie: a=b\r\n",
)  # fmt: skip


class Loopback:
    """A server that says the same bytes to everybody, and then hangs up."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.raw = b""
        threading.Thread(target=self.serve, daemon=True).start()
        atexit.register(self.listener.close)

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
                with connection:
                    connection.settimeout(1)
                    connection.recv(65536)
                    connection.sendall(self.raw)
                    connection.shutdown(socket.SHUT_WR)
            except TimeoutError:
                continue
            except OSError:
                if self.listener.fileno() < 0:
                    return


@lru_cache
def loopback() -> Loopback:
    return Loopback()


def answer(random: Random, body: Any) -> bytes:
    """A head of any kind, and a body that is JSON, or was."""
    raw = json.dumps(body).encode("utf-8", "surrogatepass")
    if random.random() < 0.2:
        raw = raw[: random.randrange(len(raw) + 1)] + bytes(random.randrange(256) for _ in range(5))
    if random.random() < 0.2:
        raw = (
            random.choice((b"%x\r\n" % len(raw), b"fffffffffffffffff\r\n", b"-1\r\n", b"0\r\n\r\n"))
            + raw
            + b"\r\n0\r\n\r\n"
        )
    lines = [random.choice(LINES) for _ in range(random.randrange(4))]
    if random.random() < 0.5:
        return HEADS[0] + LINES[0] + b"Content-Length: %d\r\n\r\n" % len(raw) + raw
    return random.choice(HEADS) + b"".join(lines) + b"\r\n" + raw


@bounded(40)
@given(seed=seeds, odd=values)
def test_any_bytes_of_a_server_are_an_answer_or_a_reason(seed: int, odd: Any) -> None:
    random = Random(seed)
    name = random.choice(NAMES)
    real = bodies(name)
    body = spoiled(random.choice(real), random, odd) if real and random.random() < 0.7 else odd
    here = loopback()
    here.raw = answer(random, body)
    server = http.Address("http", "127.0.0.1", here.listener.getsockname()[1])
    found = http.ask(server, engine(name).probes[:4], seconds=3)
    assert all(isinstance(each, (Answer, http.Silence)) for each in found)
    assert all(each.reason for each in found if isinstance(each, http.Silence))
    said = [each for each in found if isinstance(each, Answer)]
    engine(name).detect(said)
    told(
        engine(name).from_http(
            said, Context(version="0.11.0", checkpoint={}, host={}, packages={}, env={}, env_whole=True)
        )
    )
