"""A live server over HTTP: every probe of an engine asked at once, each within its time and size."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import urljoin, urlsplit

import msgspec

from lockllm.engines import Answer, Probe
from lockllm.errors import UsageError
from lockllm.observe.web import http_answer
from lockllm.observe.web.http_answer import Broken, Late, Raw, Share

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 3
_MOST_THREADS = 6  # cpp-httplib and others let five connections wait
_MOST_NAME = 100
_SLACK = 0.3  # seconds after the deadline for what came in time and is still being read
_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")


class Address(msgspec.Struct, frozen=True):
    """Where a server is reached: scheme, host, port and the path before every probe's own."""

    scheme: str
    host: str
    port: int
    root: str = ""

    @property
    def url(self) -> str:
        """As a person would type it."""
        return self.origin + self.root

    @property
    def origin(self) -> str:
        """Without any path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether it is this machine by its own name."""
        import ipaddress

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")


class Silence(msgspec.Struct, frozen=True):
    """A probe without a usable answer: why, and how to fix that."""

    probe: Probe
    kind: str  # refused, unreachable, timeout, key, forbidden, missing, loading, redirect, nonsense, error
    reason: str
    fix: str


def parse(text: str) -> Address:
    """The server of a URL, `host:port` or a bare port. UsageError for text that is none."""
    url = text if "://" in text else f"http://127.0.0.1:{text}" if text.isdigit() else f"http://{text}"
    fix = "name it like http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{_without_user(text)} is not a URL: {error}", where="--server", fix=fix) from error
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{parts.scheme} is not a supported scheme", where="--server", fix=fix)
    if not parts.hostname or any(char.isspace() or not char.isprintable() for char in url):
        raise UsageError(f"{_without_user(text)!r} names no host", where="--server", fix=fix)
    if parts.username is not None or parts.password is not None:
        fix = "leave it out, and name a variable that holds the key with --api-key-env"
        raise UsageError("a server's URL must not hold a user or password", where="--server", fix=fix)
    if parts.query or parts.fragment or port == 0:
        what = (
            "port 0 is not a port that a server can listen on"
            if port == 0
            else "a server's URL must not hold a query or fragment"
        )
        raise UsageError(what, where="--server", fix=fix)
    root = parts.path.rstrip("/").removesuffix("/v1")
    host = parts.hostname
    if ":" in host:
        host = host.replace("%25", "%")  # a zone as RFC 6874 writes it
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], root)


def ask(
    address: Address,
    probes: Sequence[Probe],
    headers: Mapping[str, str] | None = None,
    seconds: float = 5.0,
) -> tuple[Answer | Silence, ...]:
    """What the server says to each probe, in the order of the probes; all are asked at once, for one share together."""
    if address.scheme == "https":
        with contextlib.suppress(OSError):  # each question tells it
            http_answer.trust()
    deadline = time.monotonic() + seconds
    found: list[Answer | Silence | None] = [None] * len(probes)
    turns = iter(range(len(probes)))
    lock = threading.Lock()
    share = Share()

    def work() -> None:
        while True:
            with lock:
                at = next(turns, None)
            if at is None:
                return
            found[at] = one(address, probes[at], headers or {}, deadline, share)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_MOST_THREADS, len(probes)))]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:  # a limit on memory or on threads
        work()
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline + _SLACK - time.monotonic()))
    late = f"no answer within {seconds:.3g} s"
    return tuple(
        answer or Silence(probe, "timeout", f"{probe.method} {probe.path}: {late}", "check whether the server hangs")
        for probe, answer in zip(probes, found, strict=True)
    )


def wait(address: Address, probe: Probe, headers: Mapping[str, str], seconds: float, each: float = 5.0) -> None:
    """Return when the server answers and has loaded, or when the time is over."""
    deadline = time.monotonic() + seconds
    pause = 0.05
    while (remains := deadline - time.monotonic()) > 0:
        (answer,) = ask(address, [probe], headers, min(each, remains))
        if isinstance(answer, Answer) or answer.kind not in ("refused", "unreachable", "loading", "timeout"):
            return
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, 1.0)


def one(address: Address, probe: Probe, headers: Mapping[str, str], deadline: float, share: Share) -> Answer | Silence:
    """What the server says to one probe."""
    import http.client

    say = _sayer(address, probe)
    try:
        return _followed(address, probe, headers, deadline, share)
    except ConnectionRefusedError:
        return say("refused", "nothing listens on this address", "start the server, or name it with --server")
    except (TimeoutError, Late):
        return say("timeout", "no complete answer in time", "check whether the server hangs")
    except Broken as error:
        return say("nonsense", str(error), "check what answers there")
    except http.client.HTTPException as error:
        what = "the answer is incomplete" if isinstance(error, http.client.IncompleteRead) else "the answer is not HTTP"
        return say("nonsense", what, "check what answers there")
    except (OSError, UnicodeError) as error:
        return _unreached(error, say)
    except Exception as error:  # noqa: BLE001 - whatever a server makes of a probe, the others are asked too
        return say("nonsense", f"the answer cannot be read: {type(error).__name__}", "check what answers there")


def _followed(
    address: Address, probe: Probe, headers: Mapping[str, str], deadline: float, share: Share
) -> Answer | Silence:
    """The answer after redirects within the same host. Headers for the first path go to no other host."""
    say = _sayer(address, probe)
    body = None if probe.body is None else msgspec.json.encode(probe.body)
    plain = {"Accept": probe.accept, "User-Agent": "lockllm"}
    sent = {**plain, **headers, **({"Content-Type": "application/json"} if body is not None else {})}
    path = address.root + probe.path
    for _ in range(_MOST_REDIRECTS):
        origin = (address.scheme, address.host, address.port)
        raw = http_answer.exchange(origin, probe.method, path, body, sent, deadline)
        if raw.status not in _REDIRECTS or "location" not in raw.headers or probe.method != "GET":
            return _judged(probe, raw, say, share)
        try:
            target = urlsplit(urljoin(address.origin + path, raw.headers["location"]))
            there = (target.scheme, target.hostname, target.port or _PORTS.get(target.scheme))
        except ValueError:
            return say("redirect", "redirects to an invalid address", "check the proxy in front of the server")
        if there != origin or "@" in target.netloc:
            where = (target.hostname or target.scheme)[:_MOST_NAME]
            return say("redirect", f"redirects to {where}", "name that host with --server to ask it")
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        if not path.isascii() or any(char.isspace() or not char.isprintable() for char in path):
            return say("redirect", "redirects to an invalid address", "check the proxy in front of the server")
        sent = plain
    return say("redirect", "redirects without end", "check the proxy in front of the server")


def _judged(probe: Probe, raw: Raw, say: Callable[[str, str, str], Silence], share: Share) -> Answer | Silence:
    """An answer to read, or what its status or its body means."""
    status = raw.status
    if status == 401:
        return say("key", "answers 401: it requires a key", "name the variable that holds it with --api-key-env")
    if status == 403:
        fix = "name the variable that holds a key with --api-key-env, where the server has one"
        return say("forbidden", "answers 403: it is disabled or requires a key", fix)
    if status == 503:
        return say(
            "loading", "answers 503: the server is still loading or overloaded", "try again, or pass --wait SECONDS"
        )
    if status in (404, 405, 501):
        return say("missing", f"answers {status}", "name the address of an inference server with --server")
    if status != 200:
        return say("error", f"answers {status}", "see the server's log")
    if not probe.accept.startswith("application/json"):
        return Answer(probe=probe, status=status, headers=raw.headers, text=http_answer.text(raw.body, share))
    try:
        return Answer(probe=probe, status=status, headers=raw.headers, text="", json=http_answer.whole(raw.body, share))
    except Broken as error:
        if "html" in raw.headers.get("content-type", "").lower() and raw.body.lstrip().startswith(b"<"):
            return say("nonsense", "answers with a web page", "check whether an engine listens there")
        return say("nonsense", str(error), "check what answers there")


def _unreached(error: Exception, say: Callable[[str, str, str], Silence]) -> Silence:
    """Why there is no connection, or what ended it."""
    names = {each.__name__ for each in type(error).__mro__}
    if "SSLCertVerificationError" in names:
        why = getattr(error, "verify_message", "") or "it is not trusted"
        fix = "set SSL_CERT_FILE to the file of its certificate authority"
        return say("unreachable", f"its certificate is refused: {why}"[:200], fix)
    if "SSLError" in names:
        return say("unreachable", "it offers no supported TLS version", "check whether its address begins with http://")
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    kind = "nonsense" if isinstance(error, ConnectionError) else "unreachable"
    return say(kind, reason[:200], "check the host and port")


def _sayer(address: Address, probe: Probe) -> Callable[[str, str, str], Silence]:
    def say(kind: str, what: str, fix: str) -> Silence:
        return Silence(probe, kind, f"{probe.method} {address.url}{probe.path}: {what}", fix)

    return say


def _without_user(text: str) -> str:
    return text.rpartition("@")[2]


def key_headers(key: str | None, headers: Iterable[str]) -> dict[str, str]:
    """The headers of a key and of `--header 'Name: value'` words. UsageError for what no header can hold, without its text."""
    found: dict[str, str] = {}
    for word in headers:
        name, _, value = (part.strip() for part in word.partition(":"))
        if not (_TOKEN.fullmatch(name) and value and _VALUE.fullmatch(value)):
            raise UsageError("a header has no name and value", where="--header", fix="write it like 'X-Tenant: blue'")
        found[name] = value
    if key:
        if not _VALUE.fullmatch(key.strip()):
            fix = "set the variable to the key alone, in one line"
            raise UsageError("the key contains characters that a header cannot", where="--api-key-env", fix=fix)
        found["Authorization"] = f"Bearer {key.strip()}"
    return found
