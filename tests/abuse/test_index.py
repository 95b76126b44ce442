"""Package indexes that do harm: `lock` of a range of versions ends in time, with one sentence, and reads nothing but the web."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockllm.errors import ResolveError
from lockllm.resolve.remote import index_http, releases
from tests.abuse.conftest import SPEC, Ours
from tests.abuse.hostile import listening, measured, reply, routes

Talk = Callable[[socket.socket, threading.Event, bytes], None]
JSON = "application/vnd.pypi.simple.v1+json"
WHEEL = "vllm-0.10.2-cp38-abi3-manylinux1_x86_64.whl"
RANGE = SPEC.replace('"0.10.2"', '">=0.10,<0.11"')
FILES = json.dumps({"files": [{"filename": WHEEL, "url": f"/f/{WHEEL}", "core-metadata": True}]}).encode()
METADATA = b"Metadata-Version: 2.1\nName: vllm\nRequires-Dist: torch==2.7.1\n"


def index(files: bytes = reply(FILES, JSON), metadata: bytes = reply(METADATA + b"\nx", "text/plain")) -> Talk:
    def talk(connection: socket.socket, over: threading.Event, request: bytes) -> None:
        connection.sendall(metadata if request.split(b" ")[1].endswith(b".metadata") else files)

    return talk


def listed(name: str = WHEEL, url: str = "x") -> Talk:
    return index(reply(json.dumps({"files": [{"filename": name, "url": url, "core-metadata": True}]}).encode(), JSON))


def page(body: bytes) -> Talk:
    return index(reply(body, "text/html"))


def required(lines: bytes) -> Talk:
    return index(metadata=reply(METADATA + lines + b"\nx", "text/plain"))


def endless(connection: socket.socket, over: threading.Event, request: bytes) -> None:
    """A redirect with a body without end beside it."""
    connection.sendall(b"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"x" * 2**20)


REFUSED: dict[str, tuple[Talk, str]] = {
    "no HTTP": (index(b"SSH-2.0-x\x1b[31m\r\n"), "does not answer: SSH-2.0-x\\x1b[31m"),
    "a head without end": (index(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200), "does not answer: got more than 100 headers"),
    "nothing": (index(b""), "does not answer: Remote end closed connection without response"),
    "millions of lists": (index(reply(b'{"files":[' + b"[]," * 5_000_000 + b"[]]}", JSON)), "holds more than 1,000,000 values"),
    "no end": (index(reply(b" " * (17 << 20), JSON)), "answers without end"),
    "deep JSON": (index(reply(b'{"files":' * 100_000, JSON)), "is nested too deep"),
    "no list": (index(reply(b'{"files":null}', JSON)), "it holds no files"),
    "two lists": (index(reply(b'{"files":[],"files":[]}', JSON)), "key 'files' appears twice"),
    "a key": (index(reply(b"", status="401 No")), "answers 401: it wants to know who asks"),
    "the cloud's metadata": (
        index(reply(b"", status="302 x", more="Location: http://169.254.169.254/\r\n")), "it redirects to http://169.254.169.254/"
    ),
    "FTP": (index(reply(b"", status="302 x", more="Location: ftp://127.0.0.1:1/x\r\n")), "it redirects to ftp://127.0.0.1:1/x"),
    "no address": (index(reply(b"", status="302 x", more="Location: http://[\r\n")), "Invalid IPv6 URL"),
    "a version of 5,000 digits": (listed("vllm-0.10." + "9" * 5000 + "-cp38-abi3-x.whl"), "no release of vllm"),
    "a version of 50,000 parts": (listed("vllm-0.10" + ".0" * 50_000 + "-cp38-abi3-x.whl"), "no release of vllm"),
    "a link that is none": (page(b"<a href='http://['>x</a>"), "no release of vllm"),
    "links without end": (page(b"<a href='%b'>x</a>\n" % WHEEL.encode() * 30_000), "more than 20,000 files of vllm"),
    "a tag without end": (page(b"<a " + b"a=b " * 2_000_000 + b">"), "holds more than 1,000,000 tags"),
    "attributes without end": (page(b"<a " * 5_000_000), "holds more than 1,000,000 tags"),
    "tags without end": (page(b"<a>" * 5_000_000), "holds more than 1,000,000 tags"),
    "comments without end": (page(b"<!--" * 4_000_000), "no release of vllm"),
    "a quote without end": (page(b"<a x='<a x=\"" * 400_000), "no release of vllm"),
    "half a page": (index(reply(FILES, JSON)[:-9]), "does not answer: IncompleteRead("),
    "half a page of links": (
        index(reply(b"<a href='%b'>x</a><a href='vllm-0.10.3.zip'>" % WHEEL.encode(), "text/html")[:-9]),
        "does not answer: IncompleteRead(",
    ),
    "half a page in chunks": (
        index(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n99\r\n<a"),
        "does not answer: IncompleteRead(",
    ),
    "a packed page": (index(reply(gzip.compress(FILES), JSON, "Content-Encoding: gzip\r\n")), "answers in gzip, and nobody asked"),
    "a packed page of text": (index(reply(FILES, JSON, "Content-Encoding: \x1b[1m\r\n")), "answers in \\x1b[1m, and nobody asked"),
    "a redirect without end": (endless, "does not answer: [Errno"),
    "sections without end": (page(b"<![" * 1_000_000), "no release of vllm"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_index_is_one_sentence_and_no_lock(work: Path, ours: Ours, name: str) -> None:
    (work / "llm.toml").write_text(RANGE)
    talk, reason = REFUSED[name]
    with listening(talk) as heard:
        done, used, most = measured(ours, "lock", env={"PIP_INDEX_URL": f"http://127.0.0.1:{heard.port}/simple"})
    assert done.code == 4, done.err
    assert reason in done.err.splitlines()[0]
    assert not (work / "llm.lock").exists()
    assert used < 20
    assert most < 300


METADATA_OF: dict[str, Talk] = {
    "the cloud's metadata": listed(url="http://169.254.169.254/x.whl"),
    "a file of this machine": listed(url="file:///etc/hostname"),
    "a million lines": required(b"Requires-Dist: a==1\n" * 90_000),
    "conditions that compare nothing": required(b"Requires-Dist: a==1; sys_platform ~= 'x'\nRequires-Dist: b==1; foo == 'x'\n"),
    "nested conditions": required(b"Requires-Dist: a==1; " + b"(" * 100_000 + b"\n"),
    "a name without end": required(b"Requires-Dist: " + b"a" * 1_500_000 + b"==1\n"),
    "a version without end": required(b"Requires-Dist: a==" + b"9" * 5_000 + b"\n"),
    "no HTTP": index(metadata=b"SSH-2.0-x\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", METADATA_OF)
def test_hostile_metadata_of_a_release_pins_nothing_more_and_the_lock_can_be_read(
    work: Path, ours: Ours, name: str
) -> None:
    (work / "llm.toml").write_text(RANGE)
    with listening(METADATA_OF[name]) as heard:
        done, used, most = measured(ours, "lock", env={"PIP_INDEX_URL": f"http://127.0.0.1:{heard.port}/simple"})
    assert done.code == 0, done.err
    assert used < 20
    assert most < 300
    assert ours("lock", "--check").code == 0
    assert len((work / "llm.lock").read_text()) < 100_000


def test_the_credentials_of_an_index_go_to_the_index_alone(work: Path, ours: Ours) -> None:
    (work / "llm.toml").write_text(RANGE)
    with listening(index()) as other:
        away = f"http://127.0.0.1:{other.port}/f/{WHEEL}"
        moved = reply(b"", status="302 x", more=f"Location: http://127.0.0.1:{other.port}/simple/vllm/\r\n")
        for files in (reply(FILES.replace(f"/f/{WHEEL}".encode(), away.encode()), JSON), moved):
            (work / "llm.lock").unlink(missing_ok=True)
            with listening(index(files)) as heard:
                url = f"http://user:key-hidden-value@127.0.0.1:{heard.port}/simple"
                done, _, _ = measured(ours, "lock", env={"PIP_INDEX_URL": url})
            assert done.code == 0, done.err
            assert all(b"Authorization: Basic" in each for each in heard.requests)
            assert "key-hidden" not in done.out + done.err + (work / "llm.lock").read_text()
    assert other.requests
    assert not any(b"uthorization" in each for each in other.requests)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/\x1b[31m", "http://[", "http://127.0.0.1:1/a b", "file:///tmp", "/tmp"]
)
def test_an_index_that_is_no_web_address_is_not_asked(work: Path, ours: Ours, url: str) -> None:
    (work / "llm.toml").write_text(RANGE)
    done, _, _ = measured(ours, "lock", env={"PIP_INDEX_URL": url})
    assert done.code == 4
    assert done.err.splitlines()[0] == "lockllm: the package index has no address that can be asked"


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_index_that_drips_costs_its_time(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_http, "_WHOLE", 0.5)

    def drip(connection: socket.socket, over: threading.Event, request: Any) -> None:
        connection.sendall(start)
        while not over.wait(0.05):
            connection.sendall(b"a")

    with listening(drip) as heard:
        url = f"http://127.0.0.1:{heard.port}/simple"
        with pytest.raises(ResolveError, match="no whole answer within"):
            index_http.get(url, "*/*", 1000, url)


def test_an_index_that_says_nothing_is_left_long_before_one_that_sends_a_long_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_http, "_WAIT", 0.3)

    def silent(connection: socket.socket, over: threading.Event, request: Any) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n<a ")
        over.wait(30)

    with listening(silent) as heard:
        url = f"http://127.0.0.1:{heard.port}/simple"
        with pytest.raises(ResolveError, match="does not answer: timed out"):
            index_http.get(url, "*/*", 1000, url)


def test_half_the_metadata_of_a_release_pins_nothing() -> None:
    cut = reply(METADATA + b"Requires-Dist: a==1\n\nx", "text/plain")[:-9]
    with listening(index(metadata=cut)) as heard:
        url = f"http://127.0.0.1:{heard.port}/simple"
        found = releases.newest("vllm", lambda _: True, url)
        assert found is not None
        assert releases.exact_requirements(found, url) == {}


def test_links_start_at_the_address_that_a_page_came_from() -> None:
    moved = reply(b"", status="302 x", more="Location: /pypi/root/simple/vllm/\r\n")
    files = reply(FILES.replace(b"/f/", b"../../files/"), JSON)
    paths = {"/simple/vllm/": moved, "/pypi/root/simple/vllm/": files}
    metadata = {f"/pypi/root/files/{WHEEL}.metadata": reply(METADATA + b"\nx", "text/plain")}
    with listening(routes({**paths, **metadata})) as heard:
        url = f"http://user:key-hidden-value@127.0.0.1:{heard.port}/simple"
        found = releases.newest("vllm", lambda _: True, url)
        assert found is not None
        assert "key-hidden" not in str(found)
        assert releases.exact_requirements(found, url) == {"torch": "2.7.1"}
    assert len(heard.requests) == 3
    assert all(b"Authorization: Basic" in each for each in heard.requests)


def test_an_index_that_is_given_is_the_one_that_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://other.invalid/simple")
    with listening(index(reply(b"{}", JSON))) as heard, pytest.raises(ResolveError) as caught:
        releases.newest("vllm", lambda _: True, f"http://127.0.0.1:{heard.port}/simple")
    assert caught.value.where == f"http://127.0.0.1:{heard.port}/simple/vllm/"


PAGES = {
    "a comment": "<!-- <a href='vllm-0.10.9-py3-none-any.whl'>x</a> --><a href='{}'>",
    "a comment of nothing": "<!--><a href='{}'><!-- > --><!-- <a href='vllm-0.10.9-py3-none-any.whl'>",
    "a comment in a value": "<meta content='<!--'><a href='{}'>",
    "a link in a value": "<img alt='<a href=vllm-0.10.9-py3-none-any.whl>'><a href='{}'>",
    "signs in a value": '<a data-requires-python=">=3.9,<3.14" href="{}" >',
    "a yanked one behind signs": (
        '<a href="vllm-0.10.9-py3-none-any.whl" data-requires-python=">=3.9,<3.14" data-yanked>x</a><A HREF = {}\t>'
    ),
    "a tag that is none": "<abbr href='vllm-0.10.9-py3-none-any.whl'><a\nhref='{}'/>",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_links_is_read_as_a_browser_reads_it(name: str) -> None:
    with listening(page(PAGES[name].format(WHEEL).encode())) as heard:
        found = releases.newest("vllm", lambda _: True, f"http://127.0.0.1:{heard.port}/simple")
    assert found is not None
    assert found.version == "0.10.2"


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("https://u:ab==@h/simple/", "https://u:ab==@h/simple"),
        ("https://h/simple?a=b", "https://h/simple?a=b"),
        ("my-own.1=https://u:ab==@h/simple", "https://u:ab==@h/simple"),
    ],
)
def test_the_name_of_an_index_is_taken_off_and_nothing_of_its_address(said: str, url: str) -> None:
    assert releases.index_url({"UV_DEFAULT_INDEX": said}) == url
