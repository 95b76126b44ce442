"""What goes wrong with the Hub, in words: what happened, where, and what to do about it."""

from __future__ import annotations

import json
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.errors import LockllmError, ResolveError, WorldError
from lockllm.resolve.remote.hub_http import Answer, Astray, Client, Endless, Refused, wait_of
from lockllm.resolve.remote.web import Slow, shown

_TIMEOUTS = frozenset(
    {
        "Slow",
        "ConnectTimeout",
        "ReadTimeout",
        "ReadTimeoutError",
        "WriteTimeout",
        "PoolTimeout",
        "Timeout",
        "TimeoutException",
    }
)
_BROKEN = frozenset(
    {
        "RemoteProtocolError",
        "ReadError",
        "ChunkedEncodingError",
        "ProtocolError",
        "ContentDecodingError",
        "DecodingError",
        "Cut",
    }
)
_NO_NAME = (
    "Name or service not known",
    "name resolution",
    "getaddrinfo",
    "NameResolutionError",
    "nodename nor servname",
)
_LATER = "try again later, or lock with --offline from a complete download"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and where that stands written."""

    repo: str
    revision: str | None = None
    file: str | None = None
    where: str = ""  # of the repository in the spec
    where_revision: str = ""


def told(error: BaseException, client: Client, asked: Asked, url: str) -> LockllmError:
    """The error for the user: never with the token, nor with a password of an address."""
    if isinstance(error, LockllmError):
        return error
    if (
        type(error).__module__ == "builtins"
        and isinstance(error, OSError)
        and not isinstance(error, (ConnectionError, TimeoutError))
    ):
        what = f"a file of {asked.repo} cannot be kept while it is read: {(error.strerror or str(error)).lower()}"
        return WorldError(
            what, where=str(error.filename or ""), fix="free some space, or name another folder with TMPDIR"
        )
    if isinstance(error, Refused):
        found = _refused(error.answer, client, asked)
        url = error.answer.url
    else:
        found = _failed(error, client)
    what, fix = found.what, found.fix
    where = f"{found.where or asked.where}; GET {shown(url)}".removeprefix("; ")
    return ResolveError(_clean(what, client), where=_clean(where, client), fix=_clean(fix, client))


def no_object(answer: Answer, wanted: str) -> ResolveError:
    """For a 200 that is not what the Hub answers."""
    head = answer.body[:512].lstrip().lower()
    html = head.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")) or "html" in answer.headers.get(
        "content-type", ""
    )
    what = f"the Hub's address answers {'HTML, not JSON' if html else f'something else than {wanted}'}"
    fix = "check for a proxy or login page in between, and the value of HF_ENDPOINT"
    return ResolveError(what, where=f"GET {shown(answer.url)}", fix=fix)


def offline(repo: str, reason: str, why: str, where: str) -> ResolveError:
    """For what only the Hub could tell while it must not be asked."""
    fix = f"connect and drop {why}, or download it first: hf download {repo}"
    return ResolveError(f"{repo} cannot be locked offline: {reason}", where=where, fix=fix)


def _refused(answer: Answer, client: Client, asked: Asked) -> ResolveError:
    status, code = answer.status, answer.headers.get("x-error-code", "")
    said = _said(answer)
    has = bool(client.token)
    page = f"{shown(client.endpoint)}/{asked.repo}"
    revision = asked.revision or "main"
    if code == "RevisionNotFound":
        return _no_revision(asked, revision, page)
    if code == "EntryNotFound" and asked.file is not None:
        what = f"{asked.repo} lists {asked.file} at {revision[:12]} and does not hold it"
        return ResolveError(what, where=asked.where, fix=_LATER)
    if code == "GatedRepo" or "access to model" in said.lower() or "gated" in said.lower():
        return _gated(asked, page, has)
    if "access to this resource is disabled" in said.lower():
        return ResolveError(f"{asked.repo} is disabled on the Hub", where=asked.where, fix=f"see {page}")
    if status == 401 and "invalid" in said.lower() and code != "RepoNotFound":
        fix = "set HF_TOKEN to a valid token, or unset it for a public repository"
        return ResolveError("the Hub refuses the token", where="HF_TOKEN", fix=fix)
    if code == "RepoNotFound" or status in (401, 404):
        return _no_repo(asked, page, has)
    if status == 407:
        fix = "give user and password in HTTPS_PROXY, or exempt the Hub with NO_PROXY"
        return ResolveError("the proxy wants a password", where=_proxy(client) or "HTTPS_PROXY", fix=fix)
    if status == 429:
        return _too_often(answer, has)
    if status >= 500:
        return ResolveError(f"the Hub answers {status}{_because(said)}", fix=_LATER)
    if status == 403:
        fix = "use a token that may read this repository: HF_TOKEN"
        return ResolveError(f"the Hub forbids reading {asked.repo}{_because(said)}", where=asked.where, fix=fix)
    fix = "see whether HF_ENDPOINT names a Hub"
    return ResolveError(f"the Hub answers {status}{_because(said)}", where=asked.where, fix=fix)


def _no_revision(asked: Asked, revision: str, page: str) -> ResolveError:
    if re.fullmatch(r"[0-9a-f]{40}", revision):
        what = f"{asked.repo} has no commit {revision[:12]}: it never was, or its history was squashed"
        fix = "name a branch or tag, or run `lockllm lock --upgrade`"
    else:
        what, fix = f"{asked.repo} has no branch, tag or commit {revision!r}", f"see {page}/tree/main for those it has"
    return ResolveError(what, where=asked.where_revision or asked.where, fix=fix)


def _gated(asked: Asked, page: str, has: bool) -> ResolveError:
    if has:
        what, fix = (
            f"{asked.repo} is gated, and this token has no access",
            f"ask for access at {page} with its account",
        )
    else:
        what = f"{asked.repo} is gated, and no token is set"
        fix = f"ask for access at {page}, then set HF_TOKEN or run `hf auth login`"
    return ResolveError(what, where=asked.where, fix=fix)


def _no_repo(asked: Asked, page: str, has: bool) -> ResolveError:
    if has:
        what = f"the Hub holds no model {asked.repo}, or this token may not see it"
        fix = f"see {page}; check the spelling, and what the token may read"
    else:
        what = f"the Hub holds no model {asked.repo}, or it is private and no token is set"
        fix = f"see {page}; check the spelling, or set HF_TOKEN"
    return ResolveError(what, where=asked.where, fix=fix)


def _too_often(answer: Answer, has: bool) -> ResolveError:
    wait = wait_of(answer)
    when = f"try again in {wait:.0f} s" if wait is not None else "try again in some minutes"
    more = "" if has else "; a token raises the limit: set HF_TOKEN"
    return ResolveError("the Hub is rate-limiting requests (429)", fix=when + more)


def _failed(error: BaseException, client: Client) -> ResolveError:
    names = {each.__name__ for each in type(error).__mro__}
    text = " ".join(str(error).split())
    host = urllib.parse.urlsplit(client.endpoint).netloc.rpartition("@")[2]
    proxy = _proxy(client)
    if "OfflineModeIsEnabled" in names:
        return ResolveError(
            "the Hub must not be asked: HF_HUB_OFFLINE is set",
            where="HF_HUB_OFFLINE",
            fix="unset it, or lock with --offline",
        )
    if isinstance(error, Astray):
        return ResolveError(f"lockllm refuses the Hub's answer: {text}", fix="see what HF_ENDPOINT names")
    if isinstance(error, Endless):
        return ResolveError(f"the Hub's answer is longer than {error.limit:,} bytes", fix="see what HF_ENDPOINT names")
    if "CERTIFICATE" in text or "SSLError" in names or "SSL:" in text:
        fix = "where a proxy has a certificate of its own, name it: SSL_CERT_FILE and REQUESTS_CA_BUNDLE"
        return ResolveError(f"the certificate of {host} is not trusted", fix=fix)
    if names & _TIMEOUTS or (isinstance(error, Slow)):
        fix = "try again, give it longer with HF_HUB_ETAG_TIMEOUT=SECONDS, or lock with --offline"
        return ResolveError(f"the Hub gives no whole answer within {_time(error, client)} s{_through(proxy)}", fix=fix)
    if "ProxyError" in names or (proxy and names & {"ConnectError", "ConnectionError"}):
        return ResolveError(
            f"the proxy {proxy or ''} does not answer".replace("  ", " "),
            where="HTTPS_PROXY",
            fix="correct HTTPS_PROXY, or exempt the Hub with NO_PROXY",
        )
    if any(each in text for each in _NO_NAME):
        return ResolveError(
            f"there is no host {host}, or no network", fix="connect, correct HF_ENDPOINT, or lock with --offline"
        )
    if names & _BROKEN or "reset by peer" in text or "closed connection" in text or "IncompleteRead" in text:
        return ResolveError("the Hub breaks off its answer", fix=_LATER)
    if names & {"ConnectError", "ConnectionError"}:
        at = urllib.parse.urlsplit(client.at).netloc.rpartition("@")[2]
        if at != host:
            what = f"the Hub redirects to {at[:200]}, which takes no connection"
            return ResolveError(what, fix="see what HF_ENDPOINT names, or lock with --offline")
        return ResolveError(f"{host} takes no connection", fix="connect, correct HF_ENDPOINT, or lock with --offline")
    if "LocalProtocolError" in names or "InvalidHeader" in names or isinstance(error, UnicodeError):
        return ResolveError("the token holds characters that no token has", where="HF_TOKEN", fix="set HF_TOKEN anew")
    return ResolveError(f"the Hub cannot be asked: {type(error).__name__}: {text[:200]}", fix=_LATER)


def _time(error: BaseException, client: Client) -> str:
    return f"{error.seconds if isinstance(error, Slow) else client.patience:.3g}"


def _through(proxy: str) -> str:
    return f" through the proxy {proxy}" if proxy else ""


def _proxy(client: Client) -> str:
    """Host and port of the proxy that the Hub is reached through, or nothing."""
    import urllib.request

    parts = urllib.parse.urlsplit(client.endpoint)
    found: Mapping[str, str] = urllib.request.getproxies()
    url = found.get(parts.scheme) or found.get("all") or ""
    if not url or urllib.request.proxy_bypass(parts.hostname or ""):
        return ""
    return urllib.parse.urlsplit(url if "//" in url else f"//{url}").netloc.rpartition("@")[2]


def _said(answer: Answer) -> str:
    """The Hub's own message, if it gave one."""
    text = answer.headers.get("x-error-message", "")
    if not text:
        try:
            body: Any = json.loads(answer.body)
            text = body.get("error", "") if isinstance(body, dict) else ""
        except (ValueError, RecursionError):
            text = ""
    return " ".join(str(text).split())[:200]


def _because(said: str) -> str:
    return f": {said}" if said else ""


def _clean(text: str, client: Client) -> str:
    held = {client.token, os.environ.get("HF_TOKEN", ""), os.environ.get("HUGGING_FACE_HUB_TOKEN", "")}
    for secret in held:
        if len(secret) >= 4:
            text = text.replace(secret, "[token]")
    return re.sub(r"//[^/@\s]*@", "//", text)
