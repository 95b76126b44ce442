"""Questions to a package index: each with a bound on time and bytes, credentials for the index alone, and the web alone."""

from __future__ import annotations

import base64
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

import msgspec

from lockllm.errors import ResolveError
from lockllm.resolve.remote.web import Slow, is_of_the_link, origin_of, parts_of, shown, within

if TYPE_CHECKING:
    import urllib.request

_WHOLE = 120.0  # seconds for one answer, redirects and all: the longest pages are 10 MB
_WAIT = 20.0  # seconds for its next bytes
_PART = 2**16
_CONNECT = "connect, or give an exact version, or lock with --observation from the host"
_EXACT = "give an exact version in llm.toml"


class Page(msgspec.Struct, frozen=True):
    """What came back."""

    kind: str
    body: bytes
    url: str  # after redirects, without user and password


def get(url: str, accept: str, limit: int, index: str) -> Page:
    """What an address of the index, or one that it names, answers. ResolveError says why there is nothing."""
    import http.client
    import urllib.error

    if not _may_be_asked(url, index):
        where = shown(url)
        raise ResolveError("the package index has no address that can be asked", where=where, fix="set PIP_INDEX_URL")
    try:
        page = within(_WHOLE, lambda: _read(url, accept, limit, index))
    except urllib.error.HTTPError as cause:
        error = _refused(cause.code, shown(url))
        cause.close()
        raise error from cause
    except Slow as cause:
        what = f"the package index gives no whole answer within {_WHOLE:g} s"
        raise ResolveError(what, where=shown(url), fix=_CONNECT) from cause
    except (OSError, ValueError, http.client.HTTPException) as cause:
        reason = str(getattr(cause, "reason", cause)).strip()[:200]
        what = f"the package index does not answer: {reason or type(cause).__name__}"
        raise ResolveError(what, where=shown(url), fix=_CONNECT) from cause
    if len(page.body) > limit:
        raise ResolveError("the package index answers without end", where=shown(url), fix=_EXACT)
    return page


def _read(url: str, accept: str, limit: int, index: str) -> Page:
    import http.client
    import urllib.request

    ends = time.monotonic() + _WHOLE
    request = urllib.request.Request(_plain(url), headers={"Accept": accept, "User-Agent": "lockllm"})
    if (word := _authorization(url, index)) is not None:
        request.add_unredirected_header("Authorization", word)
    with _opener(index).open(request, timeout=_WAIT) as answer:
        if (coding := answer.headers.get("Content-Encoding", "identity").strip().lower()) not in ("", "identity"):
            what = f"the package index answers in {coding[:40]}, and nobody asked for that"
            raise ResolveError(what, where=shown(url), fix=_EXACT)
        body, length = bytearray(), answer.length or 0  # `read1` counts it down in some releases of Python alone
        while len(body) <= limit and (part := answer.read1(_PART)):
            body += part
            if time.monotonic() > ends:
                raise Slow(_WHOLE)
        if len(body) < length and len(body) <= limit:
            raise http.client.IncompleteRead(bytes(body), length - len(body))
        return Page(answer.headers.get("Content-Type", ""), bytes(body), answer.geturl())


def _opener(index: str) -> urllib.request.OpenerDirector:
    """Opens what is on the web, through the proxies of the environment: no file, no FTP."""
    import urllib.error
    import urllib.request

    class Redirects(urllib.request.HTTPRedirectHandler):
        """Follows redirects on the web; what the index is told to know us by stays with the index."""

        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            if not _may_be_asked(newurl, index):
                raise urllib.error.URLError(f"it redirects to {shown(newurl)}")
            fp.close()  # else `urllib` reads what stands beside the redirect, without end
            made = super().redirect_request(req, fp, code, msg, headers, _plain(newurl))
            if made is not None and (word := _authorization(newurl, index)) is not None:
                made.add_unredirected_header("Authorization", word)
            return made

    made = urllib.request.OpenerDirector()
    for each in (
        urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor(), Redirects(),
    ):  # fmt: skip
        made.add_handler(each)
    return made


def _authorization(url: str, index: str) -> str | None:
    """User and password of an index's address, for what lies on that host."""
    own = parts_of(index)
    if own is None or own.username is None or origin_of(url) != origin_of(index):
        return None
    user, password = (urllib.parse.unquote(each or "") for each in (own.username, own.password))
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _may_be_asked(url: str, index: str) -> bool:
    """Whether an address is of the web and breaks no line of a request; on the link, where clouds tell secrets, the index alone."""
    parts = parts_of(url)
    if parts is None or parts.port == 0 or not url.isprintable() or " " in url:
        return False
    return not is_of_the_link(parts.hostname or "") or origin_of(url) == origin_of(index)


def _plain(url: str) -> str:
    """Without user and password, which `urllib` takes for a part of the host's name."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _refused(status: int, where: str) -> ResolveError:
    if status == 404:
        return ResolveError("the package index does not hold it", where=where, fix=_EXACT)
    if status in (401, 403):
        fix = "give user and password in PIP_INDEX_URL, or an exact version in llm.toml"
        return ResolveError(f"the package index answers {status}: it wants to know who asks", where=where, fix=fix)
    fix = "try again, or give an exact version"
    return ResolveError(f"the package index answers {status}", where=where, fix=fix)
