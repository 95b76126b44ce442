"""A live server over HTTP: every probe of an engine asked at once, each within its time and size."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from lockllm.engines import Answer, Probe
from lockllm.errors import UsageError

if TYPE_CHECKING:
    import http.client

_MOST_BODY = 16 << 20
_MOST_TEXT = 4 << 20
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 3
_MOST_THREADS = 6  # cpp-httplib and others let five connections wait


class Server(msgspec.Struct, frozen=True):
    """Where a server is reached: scheme, host, port and the path before every probe's own."""

    scheme: str
    host: str
    port: int
    root: str = ""

    @property
    def url(self) -> str:
        """As a person would type it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.root}"

    @property
    def loopback(self) -> bool:
        """Whether it is this machine by its own name."""
        import ipaddress

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")


class Silence(msgspec.Struct, frozen=True):
    """A probe that gave nothing to read: why, and what would help."""

    probe: Probe
    kind: str  # refused, unreachable, timeout, key, forbidden, missing, loading, redirect, nonsense, error
    reason: str
    mend: str


def parse(text: str) -> Server:
    """The server of a URL, `host:port` or a bare port. UsageError for text that is none."""
    url = text if "://" in text else f"http://127.0.0.1:{text}" if text.isdigit() else f"http://{text}"
    mend = "name it like http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{_without_user(text)} is no URL: {error}", where="--server", mend=mend) from error
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{parts.scheme} is no scheme of a server", where="--server", mend=mend)
    if not parts.hostname or any(char.isspace() or not char.isprintable() for char in url):
        raise UsageError(f"{_without_user(text)!r} names no host", where="--server", mend=mend)
    if parts.username is not None or parts.password is not None:
        mend = "leave it out, and name a variable that holds the key with --api-key-env"
        raise UsageError("a server's URL must not hold a user or password", where="--server", mend=mend)
    root = parts.path.rstrip("/").removesuffix("/v1")
    return Server(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), root)


def ask(
    server: Server,
    probes: Sequence[Probe],
    headers: Mapping[str, str] | None = None,
    seconds: float = 5.0,
) -> tuple[Answer | Silence, ...]:
    """What the server says to each probe, in the order of the probes; all are asked at once."""
    deadline = time.monotonic() + seconds
    found: list[Answer | Silence | None] = [None] * len(probes)
    turns = iter(range(len(probes)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                at = next(turns, None)
            if at is None:
                return
            found[at] = one(server, probes[at], headers or {}, deadline)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_MOST_THREADS, len(probes)))]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:  # a limit on memory or on threads
        work()
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline + 0.5 - time.monotonic()))
    late = f"no answer within {seconds:g} s"
    return tuple(
        answer or Silence(probe, "timeout", f"{probe.method} {probe.path}: {late}", "see whether the server hangs")
        for probe, answer in zip(probes, found, strict=True)
    )


def wait(server: Server, probe: Probe, headers: Mapping[str, str], seconds: float, each: float = 5.0) -> None:
    """Return when the server answers and is no longer loading, or when the time is over."""
    deadline = time.monotonic() + seconds
    pause = 0.05
    while (left := deadline - time.monotonic()) > 0:
        answer = one(server, probe, headers, time.monotonic() + min(each, left))
        if isinstance(answer, Answer) or answer.kind not in ("refused", "unreachable", "loading", "timeout"):
            return
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 1.0)


def one(server: Server, probe: Probe, headers: Mapping[str, str], deadline: float) -> Answer | Silence:
    """What the server says to one probe."""
    import http.client

    say = _sayer(server, probe)
    sent = {"Accept": probe.accept, "User-Agent": "lockllm", **headers}
    path = server.root + probe.path
    try:
        for _ in range(_MOST_REDIRECTS):
            connection = _connect(server, deadline)
            try:
                answer = _exchange(connection, probe, path, sent, deadline)
            finally:
                connection.close()
            if isinstance(answer, Answer):
                return _judged(answer, say)
            target = urlsplit(answer)
            if target.netloc and (target.scheme, target.netloc) != (server.scheme, _netloc(server)):
                return say("redirect", f"is redirected to {target.hostname}", "name that host with --server to ask it")
            path, sent = target.path or "/", {name: sent[name] for name in ("Accept", "User-Agent")}
            path += f"?{target.query}" if target.query else ""
        return say("redirect", "is redirected without end", "see what stands before the server")
    except ConnectionRefusedError:
        return say("refused", "nothing listens there", "start the server, or name it with --server")
    except (TimeoutError, _TooLateError):
        return say("timeout", "no whole answer in time", "see whether the server hangs")
    except _TooMuchError:
        return say("nonsense", f"the answer is longer than {_MOST_BODY >> 20} MiB", "see what answers there")
    except http.client.HTTPException as error:
        what = "the answer breaks off" if isinstance(error, http.client.IncompleteRead) else "the answer is no HTTP"
        return say("nonsense", what, "see what answers there")
    except (OSError, ValueError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        kind = "nonsense" if isinstance(error, ConnectionError) else "unreachable"
        return say(kind, reason, "see whether host and port are right")


class _TooLateError(Exception):
    """The time is over."""


class _TooMuchError(Exception):
    """The answer is too long."""


def _connect(server: Server, deadline: float) -> http.client.HTTPConnection:
    import http.client

    left = _left(deadline)
    if server.scheme == "https":
        return http.client.HTTPSConnection(server.host, server.port, timeout=left)
    return http.client.HTTPConnection(server.host, server.port, timeout=left)


def _exchange(
    connection: http.client.HTTPConnection, probe: Probe, path: str, headers: Mapping[str, str], deadline: float
) -> Answer | str:
    """The answer, or where it is redirected to."""
    body = None if probe.body is None else msgspec.json.encode(probe.body)
    sent = {**headers, **({"Content-Type": "application/json"} if body is not None else {})}
    connection.request(probe.method, path, body=body, headers=sent)
    _limit(connection, deadline)
    response = connection.getresponse()
    taken = {name.lower(): value for name, value in response.getheaders()}
    if response.status in _REDIRECTS and "location" in taken and probe.method == "GET":
        return taken["location"]
    parts: list[bytes] = []
    size = 0
    while True:
        _limit(connection, deadline)
        part = response.read1(1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > _MOST_BODY:
            raise _TooMuchError
    length = response.getheader("Content-Length")
    if length and length.isascii() and length.isdigit() and size < (said := int(length[-18:])):
        import http.client as client

        raise client.IncompleteRead(b"", said - size)
    text = b"".join(parts)[:_MOST_BODY].decode("utf-8", "replace")
    return Answer(probe=probe, status=response.status, headers=taken, text=text, json=_json(text, taken))


def _judged(answer: Answer, say: Callable[[str, str, str], Silence]) -> Answer | Silence:
    """An answer to read, or what its status means."""
    status = answer.status
    if status == 401:
        return say("key", "answers 401: it wants a key", "name the variable that holds it with --api-key-env")
    if status == 403:
        mend = "name the variable that holds a key with --api-key-env, where the server has one"
        return say("forbidden", "answers 403: it is switched off, or wants a key", mend)
    if status == 503:
        return say(
            "loading", "answers 503: the server is still loading or overloaded", "try again, or pass --wait SECONDS"
        )
    if status in (404, 405, 501):
        return say("missing", f"answers {status}", "name the address of an inference server with --server")
    if status >= 400:
        return say("error", f"answers {status}", "see the server's log")
    wanted = answer.probe.accept.startswith("application/json")
    if wanted and answer.json is None and "html" in answer.headers.get("content-type", "").lower():
        return say("nonsense", "answers with a web page", "see whether an engine listens there")
    return answer


def _json(text: str, headers: Mapping[str, str]) -> Any:
    if "json" not in headers.get("content-type", "json").lower() and text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None


def _sayer(server: Server, probe: Probe) -> Callable[[str, str, str], Silence]:
    def say(kind: str, what: str, mend: str) -> Silence:
        return Silence(probe, kind, f"{probe.method} {server.url}{probe.path}: {what}", mend)

    return say


def _limit(connection: http.client.HTTPConnection, deadline: float) -> None:
    if connection.sock is not None:
        connection.sock.settimeout(_left(deadline))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise _TooLateError
    return left


def _netloc(server: Server) -> str:
    return urlsplit(server.url).netloc


def _without_user(text: str) -> str:
    return text.rpartition("@")[2]


def key_headers(key: str | None, headers: Iterable[str]) -> dict[str, str]:
    """The headers of a key and of `--header 'Name: value'` words. UsageError for a word that is none."""
    found: dict[str, str] = {}
    for word in headers:
        name, colon, value = word.partition(":")
        if not colon or not name.strip() or any(char in word for char in "\r\n"):
            raise UsageError("a header has no name and value", where="--header", mend="write it like 'X-Tenant: blue'")
        found[name.strip()] = value.strip()
    if key:
        found["Authorization"] = f"Bearer {key}"
    return found
