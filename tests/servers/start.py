"""Starts real servers on free ports of the loopback, waits until they answer, and ends them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TRANSFORMERS = ROOT / ".venv-transformers"
VLLM = ROOT / ".venv-vllm"
VLLM_ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


@dataclass
class Server:
    """One running server."""

    port: int
    process: subprocess.Popen[str]
    argv: Sequence[str]
    log: list[str] = field(default_factory=list)  # what it has printed so far, line by line
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON answer to a GET, or to a POST where there is a body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def free_port() -> int:
    """A port of the loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def llama_home(folder: Path) -> Path:
    """A folder like a llama.cpp installation: `bin/llama-server`, and the library it needs where Python looks for it.

    `lib/python3.X/site-packages` holds the library by hard link where that can be, its metadata as a copy to edit.
    """
    program = folder / "bin" / "llama-server"
    if program.exists():
        return folder
    program.parent.mkdir(parents=True)
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    shutil.copy2(base.resolve(), program)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    theirs = Path(sysconfig.get_path("purelib"))
    ours = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    ours.mkdir(parents=True)
    shutil.copytree(theirs / "xllamacpp", ours / "xllamacpp", copy_function=_link)
    for metadata in theirs.glob("xllamacpp-*.dist-info"):
        shutil.copytree(metadata, ours / metadata.name)
    return folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def linked_venv(venv: Path, folder: Path) -> Path:
    """An environment like another: packages by hard link, metadata and programs as copies to edit."""
    python = venv / "bin" / "python"
    (folder / "bin").mkdir(parents=True)
    for name in ("python", "python3", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        (folder / "bin" / name).symlink_to(python.resolve())
    shutil.copy2(venv / "pyvenv.cfg", folder / "pyvenv.cfg")
    for program in (venv / "bin").iterdir():
        text = program.read_bytes() if program.is_file() and not program.is_symlink() else b""
        if text.startswith(b"#!"):
            made = folder / "bin" / program.name
            made.write_bytes(text.replace(os.fsencode(str(venv)), os.fsencode(str(folder)), 1))
            made.chmod(0o755)
    theirs = next(venv.glob("lib/python3*/site-packages"))
    ours = folder / theirs.relative_to(venv)
    ours.mkdir(parents=True)
    for entry in theirs.iterdir():
        if entry.name.endswith(".dist-info"):
            shutil.copytree(entry, ours / entry.name)
        elif entry.is_dir():
            shutil.copytree(entry, ours / entry.name, copy_function=_link)
        else:
            _link(str(entry), str(ours / entry.name))
    return folder


def set_version(venv: Path, distribution: str, version: str) -> None:
    """Makes an installed distribution say that it is of another version, as its files would after an upgrade."""
    found = [path for path in venv.glob("lib/python3*/site-packages/*.dist-info") if _named(path, distribution)]
    (metadata,) = found
    text = (metadata / "METADATA").read_text(encoding="utf-8")
    head, _, rest = text.partition("\nVersion: ")
    (metadata / "METADATA").write_text(f"{head}\nVersion: {version}\n{rest.partition(chr(10))[2]}", encoding="utf-8")
    metadata.rename(metadata.with_name(f"{metadata.name.split('-')[0]}-{version}.dist-info"))


def _named(metadata: Path, distribution: str) -> bool:
    return metadata.name.split("-")[0].lower().replace("_", "-") == distribution


@contextmanager
def llama_server(
    home: Path, *args: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, port: int | None = None
) -> Iterator[Server]:
    """llama.cpp's server under the command line `llama-server ARGS --port PORT`, in the environment ENV alone."""
    port = port or free_port()
    argv = ["llama-server", *args, "--port", str(port)]
    module = "-mllama_server"
    spare = sum(len(os.fsencode(word)) + 1 for word in argv[1:]) - len(module) - 2
    environ = {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(home), **(env or {})}
    started = subprocess.Popen(
        [argv[0], module, "-" * spare],
        executable=home / "bin" / "llama-server",
        env=environ,
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert started.stdin is not None
    json.dump({"argv": argv, "cwd": str(cwd or home)}, started.stdin)
    started.stdin.close()
    with _ready(Server(port, started, argv), "/health", 30) as server:
        yield server


@contextmanager
def transformers_serve(
    model: Path | str,
    *args: str,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
    venv: Path = TRANSFORMERS,
) -> Iterator[Server]:
    """`transformers serve MODEL ARGS`."""
    port = port or free_port()
    argv = [str(venv / "bin" / "transformers"), "serve", str(model), *args, "--host", "127.0.0.1", "--port", str(port)]
    with running(argv, port, {"HF_HUB_OFFLINE": "1", **(env or {})}, 120) as server:
        yield server


@contextmanager
def vllm_serve(
    model: Path | str, *args: str, env: Mapping[str, str] | None = None, port: int | None = None, venv: Path = VLLM
) -> Iterator[Server]:
    """vLLM's API server on the CPU, not compiled. The distribution is `vllm-cpu`, so `vllm serve` does not run."""
    port = port or free_port()
    argv = [*vllm_command(model, *args, venv=venv), "--host", "127.0.0.1", "--port", str(port)]
    with running(argv, port, {**VLLM_ENV, **(env or {})}, 300) as server:
        yield server


def vllm_command(model: Path | str, *args: str, venv: Path = VLLM) -> list[str]:
    """The command of `vllm_serve`, without its address."""
    module = ["-m", "vllm.entrypoints.openai.api_server"]
    return [str(venv / "bin" / "python"), *module, "--model", str(model), "--enforce-eager", *args]


@contextmanager
def running(
    argv: list[str], port: int, env: Mapping[str, str], seconds: float, cwd: Path | None = None
) -> Iterator[Server]:
    """Any command that comes to answer `GET /health` on that port."""
    environ = {"PATH": f"{Path(argv[0]).parent}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), **env}
    process = subprocess.Popen(
        argv,
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with _ready(Server(port, process, argv), "/health", seconds) as server:
        yield server


@contextmanager
def _ready(server: Server, health: str, seconds: float) -> Iterator[Server]:
    reader = threading.Thread(target=_drain, args=(server,), daemon=True)
    reader.start()
    try:
        _wait(server, health, time.monotonic() + seconds)
        yield server
    finally:
        server.process.terminate()
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()
        reader.join(20)
        if server.process.stdout is not None and not reader.is_alive():
            server.process.stdout.close()


def _drain(server: Server) -> None:
    assert server.process.stdout is not None
    for line in server.process.stdout:
        server.log.append(line.rstrip("\n"))
    server.ended.set()


def _wait(server: Server, path: str, deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(server.url + path, timeout=10):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if server.ended.wait(0.05):
                break
    raise RuntimeError(f"{' '.join(server.argv)} does not answer:\n" + "\n".join(server.log[-40:]))
