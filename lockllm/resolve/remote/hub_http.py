"""Questions to the Hub over its client's own session - proxies, certificates, token - each with a bound on time, bytes and hops."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import urllib.parse
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from lockllm.errors import ResolveError, UsageError
from lockllm.resolve.remote.web import Slow, is_of_the_link, origin_of, shown, within

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_HOPS = 5
_TRIES = 3
_PAUSE = 0.5  # seconds before the second try, twice as long before the third
_LONGEST_WAIT = 20.0  # seconds that a rate limit is waited for
_WHOLE = 600.0  # seconds for everything that one run asks
_ERROR_BODY = 64 * 2**10
_PART = 2**16
_TIMES = 6  # an answer may take so many times the time-out in all


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: header names in lower case, and the body, or the digests of one that went into a file."""

    status: int
    headers: Mapping[str, str]
    url: str  # after redirects
    body: bytes = b""
    size: int = 0
    sha256: str = ""
    git: str = ""  # git's id of these bytes as a file of the expected size


class Refused(Exception):
    """An answer whose status is no success."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Endless(Exception):
    """An answer longer than it may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class Astray(Exception):
    """Redirects that lead nowhere, or to what is not a web address."""


class Cut(Exception):
    """An answer that ends before it is whole."""


class Client:
    """The Hub at one endpoint, as the environment says. It never sends the token to another host."""

    def __init__(self) -> None:
        constants = _library().constants
        self.endpoint = (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
        origin = origin_of(self.endpoint)
        if origin is None:
            where, fix = "HF_ENDPOINT", "set it to an address such as https://huggingface.co, or unset it"
            raise UsageError(f"HF_ENDPOINT is not a web address: {shown(self.endpoint)}", where=where, fix=fix)
        self._origin = origin
        self.patience = _seconds("HF_HUB_ETAG_TIMEOUT", constants.HF_HUB_ETAG_TIMEOUT)
        self._patience_for_files = _seconds("HF_HUB_DOWNLOAD_TIMEOUT", constants.HF_HUB_DOWNLOAD_TIMEOUT)
        self._ends = time.monotonic() + _WHOLE
        self._headers: dict[str, str] | None = None
        self.at = self.endpoint  # where the last question went, after redirects

    @property
    def token(self) -> str:
        """The token that is sent, or nothing. For deciding what to say, and for taking it out of what is said."""
        held = self._headers or {}
        return next((v.partition(" ")[2] for k, v in held.items() if k.lower() == "authorization"), "")

    def get(self, path: str, *, limit: int, patience: float | None = None) -> Answer:
        """The answer to one GET: `path` below the endpoint, or an address that the Hub named."""
        url = f"{self.endpoint}{path}" if path.startswith("/") else path
        return self._tried(url, limit, patience or self.patience, None, 0)

    def save(self, path: str, into: str, size: int) -> Answer:
        """One file of `size` bytes, written to `into`; its digests are in the answer. Longer ones end in Endless."""
        return self._tried(f"{self.endpoint}{path}", size, self._patience_for_files, into, size)

    def _tried(self, url: str, limit: int, patience: float, into: str | None, size: int) -> Answer:
        for number in range(1, _TRIES + 1):
            left = self._ends - time.monotonic()
            seconds = min(patience * _TIMES, left)
            if seconds <= 0:
                raise Slow(_WHOLE)
            try:
                answer = within(seconds, lambda: self._hops(url, limit, patience, into, size))
            except Exception as error:
                if number == _TRIES or not _is_broken(error):
                    raise
                pause = _PAUSE * number
            else:
                if answer.status < 300:
                    return answer
                wait = wait_of(answer)
                pause = _PAUSE * number if wait is None else wait
                if answer.status not in _AGAIN or number == _TRIES or pause > _LONGEST_WAIT or pause > left:
                    raise Refused(answer)
            time.sleep(pause)
        raise Slow(_WHOLE)

    def _hops(self, url: str, limit: int, patience: float, into: str | None, size: int) -> Answer:
        library = _library()
        if self._headers is None:
            self._headers = dict(library.headers())
        session = library.session()
        for _ in range(_HOPS + 1):
            self._refuse(url)
            self.at = url
            with _stream(session, url, self._headers_for(url, into), patience) as (status, headers, chunks):
                if status in _REDIRECTS and headers.get("location"):
                    url = joined(url, headers["location"])
                    continue
                if status < 300 and into is not None:
                    with open(into, "wb") as file:
                        return _saved(status, headers, url, chunks, limit, file.write, size)
                most = limit if status < 300 else _ERROR_BODY
                body = bytearray()
                for chunk in chunks:
                    body += chunk
                    if len(body) > most:
                        if status < 300:
                            raise Endless(limit)
                        break
                return Answer(status=status, headers=headers, url=url, body=bytes(body), size=len(body))
        raise Astray(f"more than {_HOPS} redirects")

    def _refuse(self, url: str) -> None:
        """Astray for what is not a web address, and for the link's own addresses, where clouds tell a machine its secrets."""
        origin = origin_of(url)
        if origin is None or not url.isprintable() or (is_of_the_link(origin[1]) and origin[1] != self._origin[1]):
            raise Astray(f"a redirect to {shown(url)}")

    def _headers_for(self, url: str, into: str | None) -> dict[str, str]:
        """Those of the client; the token only where the Hub itself is asked, or its own https."""
        held = dict(self._headers or {})
        origin = origin_of(url)
        upgraded = (("https", self._origin[1], 443) if self._origin[0::2] == ("http", 80) else self._origin) == origin
        if origin != self._origin and not upgraded:
            held = {name: value for name, value in held.items() if name.lower() not in ("authorization", "cookie")}
        if into is not None:
            return {**held, "accept-encoding": "identity"}
        return {**held, "accept-encoding": "gzip", "accept": "application/json"}


def wait_of(answer: Answer) -> float | None:
    """How long an answer asks to wait before the next question, in seconds."""
    text = answer.headers.get("retry-after", "")
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", text):
        found = re.search(r"\bt=(\d{1,6})\b", answer.headers.get("ratelimit", ""))
        text = found[1] if found else ""
    return float(text) if text else None


def joined(base: str, url: str) -> str:
    """An address that another one names. Astray where that is none."""
    try:
        return urllib.parse.urljoin(base, url)
    except ValueError as error:
        raise Astray(f"a redirect to {shown(url)}") from error


class _Library(msgspec.Struct, frozen=True):
    constants: Any
    headers: Callable[[], Mapping[str, str]]
    session: Callable[[], Any]


def _library() -> _Library:
    """The Hub's client, kept from asking a question of its own (`/api/agent-harnesses`, 2.x) before ours."""
    quiet = "HF_HUB_DISABLE_TELEMETRY"
    unset = quiet not in os.environ
    if unset:
        os.environ[quiet] = "1"
    try:
        from huggingface_hub import constants
        from huggingface_hub.utils._headers import build_hf_headers
        from huggingface_hub.utils._http import get_session
    except ValueError as error:
        raise UsageError(
            f"the Hub's client refuses its environment: {error}",
            where="variables HF_*",
            fix="correct the value, or unset it",
        ) from error
    except ImportError as error:
        raise ResolveError(
            f"the Hub's client cannot be imported: {error}",
            where="huggingface_hub",
            fix='pip install "huggingface_hub>=0.30"',
        ) from error
    finally:
        if unset:
            del os.environ[quiet]
    from lockllm import __version__

    return _Library(
        constants, lambda: build_hf_headers(library_name="lockllm", library_version=__version__), get_session
    )


@contextlib.contextmanager
def _stream(session: Any, url: str, headers: Mapping[str, str], patience: float) -> Iterator[Any]:
    """A GET that is not read yet: by `requests` up to 0.36 of the client, by `httpx` and its successor since.

    What is packed is unpacked here: `httpx` up to 0.28 makes of 64 KiB as many MiB at once, and again for each layer.
    """
    if callable(session.stream):  # of `requests` it is a switch
        with session.stream("GET", url, headers=headers, timeout=patience, follow_redirects=False) as answer:
            taken = _lower(answer.headers)
            yield answer.status_code, taken, _unpacked(answer.iter_raw(), taken)
    else:
        with session.get(url, headers=headers, timeout=patience, allow_redirects=False, stream=True) as answer:
            taken = _lower(answer.headers)
            raw = answer.raw.stream(_PART, decode_content=False)
            yield answer.status_code, taken, _unpacked(raw, taken)


def _unpacked(chunks: Iterator[bytes], headers: Mapping[str, str]) -> Iterator[bytes]:
    """The bytes of an answer, in parts of at most 64 KiB of what was packed."""
    coding = headers.get("content-encoding", "").strip().lower()
    if coding in ("", "identity"):
        yield from chunks
        return
    if coding not in ("gzip", "x-gzip"):
        raise Astray(f"it is packed as {coding[:40]}, and nobody asked for that")
    packed = zlib.decompressobj(31)
    for chunk in chunks:
        left = chunk
        while left and not packed.eof:
            try:
                yield packed.decompress(left, _PART)
            except zlib.error as error:
                raise Cut from error
            left = packed.unconsumed_tail
    if not packed.eof:
        raise Cut


def _saved(
    status: int, headers: Mapping[str, str], url: str, chunks: Iterator[bytes], limit: int,
    write: Callable[[bytes], Any], size: int,
) -> Answer:  # fmt: skip
    sha256, git, count = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size), 0
    for chunk in chunks:
        count += len(chunk)
        if count > limit:
            raise Endless(limit)
        sha256.update(chunk)
        git.update(chunk)
        write(chunk)
    return Answer(
        status=status, headers=headers, url=url, size=count, sha256=sha256.hexdigest(), git=git.hexdigest()
    )  # fmt: skip


def _is_broken(error: BaseException) -> bool:
    """Whether a connection ended in the middle, which a second try may fix."""
    names = {each.__name__ for each in type(error).__mro__}
    return bool(names & {"RemoteProtocolError", "ReadError", "ChunkedEncodingError", "ConnectionResetError"}) or (
        "ConnectionError" in names and ("reset by peer" in str(error) or "closed connection" in str(error))
    )


def _lower(headers: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _seconds(name: str, otherwise: Any) -> float:
    text = os.environ.get(name, "")
    number = float(text) if re.fullmatch(r"\d{1,5}(\.\d+)?", text) else float(otherwise or 10)
    return max(0.1, number)
