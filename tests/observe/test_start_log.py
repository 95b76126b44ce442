"""Start logs as they lie on a host: of several starts, longer than anything is held, of another server, and no file at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockllm.engines import load
from lockllm.errors import UsageError
from lockllm.facts.observation import Observation, Reading
from lockllm.observe import Request, observe
from lockllm.observe.server import start_log
from tests.observe import hosts

LOGS = Path(__file__).parent.parent / "engines"
NOISE = b'INFO:     127.0.0.1:50000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
MARKED = {
    "vllm": ["vllm-0.32.0-1", "vllm-0.10.2-1", "vllm-0.6.3-1", "vllm-0.33.0-1"],
    "sglang": ["sglang-0.5.23-1", "sglang-0.5.9-1", "sglang-0.3.4-1"],
    "llama.cpp": ["llamacpp-b11434-1", "llamacpp-b9093-1", "llamacpp-b5036-1"],
    "llama-cpp-python": ["llama-cpp-python-0.3.36-1"],
    "ollama": ["ollama-0.32.1-1", "ollama-0.12.5-1", "ollama-0.5.12-1"],
    "tgi": ["tgi-3.3.5-1"],
    "lmdeploy": ["lmdeploy-0.16.0-1"],
}
CASES = [(engine, name) for engine, names in MARKED.items() for name in names]


def text(name: str) -> bytes:
    (path,) = LOGS.glob(f"*/data/logs/{name}.log")
    return path.read_bytes()


def facts(engine: str, log: start_log.StartLog) -> dict[str, object]:
    said = load(engine).from_log(log.lines)
    return {each.fact.key: each.value for each in said if isinstance(each, Reading)}


@pytest.mark.parametrize("engine, name", CASES)
@pytest.mark.parametrize("noise", [60_000, 300_000], ids=["more lines than are held", "more bytes than are held"])
def test_the_last_start_of_a_long_log_is_what_counts(tmp_path: Path, engine: str, name: str, noise: int) -> None:
    path = tmp_path / "log"
    start = text(name)
    other = start.replace(b"8", b"7").replace(b"bfloat16", b"float16")
    path.write_bytes(other + NOISE * noise + start + NOISE)
    alone = tmp_path / "alone"
    alone.write_bytes(start)
    read = start_log.read(str(path), engine)
    assert not read.gap
    assert read.note.startswith(f"log {path}: read from its last start, at byte ")
    assert len(read.lines) <= 45_000
    expected = facts(engine, start_log.read(str(alone), engine))
    assert expected
    assert facts(engine, read) == expected


def test_a_log_whose_start_is_followed_by_more_than_is_held_says_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(NOISE * 100 + text("vllm-0.32.0-1") + NOISE * 400_000)
    read = start_log.read(str(path), "vllm")
    assert read.note.endswith("what follows 16 MiB later is not read")
    assert facts("vllm", read)


@pytest.mark.parametrize("engine", ["vllm", "transformers", "tensorrt-llm"])
def test_a_long_log_without_a_start_shows_nothing(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(NOISE * 300_000)
    read = start_log.read(str(path), engine)
    assert read.lines == ()
    assert read.gap == f"{path} is too long to read completely, and lockllm finds no start of {engine} in it"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = hosts.environment(tmp_path_factory.mktemp("host") / "venv", {"vllm": "0.32.0"})
    hosts.program(made, "vllm")
    return made


@pytest.fixture
def server(home: Path) -> Iterator[int]:
    with hosts.running([home / "bin/vllm", "serve", "model"]) as (pid, _):
        yield pid


def look(pid: int, log: Path) -> Observation:
    return observe(Request(pid=pid, log=str(log), gpu="none", timeout=0.3))


def from_log(seen: Observation) -> bool:
    return any(reading.source.startswith("start log") for reading in seen.readings)


@pytest.mark.parametrize("own", [True, False])
def test_a_log_is_tied_to_the_process_that_wrote_its_last_start(tmp_path: Path, server: int, own: bool) -> None:
    path = tmp_path / "log"
    first, last = (b"99999999", str(server).encode()) if own else (str(server).encode(), b"99999999")
    raw = text("vllm-0.32.0-1")
    pids = {b"pid=16407"}
    assert pids.pop() in raw
    path.write_bytes(
        b"".join(
            raw.replace(b"pid=16407", b"pid=" + pid).replace(b"[16407]", b"[" + pid + b"]") for pid in (first, last)
        )
    )
    seen = look(server, path)
    assert from_log(seen) == own
    reasons = [gap.reason for gap in seen.unobserved if gap.path == ("kernels",)]
    if not own:
        assert "the last start in the log is of pid " in reasons[0]
        assert reasons[0].endswith(f"and the server is pid {server}")
        assert any("is not read" in each or "not read:" in each for each in seen.warnings)


def test_a_journal_names_the_script_that_started_the_server(tmp_path: Path, server: int) -> None:
    path = tmp_path / "log"
    told = []
    for pid in (os.getpid(), 99999999):
        lines = [f"Oct 13 17:45:50 host1 vllm[{pid}]: {line}" for line in text("vllm-0.7.3-1").decode().splitlines()]
        path.write_text("\n".join(lines))
        told.append(from_log(look(server, path)))
    assert told == [True, False]


def test_a_log_of_before_the_start_is_of_another_run(tmp_path: Path, server: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(text("vllm-0.7.3-1"))
    assert from_log(look(server, path))
    os.utime(path, (10**9, 10**9))
    seen = look(server, path)
    assert not from_log(seen)
    (reason,) = {gap.reason for gap in seen.unobserved if gap.path == ("kernels",)}
    assert reason == f"the log was last written before pid {server} started"


@pytest.mark.parametrize("kind", ["missing", "pipe", "folder", "device", "NUL"])
def test_what_is_no_log_is_an_error(tmp_path: Path, server: int, kind: str) -> None:
    path = tmp_path / "log"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "NUL":
        path = tmp_path / "a\0b"
    with pytest.raises(UsageError) as raised:
        look(server, path)
    assert raised.value.exit_code == 2
    assert raised.value.what == {
        "missing": "the log cannot be read: no such file or directory",
        "NUL": "the log cannot be read: its name contains a NUL",
    }.get(kind, "the log is not a regular file")


def test_a_missing_log_is_an_error_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        observe(Request(log=str(tmp_path / "none"), gpu="none", command=("true",)))
