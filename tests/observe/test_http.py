from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lockllm.engines import Answer, Probe
from lockllm.errors import UsageError
from lockllm.observe.web import http, http_answer
from lockllm.observe.web.http import Address, Silence
from tests.abuse.hostile import listening

PROBE = Probe(path="/version")


@contextmanager
def serving(answer: bytes | Callable[[str], bytes], hold: float = 0.0) -> Iterator[tuple[Address, list[str]]]:
    """A loopback server that gives the same bytes, or those for a request, to everybody; and what it was asked."""
    asked: list[str] = []

    def talk(connection: socket.socket, over: threading.Event, request: bytes) -> None:
        asked.append(request.decode())
        connection.sendall(answer(request.decode()) if callable(answer) else answer)
        if hold:
            over.wait(hold)

    with listening(talk) as heard:
        yield Address("http", "127.0.0.1", heard.port), asked


def reply(body: bytes, status: str = "200 OK", kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def silence(server: Address, seconds: float = 2.0, **headers: str) -> Silence:
    (said,) = http.ask(server, [PROBE], headers, seconds)
    assert isinstance(said, Silence)
    return said


def test_an_answer_comes_with_its_status_headers_and_json() -> None:
    with serving(reply(b'{"version": "0.10.2"}')) as (server, _):
        (said,) = http.ask(server, [PROBE])
    assert isinstance(said, Answer)
    assert (said.status, said.json, said.source) == (200, {"version": "0.10.2"}, "GET /version")


def test_all_probes_are_asked_at_once_and_answered_in_their_order() -> None:
    ready = threading.Barrier(3, timeout=5)

    def answer(head: str) -> bytes:
        ready.wait()
        return reply(json.dumps(head.split()[1]).encode())

    with serving(answer) as (server, _):
        said = http.ask(server, [Probe(path=f"/{number}") for number in range(3)])
    assert [each.json for each in said if isinstance(each, Answer)] == ["/0", "/1", "/2"]


@pytest.mark.parametrize(
    "answer, kind, reason",
    [
        (reply(b"{}", "401 Unauthorized"), "key", "answers 401: it requires a key"),
        (reply(b"{}", "403 Forbidden"), "forbidden", "answers 403: it is disabled or requires a key"),
        (reply(b"{}", "404 Not Found"), "missing", "answers 404"),
        (reply(b"{}", "503 Service Unavailable"), "loading", "the server is still loading or overloaded"),
        (reply(b"{}", "500 Internal Server Error"), "error", "answers 500"),
        (reply(b"<html><title>hello", kind="text/html"), "nonsense", "answers with a web page"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", "nonsense", "the answer is incomplete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "nonsense", "the answer is not HTTP"),
        (b"", "nonsense", "the answer is not HTTP"),
        (reply(b"", "302 Found", more="Location: http://203.0.113.9/x\r\n"), "redirect", "redirects to 203.0.113.9"),
        (reply(b"", "302 Found", more="Location: /version\r\n"), "redirect", "redirects without end"),
        (reply(b"", "302 Found", more="Location: //evil.example/x\r\n"), "redirect", "redirects to evil.example"),
        (reply(b"", "302 Found", more="Location: http://127.0.0.1@evil.example/\r\n"), "redirect", "to evil.example"),
        (reply(b"", "302 Found", more="Location: file:///etc/passwd\r\n"), "redirect", "redirects to file"),
        (reply(b"", "302 Found", more="Location: unix:/run/docker.sock\r\n"), "redirect", "redirects to unix"),
        (reply(b"", "302 Found", more="Location: http://169.254.169.254/x\r\n"), "redirect", "to 169.254.169.254"),
        (reply(b"", "302 Found", more="Location: http://[\r\n"), "redirect", "redirects to an invalid address"),
        (reply(b"", "302 Found", more="Location: /a\x1b[31m\r\n"), "redirect", "redirects to an invalid address"),
        (reply(b"", "302 Found", more="Location: /a b\r\n"), "redirect", "redirects to an invalid address"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_way_of_not_answering_has_its_own_words(answer: bytes, kind: str, reason: str) -> None:
    with serving(answer) as (server, _):
        said = silence(server)
    assert said.kind == kind
    assert reason in said.reason


def test_a_closed_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = silence(Address("http", "127.0.0.1", port))
    assert (said.kind, said.fix) == ("refused", "start the server, or name it with --server")


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"])
def test_a_server_that_never_ends_costs_its_time_and_no_more(start: bytes) -> None:
    with serving(start, hold=5) as (server, _):
        assert silence(server, 0.2).kind == "timeout"


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_answer, "_MOST_BODY", 1 << 16)
    with serving(reply(b" " * (1 << 18))) as (server, _):
        assert silence(server).kind == "nonsense"


def test_a_redirect_on_the_same_host_is_followed_without_the_key() -> None:
    def answer(head: str) -> bytes:
        moved = reply(b"", "307 Temporary Redirect", more="Location: /v2/version\r\n")
        return moved if head.startswith("GET /version ") else reply(b'"there"')

    with serving(answer) as (server, asked):
        (said,) = http.ask(server, [PROBE], {"Authorization": "Bearer secret-key"})
    assert isinstance(said, Answer)
    assert said.json == "there"
    assert [("secret-key" in head) for head in asked] == [True, False]


@pytest.mark.parametrize("location", ["version2", "HTTP://127.0.0.1:PORT/version2", "//127.0.0.1:PORT/version2#x"])
def test_a_redirect_on_the_same_host_may_be_spelled_in_any_way(location: str) -> None:
    def answer(head: str) -> bytes:
        port = head.partition("Host: 127.0.0.1:")[2].partition("\r")[0]
        moved = reply(b"", "302 Found", more=f"Location: {location.replace('PORT', port)}\r\n")
        return moved if head.startswith("GET /version ") else reply(b'"there"')

    with serving(answer) as (server, _):
        (said,) = http.ask(server, [PROBE])
    assert isinstance(said, Answer)


def test_a_post_is_not_sent_again_where_a_redirect_leads() -> None:
    moved = reply(b"", "307 Temporary Redirect", more="Location: /other\r\n")
    with serving(moved) as (server, asked):
        (said,) = http.ask(server, [Probe(path="/tokenize", method="POST", body={})])
    assert isinstance(said, Silence)
    assert (said.kind, len(asked)) == ("error", 1)


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://203.0.113.9:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://203.0.113.9:3128")
    with serving(reply(b"1")) as (server, _):
        assert isinstance(http.ask(server, [PROBE])[0], Answer)


def test_a_body_that_is_no_json_is_kept_as_text() -> None:
    with serving(reply(b"vllm:cache 1\n", kind="text/plain; version=0.0.4")) as (server, _):
        (said,) = http.ask(server, [Probe(path="/metrics", accept="text/plain")])
    assert isinstance(said, Answer)
    assert (said.json, said.text) == (None, "vllm:cache 1\n")


WHOLE = b'{"version": "0.10.2"}'


@pytest.mark.parametrize(
    "answer, reason",
    [
        (reply(b"[" * 90_000), "the answer is not JSON"),
        (reply(b"[" * 200_000), "the answer contains more than 100,000 values"),
        (reply(b'{"version": "0.10.1", "version": "0.10.2"}'), "the answer contains a key twice"),
        (reply(b'{"version": "0.10.2", "more": "\xff"}'), "the answer is not JSON"),
        (reply(b'{"version": "0.10.2", "more": "\\ud800"}'), "the answer is not JSON"),
        (reply(b'{"version": "0.10.2", "more": NaN}'), "the answer is not JSON"),
        (reply(b'{"version": "0.10.2", "more": 1e999}'), "the answer is not JSON"),
        (reply(b'{"version": "0.10.2", "more": ' + b"9" * 41 + b"}"), "the answer contains a number of 41 digits"),
        (reply(b"\xef\xbb\xbf" + WHOLE), "the answer is not JSON"),
        (reply(WHOLE + b"{}"), "the answer is not JSON"),
        (reply(b""), "the answer is not JSON"),
        (reply(WHOLE, more="Content-Encoding: gzip\r\n"), "the answer is compressed, although that was not requested"),
        (reply(WHOLE, more="Content-Length: 5\r\n"), "the answer states two lengths"),
        (reply(WHOLE, more="Transfer-Encoding: chunked\r\n"), "the answer states two lengths"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "the answer states two lengths"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + WHOLE, "the answer's length is not a number"),
        (reply(WHOLE, more=f"X-More: {'a' * 60_000}\r\nX-Most: {'a' * 6_000}\r\n"), "the answer's head is longer than 64 KiB"),
        (reply(WHOLE, "206 Partial Content"), "answers 206"),
        (reply(WHOLE, "302 Found"), "answers 302"),
        (reply(WHOLE, "299 Odd"), "answers 299"),
    ],
)  # fmt: skip
def test_what_two_readers_may_read_differently_is_no_answer(answer: bytes, reason: str) -> None:
    with serving(answer) as (server, _):
        assert silence(server).reason.endswith(f"/version: {reason}")


@pytest.mark.parametrize(
    "head",
    [
        "Transfer-Encoding: identity\r\n",
        f"Transfer-Encoding: identity\r\nContent-Length: {len(WHOLE)}\r\n",
        f"Content-Length: {len(WHOLE)}, {len(WHOLE)}\r\n",
        f"Content-Length: {len(WHOLE)}\r\nContent-Length: {len(WHOLE)}\r\n",
    ],
)
def test_a_length_may_be_said_in_every_way_that_means_one(head: str) -> None:
    hold = 5 if "Content-Length" in head else 0  # the length alone says where the answer ends
    with serving(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + WHOLE, hold) as (server, _):
        (said,) = http.ask(server, [PROBE], seconds=2)
    assert isinstance(said, Answer)
    assert said.json == {"version": "0.10.2"}


@pytest.mark.parametrize("lengths", [f"{len(WHOLE)}, 5", f"{len(WHOLE)},"])
def test_lengths_that_differ_within_one_header_are_two(lengths: str) -> None:
    with serving(f"HTTP/1.1 200 OK\r\nContent-Length: {lengths}\r\n\r\n".encode() + WHOLE) as (server, _):
        assert "the answer states two lengths" in silence(server).reason


@pytest.mark.parametrize(
    "held",
    [
        {f"member {at}": at for at in range(90_000)},
        {"chat_template": "{[,:\\" * 100_000 + '\\"[{,' * 100_000},
        {"names": ['"{[,\\'] * 60_000},
    ],
    ids=["members", "one string", "many strings"],
)
def test_only_what_stands_outside_strings_counts_as_a_value(held: object) -> None:
    with serving(reply(json.dumps(held).encode())) as (server, _):
        (said,) = http.ask(server, [PROBE], seconds=10)
    assert isinstance(said, Answer)
    assert said.json == held


@pytest.mark.parametrize("body", [b'"', b'"\\"', b'"",', b'{"":0},', b'["\\\\",'])
def test_values_beyond_every_server_are_refused_at_once(body: bytes) -> None:
    begun = time.process_time()
    with serving(reply(b"[," + body * ((8 << 20) // len(body) - 1))) as (server, _):
        assert silence(server, 10).kind == "nonsense"
    assert time.process_time() - begun < 20  # reading it takes more than a minute


def test_only_a_page_is_called_a_page() -> None:
    with serving(reply(b' {"version": 1, "version": 2}', kind="text/html")) as (server, _):
        assert silence(server).reason.endswith("the answer contains a key twice")
    with serving(reply(b"\n <html>", kind="text/html")) as (server, _):
        assert silence(server).reason.endswith("answers with a web page")


def named(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[int, str]) -> None:
    """A name that has these addresses."""
    stream = socket.SOCK_STREAM
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, port, **_: [(family, stream, 0, "", (at, port)) for family, at in addresses]
    )


def test_an_address_of_a_family_that_the_machine_lacks_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(reply(WHOLE)) as (server, _):
        named(monkeypatch, (255, "nowhere"), (socket.AF_INET, server.host))
        (said,) = http.ask(Address("http", "two.example", server.port), [PROBE])
    assert isinstance(said, Answer)


def test_a_silent_address_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(reply(WHOLE)) as (server, _), contextlib.ExitStack() as held:
        silent = held.enter_context(socket.create_server(("127.0.0.2", server.port), backlog=0))
        for _ in range(3):  # its queue is full: whoever comes now is not answered
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        named(monkeypatch, (socket.AF_INET, "127.0.0.2"), (socket.AF_INET, server.host))
        (said,) = http.ask(Address("http", "two.example", server.port), [PROBE], seconds=10)
    assert isinstance(said, Answer)


def test_all_answers_together_have_one_share() -> None:
    body = json.dumps({"data": [0] * 90_000}).encode()
    with serving(reply(body)) as (server, _):
        said = http.ask(server, [PROBE] * 12, seconds=10)
    kept = [each for each in said if isinstance(each, Answer)]
    assert len(kept) == 2
    reasons = {each.reason.partition(": ")[2] for each in said if isinstance(each, Silence)}
    assert reasons == {"all answers together are too long"}


def test_waiting_ends_when_the_server_is_loaded() -> None:
    left = iter([b"503 Service Unavailable", b"503 Service Unavailable", b"200 OK"])

    with serving(lambda head: reply(b"{}", next(left, b"200 OK").decode())) as (server, asked):
        http.wait(server, PROBE, {}, 10)
    assert len(asked) == 3


@pytest.mark.parametrize("endless", [b"", b"HTTP/1.1 200 OK\r\nX-Mor"])
def test_waiting_ends_with_its_time_however_a_head_drips(endless: bytes) -> None:
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(endless)
            while not over.wait(0.05):
                connection.sendall(b"e")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        http.wait(Address("http", "127.0.0.1", listener.getsockname()[1]), PROBE, {}, 0.5)  # the drip is not over yet
        over.set()
        thread.join()


def test_waiting_ends_with_its_time() -> None:
    with serving(reply(b"{}", "503 Service Unavailable")) as (server, _):
        http.wait(server, PROBE, {}, 0.1)
        assert silence(server).kind == "loading"


@pytest.mark.parametrize(
    "text, url",
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
        ("http://[fe80::1%25eth0]:8000", "http://[fe80::1%eth0]:8000"),
        ("[fe80::1%eth0]:8000", "http://[fe80::1%eth0]:8000"),
        ("https://llm.example/v1", "https://llm.example:443"),
        ("http://gate:80/team/a/", "http://gate:80/team/a"),
    ],
)
def test_a_server_is_named_as_people_type_it(text: str, url: str) -> None:
    assert http.parse(text).url == url


@pytest.mark.parametrize(
    "text, what",
    [
        ("http://u:p@host:80", "a server's URL must not hold a user or password"),
        ("ftp://host", "ftp is not a supported scheme"),
        ("http://:80", "'http://:80' names no host"),
        ("http://host:99999", "http://host:99999 is not a URL: Port out of range 0-65535"),
        ("http://ho st:80", "'http://ho st:80' names no host"),
        ("http://host:80/?key=:p@", "a server's URL must not hold a query or fragment"),
        ("http://host:80/#:p@", "a server's URL must not hold a query or fragment"),
        ("http://host:0", "port 0 is not a port that a server can listen on"),
    ],
)
def test_what_is_no_server_is_said_without_its_password(text: str, what: str) -> None:
    with pytest.raises(UsageError) as raised:
        http.parse(text)
    assert raised.value.what == what
    assert ":p@" not in f"{raised.value.what}{raised.value.fix}"


def test_a_header_needs_a_name_and_a_value() -> None:
    assert http.key_headers("k\n", ["X-Tenant: blue"]) == {"X-Tenant": "blue", "Authorization": "Bearer k"}
    for wrong in ("no colon", "X: a\r\nY: b", ": x", "X Y: a", "X: \x00", "X: \u2603"):
        with pytest.raises(UsageError, match="a header has no name and value"):
            http.key_headers(None, [wrong])


@pytest.mark.parametrize("key", ["hidden\r\nX: y", "hidden\x07", "hidden\u2603"])
def test_a_key_that_no_header_can_hold_is_refused_without_its_text(key: str) -> None:
    with pytest.raises(UsageError, match="the key contains characters that a header cannot") as raised:
        http.key_headers(key, [])
    assert "hidden" not in f"{raised.value.what}{raised.value.where}{raised.value.fix}"
