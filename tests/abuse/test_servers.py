"""Servers that drip, never end, swell, lie or change their mind: `verify` ends in time and never says that all is well."""

from __future__ import annotations

import gzip
import json
import re
import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.abuse.conftest import Ours
from tests.abuse.hostile import LOCK, Talk, listening, measured, reply, routes, saying, serving


def drips_head(connection: socket.socket, over: threading.Event, number: int) -> None:
    for char in b"HTTP/1.1 200 OK\r\nX-" + b"a" * 10_000:
        connection.sendall(bytes([char]))
        if over.wait(0.1):
            return


def drips_body(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while not over.wait(0.1):
        connection.sendall(b" ")


def silent(connection: socket.socket, over: threading.Event, number: int) -> None:
    over.wait(30)


def endless(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"[" * 65536)


def endless_head(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.is_set():
        connection.sendall(b"X-A: b\r\n" * 1000)


def endless_chunks(connection: socket.socket, over: threading.Event, number: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"1\r\n{\r\n" * 5000)


def flooding(head: bytes, block: bytes) -> Talk:
    def talk(connection: socket.socket, over: threading.Event, number: int) -> None:
        connection.sendall(head)
        while not over.is_set():
            connection.sendall(block)

    return talk


def resetting(raw: bytes) -> Talk:
    def talk(connection: socket.socket, over: threading.Event, number: int) -> None:
        connection.sendall(raw)
        over.wait(0.05)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return talk


def moved(location: str) -> Talk:
    return saying(reply(b"", status="302 Found", more=f"Location: {location}\r\n"))


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
GOOD = b'{"version": "0.10.2", "data": [{"id": "m", "owned_by": "vllm"}]}'
"""What a vLLM of the locked version answers: nothing around it may make it count."""
BOMB = gzip.compress(b"[" * (64 << 20))
TALKS: dict[str, Talk] = {
    "a head that drips": drips_head,
    "a body that drips": drips_body,
    "silence": silent,
    "a body without end": endless,
    "a head without end": endless_head,
    "chunks without end": endless_chunks,
    "a compressed bomb": saying(reply(BOMB, more="Content-Encoding: gzip\r\n")),
    "deep JSON": saying(reply(b'{"a":' * 200_000)),
    "a huge number": saying(reply(b'{"version": ' + b"9" * 2_000_000 + b"}")),
    "a huge exponent": saying(reply(b'{"version": 1e999999, "data": [-1e999999]}')),
    "not a number": saying(reply(b'{"version": NaN}')),
    "another host": saying(reply(b"", status="302 Found", more="Location: http://192.0.2.1/version\r\n")),
    "a local file": saying(reply(b"", status="302 Found", more="Location: file:///etc/passwd\r\n")),
    "a socket's scheme": saying(reply(b"", status="302 Found", more="Location: gopher://127.0.0.1:1/x\r\n")),
    "itself": saying(reply(b"", status="302 Found", more="Location: /version\r\n")),
    "a location that is none": saying(reply(b"", status="302 Found", more="Location: http://[\r\n")),
    "a host without a scheme": moved("//evil.example/version"),
    "a host behind a user": moved("http://127.0.0.1@evil.example/version"),
    "the cloud's metadata": moved("http://169.254.169.254/latest/meta-data/"),
    "a unix socket": moved("unix:/var/run/docker.sock"),
    "a terminal's title": moved("http://\x1b]0;x\x07/"),
    "a host of 60,000 letters": moved("http://" + "a" * 60_000 + "/"),
    "a web page": saying(reply(b"<html>" * 1000, "text/html")),
    "a picture": saying(reply(b"\x89PNG\xff\xfe", "image/png")),
    "another charset": saying(reply('{"version": "0.10.2"}'.encode("utf-16"), "application/json; charset=utf-16")),
    "no HTTP": saying(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "a length that lies": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999999\r\n\r\n{}"),
    "a negative length": saying(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "continuing without end": flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "trailers without end": flooding(CHUNKED + b"%x\r\n%b\r\n0\r\n" % (len(GOOD), GOOD), b"X-A: b\r\n" * 1000),
    "an extension without end": flooding(CHUNKED + b"1;", b"a" * 65536),
    "extensions to every chunk": flooding(CHUNKED, b"1;" + b"a" * 60_000 + b"\r\n \r\n"),
    "events without end": flooding(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", b"data: " + GOOD + b"\n\n"
    ),
    "a bomb in a bomb": saying(reply(gzip.compress(BOMB), more="Content-Encoding: gzip, gzip\r\n")),
    "millions of lists": saying(reply(b"[" + b"[]," * 5_000_000 + b"[]]")),
    "millions of objects": saying(reply(b"[" + b'{"":0},' * 1_000_000 + b"{}]")),
    "a million models": saying(reply(b'{"data": [' + b'{"owned_by":"vllm"},' * 400_000 + b"{}]}")),
    "letters of four bytes": saying(reply(b'{"version": "' + "\U0001f600".encode() * 2_000_000 + b'"}')),
    "no UTF-8": saying(reply(GOOD[:-1] + b', "x": "\xff"}')),
    "half a surrogate pair": saying(reply(GOOD[:-1] + b', "x": "\\ud800"}')),
    "a byte order mark": saying(reply(b"\xef\xbb\xbf" + GOOD)),
    "a key twice": saying(reply(b'{"version": "0.10.1",' + GOOD[1:])),
    "two lengths": saying(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Length: 5\r\n\r\n%b" % (len(GOOD), GOOD)),
    "a length and chunks": saying(CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
    "chunks that break off": saying(CHUNKED + b"%x\r\n%b\r\n" % (len(GOOD), GOOD)),
    "a part": saying(reply(GOOD, status="206 Partial Content")),
    "a redirect without a place": saying(reply(GOOD, status="302 Found")),
    "a status that is none": saying(reply(GOOD, status="299 Odd")),
    "an answer to somebody else behind it": saying(reply(b"{}") + reply(GOOD)),
    "HTTP 0.9": saying(GOOD),
    "HTTP 2": saying(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04\0\0\0\0\0"),
    "a reset": resetting(b""),
    "a reset behind the answer": resetting(b"HTTP/1.0 200 OK\r\n\r\n" + GOOD),
    "a wish for a key": saying(reply(GOOD, status="401 No", more='WWW-Authenticate: Basic realm="\x1b[31m"\r\n')),
    "a wish to wait": saying(reply(GOOD, status="429 No", more="Retry-After: 999999\r\n")),
    "a text for a list": saying(reply(b'{"object": "list", "data": "x", "version": {"a": []}}')),
}


ASKED = ("--stage", "live", "--timeout", "1", "--api-key-env", "KEY")
PATIENTLY = ("--stage", "live", "--timeout", "60", "--api-key-env", "KEY")
"""For servers whose answer counts: on a busy machine a large one takes its time."""
KEY = {"KEY": "key-hidden-value"}


@pytest.mark.parametrize("name", TALKS)
def test_a_hostile_server_costs_its_time_and_is_never_a_match(work: Path, ours: Ours, name: str) -> None:
    (work / "llm.lock").write_text(LOCK)
    with serving(TALKS[name]) as port:
        done, used, most = measured(
            ours, "verify", "--server", f"127.0.0.1:{port}", *ASKED, "--format", "json", env=KEY
        )
    assert done.code in (1, 3), done.out + done.err
    told = json.loads(done.out)
    assert not [each for each in told["results"] if each["status"] == "match"]
    assert "root:" not in done.out
    assert "key-hidden" not in done.out + done.err
    assert used < 20
    assert most < 300


@pytest.mark.parametrize("name", ["a head that drips", "continuing without end", "a wish to wait"])
def test_waiting_for_a_hostile_server_ends(work: Path, ours: Ours, name: str) -> None:
    (work / "llm.lock").write_text(LOCK)
    with serving(TALKS[name]) as port:
        done, used, _ = measured(ours, "verify", "--server", f"127.0.0.1:{port}", *ASKED, "--wait", "2", env=KEY)
    assert done.code == 3
    assert used < 20


def greets_slowly(connection: socket.socket, over: threading.Event, request: bytes) -> None:
    for char in b"\x16\x03\x03\xff\xff" + b"\x02" * 1000:
        connection.sendall(bytes([char]))
        if over.wait(0.1):
            return


def test_a_greeting_of_tls_that_drips_ends_with_its_time_and_its_code(work: Path, ours: Ours) -> None:
    (work / "llm.lock").write_text(LOCK)
    with listening(greets_slowly) as heard:
        for _ in range(4):
            done, used, _ = measured(ours, "verify", "--server", f"https://127.0.0.1:{heard.port}", *ASKED, env=KEY)
            assert done.code == 3, done
            assert used < 20


def echoes(connection: socket.socket, over: threading.Event, request: bytes) -> None:
    """The key and a header that were sent, in every place of an answer that becomes a fact."""
    key, other = (
        found[1].decode() if (found := re.search(rb"(?i)\r\n" + name + rb": (?:bearer )?([^\r]*)", request)) else ""
        for name in (b"authorization", b"x-api-key")
    )
    models = [{"id": "m", "owned_by": "vllm", "root": f"a/{key}"}, {"id": key, "parent": "m", "root": f"b/{other}"}]
    told = {"version": f"0.10.2+{key}", "rust_frontend_version": other, "data": models}
    connection.sendall(reply(json.dumps(told).encode()))


@pytest.mark.parametrize("command", [("observe",), ("verify", "--format", "json"), ("verify", "-v", "--full")])
def test_a_key_that_a_server_says_back_is_not_told(work: Path, ours: Ours, command: tuple[str, ...]) -> None:
    (work / "llm.lock").write_text(LOCK)
    with listening(echoes) as heard:
        words = ("--server", f"127.0.0.1:{heard.port}", *PATIENTLY, "--header", "X-Api-Key: header-hidden-value")
        done, _, _ = measured(ours, *command, *words, env=KEY)
    assert any(b"key-hidden" in each and b"header-hidden" in each for each in heard.requests)
    assert "hidden" not in done.out + done.err


def sends_away(connection: socket.socket, over: threading.Event, request: bytes) -> None:
    port = request.partition(b"X-Other: ")[2].partition(b"\r")[0].decode()
    connection.sendall(reply(b"", status="302 Found", more=f"Location: http://127.0.0.1:{port}/version\r\n"))


def test_nothing_goes_to_another_host(work: Path, ours: Ours) -> None:
    (work / "llm.lock").write_text(LOCK)
    with listening(routes({"/version": {"version": "0.10.2"}})) as other, listening(sends_away) as heard:
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY"), f"http://127.0.0.1:{other.port}")
        words = ("--server", f"127.0.0.1:{heard.port}", *PATIENTLY, "--header", f"X-Other: {other.port}")
        done, _, _ = measured(ours, "verify", *words, env={**KEY, **proxies})
    assert done.code == 3
    assert heard.requests
    assert not other.requests


LONG = ["a" * 50] * 40_000
PROPS = {
    "build_info": "b6000-abcdef12", "total_slots": 1, "chat_template": "{{ messages }}",
    "default_generation_settings": {"n_ctx": 10, "params": {"stop": LONG, "temperature": 1e308, "top_k": 10**39}},
}  # fmt: skip
ODD = '\n[policy]\n"*" = "ignore"\n::error::x\x1b[31m\u202e|<b>`'
VLLM = {"version": "0.10.2"}
MODEL = {"id": "m", "owned_by": "vllm"}
SGLANG = {"tp_size": 1, "random_seed": 1, "version": "0.5.3"}
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "forty thousand stop strings": ("llama.cpp", {"/props": PROPS}),
    "a template that loops": (
        "llama.cpp", {"/props": {**PROPS, "chat_template": "{% for i in range(10**9) %}{% endfor %}"}},
    ),
    "a template that is nested": ("llama.cpp", {"/props": {**PROPS, "chat_template": "{% if a %}" * 5000}}),
    "a prompt of a million letters": ("llama.cpp", {"/props": PROPS, "/apply-template": {"prompt": "☃" * 1_000_000}}),
    "a thousand odd adapters": (
        "vllm",
        {"/v1/models": {"data": [MODEL, *({"id": f"{at}{ODD}", "parent": "m", "root": f"a/{at}"} for at in range(999))]}},
    ),
    "ids that are no numbers of tokens": (
        "vllm", {"/v1/models": {"data": [MODEL]}, "/tokenize": {"tokens": [10**39] * 1000, "max_model_len": 10**39}},
    ),
    "settings without end": (
        "sglang",
        {"/server_info": {**SGLANG, **{f"k{at}": at for at in range(33_000)}}},
    ),
    "wide letters as far as a round of questions goes": (
        "sglang", {path: {**SGLANG, "x": "\U0001f600" + "a" * 2_700_000} for path in ("/server_info", "/get_server_info")},
    ),
    "metrics of a million lines": (
        "vllm", {"/v1/models": {"data": [MODEL]}, "/version": VLLM, "/metrics": reply(b"aa\n" * 1_300_000, "text/plain")},
    ),
    "metrics that are one label": (
        "vllm", {"/v1/models": {"data": [MODEL]}, "/version": VLLM, "/metrics": reply(b'vllm:cache_config_info{' + b'a="\\' * 900_000)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
def test_what_an_engine_never_says_is_bounded_where_it_is_read(work: Path, ours: Ours, name: str) -> None:
    engine, paths = ENGINES[name]
    (work / "llm.lock").write_text(LOCK.replace("vllm", engine))
    with listening(routes(paths)) as heard:
        done, used, most = measured(ours, "observe", "--server", f"127.0.0.1:{heard.port}", *PATIENTLY, env=KEY)
    assert done.code == 0, done.err
    assert json.loads(done.out)["facts"]["engine.name"][0]["value"] == engine
    assert len(done.out) < 2 << 20
    assert used < 20
    assert most < 300


def test_answers_that_change_between_questions_are_told(work: Path, ours: Ours) -> None:
    (work / "llm.lock").write_text(LOCK)
    versions = ["0.10.2", "0.10.1"]

    def talk(connection: socket.socket, over: threading.Event, number: int) -> None:
        body: dict[str, Any] = {"version": versions[number % 2], "object": "list", "data": []}
        connection.sendall(reply(json.dumps(body).encode()))

    with serving(talk) as port:
        done = ours("verify", "--server", f"127.0.0.1:{port}", "--stage", "live", "--format", "json", "--timeout", "3")
    assert done.code != 0


@pytest.mark.parametrize("option", ["--timeout", "--wait"])
@pytest.mark.parametrize("seconds", ["inf", "nan", "1e300", "-1"])
def test_a_time_that_no_clock_counts_is_a_wrong_option(work: Path, ours: Ours, option: str, seconds: str) -> None:
    (work / "llm.lock").write_text(LOCK)
    done = ours("verify", "--server", "127.0.0.1:1", option, seconds)
    assert done.code == 2
    assert done.err.startswith(f"lockllm: {option}: ")


def test_a_key_that_no_header_can_hold_is_sent_nowhere(work: Path, ours: Ours) -> None:
    (work / "llm.lock").write_text(LOCK)
    with listening(routes({"/version": VLLM})) as heard:
        done, _, _ = measured(
            ours, "verify", "--server", f"127.0.0.1:{heard.port}", *ASKED, env={"KEY": "hid\r\nden: x"}
        )
    assert done.code == 2
    assert not heard.requests
    assert "hid" not in done.out + done.err
