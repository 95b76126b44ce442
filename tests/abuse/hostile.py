"""Servers that do harm: real ones on loopback, and `lockllm` measured while it asks them."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.abuse.conftest import Done, Ours

LOCK = 'lock_version = 1\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'
Talk = Callable[[socket.socket, threading.Event, int], None]
MEASURE = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]);"
    "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
    "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr); sys.exit(code % 256)"
)


@dataclass
class Heard:
    """What a server was sent."""

    port: int
    requests: list[bytes] = field(default_factory=list)


@contextmanager
def listening(talk: Callable[[socket.socket, threading.Event, bytes], None]) -> Iterator[Heard]:
    """A loopback server; `talk(connection, over, request)` answers each request that has come whole."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    heard = Heard(listener.getsockname()[1])
    threads: list[threading.Thread] = []

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(5)
                request = _request(connection)
                heard.requests.append(request)
                talk(connection, over, request)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield heard
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)  # closing alone would leave the thread in accept()
        listener.close()
        accepting.join()
        for thread in threads:
            thread.join(30)


@contextmanager
def serving(talk: Talk) -> Iterator[int]:
    """A loopback server; `talk(connection, over, number)` answers each connection."""
    numbers = iter(range(10**6))
    with listening(lambda connection, over, _: talk(connection, over, next(numbers))) as heard:
        yield heard.port


def _request(connection: socket.socket) -> bytes:
    """A request, head and body. A greeting of TLS has neither, and is one part."""
    held = b""
    while b"\r\n\r\n" not in held and not held.startswith(b"\x16") and (part := connection.recv(65536)):
        held += part
    said = re.search(rb"(?i)content-length: (\d+)", held)
    while said and len(held.partition(b"\r\n\r\n")[2]) < int(said[1]) and (part := connection.recv(65536)):
        held += part
    return held


def routes(paths: Mapping[str, Any]) -> Callable[[socket.socket, threading.Event, bytes], None]:
    """Answers each path with its JSON, or its bytes as they are; 404 to all else."""

    def talk(connection: socket.socket, over: threading.Event, request: bytes) -> None:
        path = request.split(b" ")[1].decode("latin-1").partition("?")[0]
        body = paths.get(path, reply(b"{}", status="404 Not Found"))
        connection.sendall(body if isinstance(body, bytes) else reply(json.dumps(body).encode()))

    return talk


def reply(body: bytes, kind: str = "application/json", more: str = "", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def saying(raw: bytes) -> Talk:
    def talk(connection: socket.socket, over: threading.Event, number: int) -> None:
        connection.sendall(raw)

    return talk


def measured(ours: Ours, *words: str, env: Mapping[str, str | None] | None = None) -> tuple[Done, float, float]:
    """One run of the command line, the seconds of a processor that it took, and the most memory it held, in MB.

    That it ends at all is held by a time long enough for any machine.
    """
    done = ours(*words, env=env, inside=(sys.executable, "-c", MEASURE), timeout=300)
    *_, used, most = done.err.split()
    for text in (done.out, done.err):
        assert all(char.isprintable() or char == "\n" for char in text), repr(text)
    return done, float(used), int(most) / 1024
