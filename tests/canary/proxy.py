"""A gateway in front of a real server: it strips, refuses, and limits as gateways do."""

from __future__ import annotations

import itertools
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Rules:
    """What the gateway does to requests and answers."""

    no_logprobs: bool = False
    busy_every: int = 0  # every so many POSTs are answered 429 once
    key: str = ""
    breaks_after: int = 0  # after so many POSTs each is answered 500


@contextmanager
def proxy(target: str, rules: Rules) -> Iterator[str]:
    """The URL of a gateway before `target`."""
    count = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def pass_on(self, body: bytes | None) -> None:
            if rules.key and self.headers.get("Authorization") != f"Bearer {rules.key}":
                self.answer(401, b"{}")
                return
            request = urllib.request.Request(target + self.path, body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=120) as response:
                    self.answer(response.status, self.changed(response.read()))
            except urllib.error.HTTPError as error:
                self.answer(error.code, error.read())

        def changed(self, body: bytes) -> bytes:
            if not rules.no_logprobs:
                return body
            decoded = json.loads(body)
            for choice in decoded.get("choices", ()):
                choice.pop("logprobs", None)
            return json.dumps(decoded).encode()

        def do_GET(self) -> None:
            self.pass_on(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if rules.busy_every and next(count) % rules.busy_every == 0:
                self.answer(429, b"{}", Retry_After="0.01")
                return
            if rules.breaks_after and next(count) > rules.breaks_after:
                self.answer(500, b"{}")
                return
            self.pass_on(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
