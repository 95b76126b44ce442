"""One exchange with a server that may be hostile: limits on time and size, and JSON only if it is complete."""

from __future__ import annotations

import functools
import io
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    import http.client
    import ssl

_MOST_BODY = 8 << 20
_MOST_TEXT = 4 << 20  # split into lines it takes twenty times as much
_MOST_HEAD = 64 << 10
_MOST_VALUES = 100_000  # in one JSON text: about 80 bytes of memory each
_MOST_MARKS = 4 * _MOST_VALUES  # values, and the strings between them: JSON has at most two for each value
_QUOTE = ord('"')
_STRING_OR_VALUE = re.compile(rb'"[^"]*"?|[,\[{]')  # once escapes are taken out; one that never ends is one, too
_ALL_BYTES = 8 << 20  # four times as much in memory where one letter is wide, and as often as questions are asked
_ALL_VALUES = 240_000
_DIGITS = 40
_UNPACKED = frozenset({"", "identity"})  # codings that change nothing
_PART = 1 << 16


class Late(Exception):
    """The time is over."""


class Broken(Exception):
    """The bytes are not an answer; the reason, as a clause."""


class Share:
    """The limit on all answers of one round together."""

    def __init__(self, size: int = _ALL_BYTES, values: int = _ALL_VALUES) -> None:
        self._size, self._values = size, values
        self._lock = threading.Lock()

    def take(self, size: int, values: int) -> None:
        """Use some of the limit. Broken where that is more than is left."""
        with self._lock:
            if size > self._size or values > self._values:
                raise Broken("all answers together are too long")
            self._size -= size
            self._values -= values

    def give(self, size: int, values: int) -> None:
        """Return what was used: nothing was kept."""
        with self._lock:
            self._size += size
            self._values += values


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as received. The body is read only for status 200."""

    status: int
    headers: Mapping[str, str]  # lower-case names
    body: bytes = b""


def left(deadline: float) -> float:
    """Seconds until then. Late where there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise Late
    return seconds


@functools.cache
def trust() -> ssl.SSLContext:
    """The trusted certificates. Call this before starting threads: a thread that still reads them at exit crashes OpenSSL."""
    import ssl

    return ssl.create_default_context()


def exchange(
    origin: tuple[str, str, int],
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    deadline: float,
) -> Raw:
    """One request to a scheme, host and port, and its answer. Broken, Late, and what http.client and sockets raise."""
    import http.client

    scheme, host, port = origin
    connection = http.client.HTTPConnection(host, port)
    connection.default_port = http.client.HTTPS_PORT if scheme == "https" else http.client.HTTP_PORT
    try:
        connection.sock = cast(Any, _Timed(_connected(scheme, host, port, deadline), deadline))
        connection.request(method, path, body=body, headers=dict(headers))
        with connection.getresponse() as response:
            taken = {name.lower(): value for name, value in response.getheaders()}
            if sum(len(name) + len(value) for name, value in response.getheaders()) > _MOST_HEAD:
                raise Broken(f"the answer's head is longer than {_MOST_HEAD >> 10} KiB")
            return Raw(status=response.status, headers=taken, body=_body(response) if response.status == 200 else b"")
    finally:
        connection.close()


def text(body: bytes, share: Share) -> str:
    """A body as text. Broken for one that is too long."""
    if len(body) > _MOST_TEXT:
        raise Broken(f"the answer is longer than {_MOST_TEXT >> 20} MiB")
    share.take(len(body), 0)
    return body.decode("utf-8", "replace")


def whole(body: bytes, share: Share) -> Any:
    """A body as JSON. Broken where two readers may read it differently: a repeated key, invalid UTF-8, NaN."""
    values = _values(body)
    if values > _MOST_VALUES:
        raise Broken(f"the answer contains more than {_MOST_VALUES:,} values")
    share.take(len(body), values)
    try:
        return _json(body)
    except Broken:
        share.give(len(body), values)
        raise


def _values(body: bytes) -> int:
    """An upper bound on the values in a JSON text. Strings are excluded only where the bound seems too high."""
    values = sum(map(body.count, (b",", b"[", b"{")))
    if values <= _MOST_VALUES:
        return values
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    found = itertools.islice(_STRING_OR_VALUE.finditer(plain), _MOST_MARKS)
    return sum(plain[each.start()] != _QUOTE for each in found)


def _json(body: bytes) -> Any:
    try:
        value = msgspec.json.decode(body)
        json.loads(body, object_pairs_hook=_once, parse_int=_integer, parse_float=len)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise Broken("the answer is not JSON") from error
    return value


def _body(response: http.client.HTTPResponse) -> bytes:
    said = _length(response)
    if said is not None:
        response.length = said  # where it is said twice, http.client would read until the connection ends
    body = bytearray()
    while part := response.read1(_PART):
        body += part
        if len(body) > _MOST_BODY:
            raise Broken(f"the answer is longer than {_MOST_BODY >> 20} MiB")
    if said is not None and len(body) < said:
        raise Broken("the answer is incomplete")
    return bytes(body)


def _connected(scheme: str, host: str, port: int, deadline: float) -> socket.socket:
    """A connection to the first address of a name that takes one, greeting included; each has its part of the time."""
    failed: OSError | Late | None = None
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        until = time.monotonic() + left(deadline) / (len(addresses) - tried)
        try:
            sock = socket.socket(family, kind, protocol)
            return _greeted(sock, address, host if scheme == "https" else None, until)
        except (OSError, Late) as error:
            failed = error
    raise failed or OSError("the name has no address")


def _greeted(sock: socket.socket, address: Any, certified: str | None, until: float) -> socket.socket:
    """The socket, connected, with TLS where a name is to be verified."""
    try:
        sock.settimeout(left(until))
        sock.connect(address)
        if certified is None:
            return sock
        sock.settimeout(left(until))
        return trust().wrap_socket(sock, server_hostname=certified)
    except BaseException:
        sock.close()
        raise


def _length(response: http.client.HTTPResponse) -> int | None:
    """How long a body is said to be. Broken where that is said in two ways, or the body is packed in one not asked for."""
    lengths = set(_words(response, "content-length"))
    codings = [each for each in _words(response, "transfer-encoding") if each not in _UNPACKED]
    if not _UNPACKED.issuperset(_words(response, "content-encoding")):
        raise Broken("the answer is compressed, although that was not requested")
    if codings != ["chunked"] * response.chunked or len(lengths) + len(codings) > 1:
        raise Broken("the answer states two lengths")
    said = next(iter(lengths), None)
    if said is None:
        return None
    if not (said.isascii() and said.isdigit()):
        raise Broken("the answer's length is not a number")
    return int(said[-18:])


def _words(response: http.client.HTTPResponse, name: str) -> list[str]:
    """The values of a header, on several lines or on one (RFC 9110, 5.3)."""
    return [word.strip().lower() for line in response.headers.get_all(name) or () for word in line.split(",")]


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise Broken("the answer contains a key twice")


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise Broken(f"the answer contains a number of {len(digits)} digits")
    return 0


class _Timed:
    """A connected socket that waits for no byte longer than what is left of the time, however they drip."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def sendall(self, data: bytes) -> None:
        """As a socket's, within the time."""
        self._sock.settimeout(left(self._deadline))
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """For `http.client`, which reads the answer from it."""
        raw = self._sock.makefile(mode, buffering=0)  # type: ignore[call-overload]
        return io.BufferedReader(_Reader(raw, self._sock, self._deadline), _PART)

    def close(self) -> None:
        """As a socket's: it stays open for a file that reads from it."""
        self._sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        super().__init__()
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """What comes within the time that is left."""
        self._sock.settimeout(left(self._deadline))
        return cast("int | None", cast(Any, self._raw).readinto(buffer))

    def close(self) -> None:
        """Close the socket."""
        self._raw.close()
        super().close()
