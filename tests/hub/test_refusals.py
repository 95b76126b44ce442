"""What can go wrong with the Hub: each has its own words, its way back, an end in time, and no secret in it."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from huggingface_hub import constants

from tests.hub.conftest import Desk, tiny_files
from tests.hub.standin import Fault, File, Handler, Hub, Repo

TOKEN = "hf_this-is-a-secret"


@dataclass(frozen=True)
class Case:
    """One thing that goes wrong: how the Hub or the machine is set, and the first line of what is said, and the last."""

    what: str
    fix: str
    fault: Fault | None = None
    set: Callable[[Hub], None] | None = None
    env: tuple[tuple[str, str], ...] = ()
    repo: str = "org/tiny"
    revision: str | None = "main"
    code: int = 4


def status(number: int, kinds: str = "info tree file", body: bytes = b"", **headers: str) -> Fault:
    """Every answer of these kinds is this one."""
    held = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(handler: Handler, kind: str) -> bool:
        if kind in kinds.split():
            handler.send(number, body, held)
        return kind in kinds.split()

    return answer


def slow(handler: Handler, kind: str) -> bool:
    """Takes the question, and says nothing."""
    return handler.server.over.wait(30)


def drip(handler: Handler, kind: str) -> bool:
    """Sends header after header, and never the last."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"X-More: 1\r\n")
    return True


def endless(handler: Handler, kind: str) -> bool:
    """A JSON text without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    block = b'"' + b"x" * 2**20 + b'",'
    try:
        while not handler.server.over.is_set():
            handler.wfile.write(block)
    except OSError:
        handler.close_connection = True
    return True


def reset(handler: Handler, kind: str) -> bool:
    """The connection is gone in the middle."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True
    return True


def short(handler: Handler, kind: str) -> bool:
    """A body shorter than it says."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"sha": "')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True
    return True


def forever(handler: Handler, kind: str) -> bool:
    """A redirect to itself."""
    handler.send(307, b"", {"Location": handler.path})
    return True


def crowded(handler: Handler, kind: str) -> bool:
    """Pages of 60,000 files each, and always one more."""
    if kind == "tree":
        page = int(handler.path.partition("cursor=")[2] or 0)
        rows = [{"path": f"{page}-{number}", "size": 1} for number in range(60_000)]
        handler.json(
            rows, {"Link": f'<{handler.server.url}{handler.path.partition("?")[0]}?cursor={page + 1}>; rel="next"'}
        )
    return kind == "tree"


def pages(handler: Handler, kind: str) -> bool:
    """Pages of one new file each, without end."""
    if kind == "tree":
        page = int(handler.path.partition("cursor=")[2] or 0)
        url = f"{handler.server.url}{handler.path.partition('?')[0]}?cursor={page + 1}"
        handler.json([{"path": f"{page}", "size": 1}], {"Link": f'<{url}>; rel="next"'})
    return kind == "tree"


def other_bytes(handler: Handler, kind: str) -> bool:
    """A file of the listed size with other bytes in it."""
    if kind == "file":
        file = tiny_files()[handler.path.rpartition("/")[2]]
        handler.send(200, b"?" * file.length, {})
    return kind == "file"


def pointer(handler: Handler, kind: str) -> bool:
    """A Git LFS pointer where the content should be."""
    if kind == "file":
        handler.send(200, File(b"x" * 999, lfs=True).pointer, {})
    return kind == "file"


def gated(hub: Hub) -> None:
    hub.repos["org/tiny"].gated = True


def private(hub: Hub) -> None:
    hub.repos["org/tiny"].private = True


def without_end(hub: Hub) -> None:
    hub.page = 0


WRONG = (("HF_TOKEN", TOKEN),)
ODD = "check for a proxy or login page in between, and the value of HF_ENDPOINT"
LATER = "try again later, or lock with --offline from a complete download"
SPELL = "see HUB/org/none; check the spelling, or set HF_TOKEN"
CASES = {
    "missing": Case("the Hub holds no model org/none, or it is private and no token is set", SPELL, repo="org/none"),
    "private": Case(
        "the Hub holds no model org/tiny, or it is private and no token is set",
        "see HUB/org/tiny; check the spelling, or set HF_TOKEN", set=private,
    ),
    "a missing branch": Case(
        "org/tiny has no branch, tag or commit 'v9'", "see HUB/org/tiny/tree/main for those it has", revision="v9"
    ),
    "a missing commit": Case(
        f"org/tiny has no commit {'1' * 12}: it never was, or its history was squashed",
        "name a branch or tag, or run `lockllm lock --upgrade`", revision="1" * 40,
    ),
    "gated": Case(
        "org/tiny is gated, and no token is set",
        "ask for access at HUB/org/tiny, then set HF_TOKEN or run `hf auth login`", set=gated,
    ),
    "gated for this token": Case(
        "org/tiny is gated, and this token has no access", "ask for access at HUB/org/tiny with its account",
        fault=status(403, "file", X_Error_Code="GatedRepo"), env=(("HF_TOKEN", "hf_a-token-that-is-good"),),
    ),
    "a dead token": Case(
        "the Hub refuses the token", "set HF_TOKEN to a valid token, or unset it for a public repository", env=WRONG
    ),
    "an odd token": Case(
        "the token holds characters that no token has", "set HF_TOKEN anew", env=(("HF_TOKEN", "hf_ü\x07☃secret"),)
    ),
    "disabled": Case(
        "org/tiny is disabled on the Hub", "see HUB/org/tiny",
        fault=status(403, X_Error_Message="Access to this resource is disabled."),
    ),
    "forbidden": Case(
        "the Hub forbids reading org/tiny", "use a token that may read this repository: HF_TOKEN", fault=status(403)
    ),
    "too often": Case(
        "the Hub is rate-limiting requests (429)", "try again in 77 s; a token raises the limit: set HF_TOKEN",
        fault=status(429, Retry_After="77"),
    ),
    "too often by its own header": Case(
        "the Hub is rate-limiting requests (429)", "try again in 55 s; a token raises the limit: set HF_TOKEN",
        fault=status(429, ratelimit='"api";r=0;t=55', ratelimit_policy='"fixed window";"api";q=500;w=300'),
    ),
    "broken down": Case("the Hub answers 503", LATER, fault=status(503, Retry_After="0")),
    "broken down with a reason": Case(
        "the Hub answers 500: it is on fire", LATER, fault=status(500, body=b'{"error": "it is on  fire"}', Retry_After="0")
    ),
    "a teapot": Case("the Hub answers 418", "see whether HF_ENDPOINT names a Hub", fault=status(418)),
    "a login page": Case(
        "the Hub's address answers HTML, not JSON", ODD, fault=status(200, body=b"\n<!DOCTYPE html><html>", Content_Type="text/html")
    ),
    "a list": Case(
        "the Hub's address answers something else than a JSON object about the model", ODD, fault=status(200, body=b"[1]")
    ),
    "no commit": Case(
        "the Hub's address answers something else than a model with its commit", ODD, fault=status(200, body=b'{"id": "x"}')
    ),
    "no text": Case(
        "the Hub's address answers something else than a JSON object about the model", ODD, fault=status(200, body=b'{"sha": "\xff')
    ),
    "a tree that is an object": Case(
        "the Hub's address answers something else than a list of files", ODD, fault=status(200, "tree", b'{"error": 1}')
    ),
    "a deep tree": Case(
        "the Hub's address answers something else than a list of files", ODD, fault=status(200, "tree", b"[" * 10**5)
    ),
    "a file without a size": Case(
        "the Hub tells no size of config.json", "see what HF_ENDPOINT names",
        fault=status(200, "tree", b'[{"type": "file", "path": "config.json", "oid": "x"}]'),
    ),
    "a file of two sizes": Case(
        "the Hub lists a twice, and not alike", "try again later",
        fault=status(200, "tree", b'[{"path": "a", "size": 1}, {"path": "a", "size": 2}]'),
    ),
    "pages without end": Case(
        "org/tiny lists more than 50,000 files, or without end", "name a repository of one model",
        set=without_end,
    ),
    "too many files": Case(
        "org/tiny lists more than 50,000 files, or without end", "name a repository of one model", fault=crowded
    ),
    "silent": Case(
        "the Hub gives no whole answer within 0.3 s", "try again, give it longer with HF_HUB_ETAG_TIMEOUT=SECONDS, or lock with --offline",
        fault=slow,
    ),
    "dripping": Case(
        "the Hub gives no whole answer within 1.8 s", "try again, give it longer with HF_HUB_ETAG_TIMEOUT=SECONDS, or lock with --offline",
        fault=drip,
    ),
    "endless": Case("the Hub's answer is longer than 33,554,432 bytes", "see what HF_ENDPOINT names", fault=endless),
    "cut": Case("the Hub breaks off its answer", LATER, fault=reset),
    "short": Case("the Hub breaks off its answer", LATER, fault=short),
    "a bomb": Case(
        "the Hub's answer is longer than 33,554,432 bytes", "see what HF_ENDPOINT names",
        fault=status(200, body=gzip.compress(b" " * (64 << 20)), Content_Encoding="gzip"),
    ),
    "packed in two layers": Case(
        "lockllm refuses the Hub's answer: it is packed as gzip, gzip, and nobody asked for that", "see what HF_ENDPOINT names",
        fault=status(200, body=gzip.compress(gzip.compress(b"{}")), Content_Encoding="gzip, gzip"),
    ),
    "packed and cut": Case(
        "the Hub breaks off its answer", LATER,
        fault=status(200, body=gzip.compress(b'{"sha": "' + b"a" * 40 + b'"}')[:-9], Content_Encoding="gzip"),
    ),
    "packed and none": Case("the Hub breaks off its answer", LATER, fault=status(200, body=b"{}", Content_Encoding="gzip")),
    "a commit twice": Case(
        "the Hub's address answers something else than a JSON object about the model", ODD,
        fault=status(200, body=b'{"sha": "%b", "sha": "%b"}' % (b"a" * 40, b"b" * 40)),
    ),
    "millions of values": Case(
        "the Hub's address answers something else than a list of files", ODD,
        fault=status(200, "tree", b"[" + b'{"path":""},' * 2_000_000 + b"{}]"),
    ),
    "a file larger than any": Case(
        "the Hub tells no size of x.safetensors", "see what HF_ENDPOINT names",
        fault=status(200, "tree", b'[{"path": "x.safetensors", "size": %d, "lfs": {"oid": "%b"}}]' % (2**63, b"a" * 64)),
    ),
    "pages of one file": Case(
        "org/tiny lists more than 50,000 files, or without end", "name a repository of one model", fault=pages
    ),
    "a next page in a file": Case(
        "lockllm refuses the Hub's answer: a redirect to file:///etc/passwd", "see what HF_ENDPOINT names",
        fault=status(200, "tree", b'[{"path": "x", "size": 1}]', Link='<file:///etc/passwd>; rel="next"'),
    ),
    "the cloud's own address": Case(
        "lockllm refuses the Hub's answer: a redirect to http://169.254.169.254/latest/meta-data/", "see what HF_ENDPOINT names",
        fault=status(302, Location="http://169.254.169.254/latest/meta-data/"),
    ),
    "the cloud's own address as a number": Case(
        "lockllm refuses the Hub's answer: a redirect to http://2852039166/", "see what HF_ENDPOINT names",
        fault=status(302, Location="http://2852039166/"),
    ),
    "the cloud's own address of IPv6": Case(
        "lockllm refuses the Hub's answer: a redirect to http://[fd00:ec2::254]/latest/meta-data/", "see what HF_ENDPOINT names",
        fault=status(302, Location="http://[fd00:ec2::254]/latest/meta-data/"),
    ),
    "another cloud's own address": Case(
        "lockllm refuses the Hub's answer: a redirect to http://100.100.100.200/", "see what HF_ENDPOINT names",
        fault=status(302, Location="http://100.100.100.200/"),
    ),
    "to where nobody listens": Case(
        "the Hub redirects to 127.0.0.1:1, which takes no connection", "see what HF_ENDPOINT names, or lock with --offline",
        fault=status(302, Location="http://127.0.0.1:1/"),
    ),
    "in a circle": Case("lockllm refuses the Hub's answer: more than 5 redirects", "see what HF_ENDPOINT names", fault=forever),
    "out of the web": Case(
        "lockllm refuses the Hub's answer: a redirect to file:///etc/passwd", "see what HF_ENDPOINT names",
        fault=status(302, Location="file:///etc/passwd"),
    ),
    "other bytes": Case("chat_template.jinja of org/tiny: the Hub sends other bytes than it lists", "try again later", fault=other_bytes),
    "a pointer": Case(
        "chat_template.jinja of org/tiny: the Hub sends a Git LFS pointer in place of it", "try again later", fault=pointer
    ),
    "a proxy that wants a password": Case(
        "the proxy wants a password", "give user and password in HTTPS_PROXY, or exempt the Hub with NO_PROXY",
        fault=status(407),
    ),
    "nobody there": Case(
        "127.0.0.1:1 takes no connection", "connect, correct HF_ENDPOINT, or lock with --offline",
        env=(("HF_ENDPOINT", "http://127.0.0.1:1"),),
    ),
    "no such host": Case(
        "there is no host hub.invalid, or no network", "connect, correct HF_ENDPOINT, or lock with --offline",
        env=(("HF_ENDPOINT", "http://hub.invalid"),),
    ),
    "a dead proxy": Case(
        "the proxy 127.0.0.1:1 does not answer", "correct HTTPS_PROXY, or exempt the Hub with NO_PROXY",
        env=(("http_proxy", "http://user:secret@127.0.0.1:1"), ("HF_ENDPOINT", "http://hub.invalid"), ("no_proxy", "")),
    ),
    "no endpoint": Case(
        "HF_ENDPOINT is not a web address: ftp://hub", "set it to an address such as https://huggingface.co, or unset it",
        env=(("HF_ENDPOINT", "ftp://hub"),), code=2,
    ),
    "offline by the environment": Case(
        "org/tiny cannot be locked offline: the cache has no ref 'main' of this repository",
        "connect and drop HF_HUB_OFFLINE, or download it first: hf download org/tiny", env=(("HF_HUB_OFFLINE", "1"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_goes_wrong_is_said_with_its_fix(
    hub: Hub, tiny_repo: Repo, desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = CASES[name]
    hub.fault = case.fault
    if case.set is not None:
        case.set(hub)
    if case.fault in (slow, drip):
        monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.3)
    for variable, value in case.env:
        monkeypatch.setenv(variable, value)
    desk.spec(case.repo, case.revision)
    code = desk.lock()
    lines = desk.err.splitlines()
    assert lines[0].replace(hub.url, "HUB") == f"lockllm: {case.what}"
    assert lines[-1].replace(hub.url, "HUB") == f"  fix   {case.fix}"
    assert (code, len(lines)) == (case.code, 3)
    for secret in (TOKEN, hub.token, "secret", "Traceback"):
        assert secret not in desk.err
    assert not (desk.folder / "llm.lock").exists()


@pytest.mark.parametrize(
    "location", ["http://[", "/\x1b]0;x\x07", "http://h:99999/", "//", "http://%00/", "x" * 60_000]
)
def test_a_redirect_to_what_is_no_address_is_an_error_whatever_the_client_makes_of_it(
    hub: Hub, tiny_repo: Repo, desk: Desk, location: str
) -> None:
    hub.fault = status(302, Location=location)
    desk.spec()
    assert desk.lock() == 4
    assert desk.err.startswith("lockllm: ")
    assert all(char.isprintable() or char == "\n" for char in desk.err)
    assert len(desk.err) < 2000


def test_no_model_there_is_a_wrong_input(hub: Hub, desk: Desk) -> None:
    hub.repos["org/data"] = Repo()
    hub.repos["org/data"].push(
        {"README.md": File(b"#"), "train.parquet": File(None, lfs=True, size=9, claimed="a" * 64)}
    )
    desk.spec("org/data")
    assert desk.lock() == 2
    assert desk.err.splitlines()[0] == "lockllm: no checkpoint in org/data: no config.json, no weights, no tokenizer"


def test_what_passes_is_asked_again(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    told: list[str] = []

    def once(handler: Handler, kind: str) -> bool:
        if kind in told:
            return False
        told.append(kind)
        number = {"info": 503, "tree": 429}.get(kind, 500)
        handler.send(number, b"", {"Retry-After": "0"})
        return True

    hub.fault = once
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert hub.kinds()[:4] == ["info", "info", "tree", "tree"]


def test_the_token_goes_to_the_hub_and_to_nobody_else(
    hub: Hub, tiny_repo: Repo, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tiny_files()
    tiny_repo.private = True
    tiny_repo.push({**files, "chat_template.jinja": File(files["chat_template.jinja"].data, lfs=True)})
    monkeypatch.setenv("HF_TOKEN", hub.token)
    desk.spec()
    assert desk.lock() == 0, desk.err
    sent = {(each.host.partition(":")[0], bool(each.authorization)) for each in hub.requests}
    assert sent == {("127.0.0.1", True), ("localhost", False)}
    for text in (desk.text, desk.out, desk.err):
        assert hub.token not in text


def test_a_token_of_the_file_is_sent_and_one_that_is_switched_off_is_not(
    hub: Hub, tiny_repo: Repo, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.folder / "token"
    path.write_text(hub.token + "\n")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(path))
    desk.spec()
    assert desk.lock() == 0
    assert {bool(each.authorization) for each in hub.requests} == {True}


def test_a_next_page_of_another_host_gets_no_token(
    hub: Hub, tiny_repo: Repo, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(handler: Handler, kind: str) -> bool:
        if kind == "tree" and "cursor" not in handler.path:
            url = f"{hub.storage}{handler.path}&cursor=0"
            rows = [file.row(path) for path, file in list(tiny_files().items())[:2]]
            handler.send(200, json.dumps(rows).encode(), {"Link": f'<{url}>; rel="next"'})
            return True
        return False

    hub.fault = elsewhere
    monkeypatch.setenv("HF_TOKEN", hub.token)
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert {bool(each.authorization) for each in hub.requests if each.host.startswith("localhost")} == {False}


def test_a_proxy_is_used_and_its_password_is_not_told(
    hub: Hub, tiny_repo: Repo, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{hub.server_port}")

    def forward(handler: Handler, kind: str) -> bool:
        handler.path = handler.path.removeprefix("http://hub.invalid")
        return kind == "other" and (handler._answer() or True)

    hub.fault = forward
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert {each.host for each in hub.requests} == {"hub.invalid"}
    assert "secret" not in desk.text + desk.out + desk.err


def test_many_threads_are_not_left_behind(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    desk.spec()
    assert desk.lock() == 0
    assert [each.name for each in threading.enumerate() if each.name == "lockllm-hub"] == []
