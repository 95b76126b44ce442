"""Which process is the server: by pid, by its port, or the only one that is a launch form of the engine."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lockllm.engines import Form
from lockllm.engines._launch import recognise, unwrap
from lockllm.errors import UsageError
from lockllm.facts.observation import Unobserved
from lockllm.observe import http, libraries, proc
from lockllm.observe.libraries import Loaded
from lockllm.observe.proc import Process

_HINT = re.compile(
    r"vllm|sglang|llama|text-generation|tgi|ollama|trtllm|tensorrt_llm|lmdeploy|transformers|dynamo|triton",
    re.IGNORECASE,
)
_RESOLVE = 3.0  # seconds
_EMBEDDED = {
    "-packages/xllamacpp/": "llama.cpp",
    "-packages/llama_cpp/": "llama-cpp-python",
    "-packages/vllm/": "vllm",
    "-packages/sgl_kernel/": "sglang",
    "-packages/lmdeploy/": "lmdeploy",
    "-packages/tensorrt_llm/": "tensorrt-llm",
    "/libllama.so": "llama.cpp",
}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A running server: its root process, everything below it, and where it listens."""

    process: Process
    form: Form | None  # None: a program of its own that holds an engine
    engine: str | None
    tree: tuple[Process, ...] = ()  # without the root
    loaded: Loaded = Loaded()
    listens: tuple[tuple[str, int], ...] = ()
    why: str = ""  # how it was chosen

    @property
    def processes(self) -> tuple[Process, ...]:
        """Root first."""
        return (self.process, *self.tree)


def by_pid(pid: int, root: Path = proc.PROC) -> Found:
    """The server that a process belongs to. UsageError where there is none, or where it is no server."""
    mend = "find the server with `ps -ef`, or name its address with --server"
    try:
        process = proc.read(pid, root)
    except proc.Gone as error:
        raise UsageError(str(error), where=f"--pid {pid}", mend=mend) from error
    processes = {**proc.everything(root), pid: process}
    found = _climb(process, processes, root, f"--pid {pid}")
    if found.form is None and found.engine is None and not found.listens and not process.hidden:
        title = process.title if process.title.isprintable() and len(process.title) < 60 else process.title[:60]
        raise UsageError(f"process {pid} ({title}) is no server", where=f"--pid {pid}", mend=mend)
    return found


def by_address(server: http.Server, root: Path = proc.PROC, seconds: float = _RESOLVE) -> Found | Unobserved:
    """The local process that listens at an address, or why it is none. Its name has so long to resolve, and no more than 3 s."""
    there = ("engine",)
    elsewhere = "run `lockllm observe` there, and pass the file with --observation"
    if not is_local(server.host, min(seconds, _RESOLVE)):
        return Unobserved(there, f"{server.host} is another host: only HTTP was asked", elsewhere)
    pids = proc.listeners(server.port, root)
    if pids is None:
        mend = "run lockllm as the user of the server, as root, or inside its container"
        return Unobserved(there, f"the process that listens on port {server.port} does not show here", mend)
    if not pids:
        return Unobserved(there, f"nothing listens on port {server.port}", "start the server, or name its address")
    processes = proc.everything(root)
    for pid in pids:
        if pid in processes:
            found = _climb(processes[pid], processes, root, f"it listens on port {server.port}")
            if found.form is not None or found.engine is not None:
                return found
    names = ", ".join(processes[pid].title[:40] for pid in pids if pid in processes) or "the process ended"
    return Unobserved(
        there, f"what listens on port {server.port} is no engine ({names}): only HTTP was asked", elsewhere
    )


def running(engine: str | None, root: Path = proc.PROC) -> tuple[Found, ...]:
    """Every process here that is a launch form of an engine (of any, where none is named); ourselves left out."""
    processes = proc.everything(root)
    own = {os.getpid(), *(process.pid for process in proc.ancestors(os.getpid(), processes))}
    forms: dict[int, tuple[Form, bool]] = {}
    for process in processes.values():
        if process.pid not in own and process.argv and (read := form_of(process)) is not None:
            forms[process.pid] = read
    roots = []
    for pid, (form, wrapped) in forms.items():
        if engine is not None and form.engine != engine:
            continue
        above = [each.pid for each in proc.ancestors(pid, processes) if each.pid in forms]
        below = [each.pid for each in proc.descendants(pid, processes) if each.pid in forms]
        if any(not forms[each][1] for each in above):
            continue
        if wrapped and any(forms[each][0].engine == form.engine for each in below):
            continue
        roots.append(pid)
    return tuple(_found(processes[pid], forms[pid][0], processes, root, "the only server here") for pid in roots)


def choose(engine: str | None, root: Path = proc.PROC) -> Found | None:
    """The only server of that engine here, or None. UsageError where there are several."""
    found = running(engine, root)
    if len(found) < 2:
        return found[0] if found else None
    listed = "; ".join(map(describe, found))
    raise UsageError(f"several servers run here: {listed}", where="this host", mend="choose one with --pid or --server")


def describe(found: Found) -> str:
    """One server in a few words: pid, engine, port, model, GPUs."""
    words = [f"pid {found.process.pid} {found.engine or 'server'}"]
    if found.listens:
        words.append(f"port {found.listens[0][1]}")
    if model := _model(found):
        words.append(f"model {model}")
    if (gpus := found.process.env.get("CUDA_VISIBLE_DEVICES")) is not None:
        words.append(f"GPUs {gpus or 'none'}")
    return ", ".join(words)


def form_of(process: Process) -> tuple[Form, bool] | None:
    """The launch form that a running process is, and whether wrappers stand before it."""
    if not any(_HINT.search(word) for word in process.argv[:64]):
        return None
    unwrapped = unwrap(process.argv, process.env)
    if unwrapped.opaque or unwrapped.reach in ("container", "image-args"):
        return None
    form = recognise(unwrapped.argv)
    return (form, bool(unwrapped.wrappers)) if form is not None else None


def is_local(host: str, seconds: float) -> bool:
    """Whether an address is one of this machine's own. A name that does not resolve in that time is none: others know it."""
    for address in _addresses(host, seconds):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind((address, 0))
                return True
        except OSError:
            continue
    return False


def _addresses(host: str, seconds: float) -> set[str]:
    found: set[str] = set()

    def look() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            found.update(str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))

    thread = threading.Thread(target=look, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # a limit on memory or on threads
        look()
    else:
        thread.join(seconds)
    return set(found)


def embedded(held: Loaded) -> str | None:
    """The engine whose library a program maps, where its command line names none."""
    for mark, engine in _EMBEDDED.items():
        if any(mark in file.path for _, file in held.files):
            return engine
    return None


def same_network(process: Process, root: Path = proc.PROC) -> bool:
    """Whether a process's loopback is ours."""
    try:
        return os.readlink(root / str(process.pid) / "ns/net") == os.readlink(root / "self/ns/net")
    except OSError:
        return True


def _climb(process: Process, processes: Mapping[int, Process], root: Path, why: str) -> Found:
    """The server that a process is part of: the nearest launch form from it upwards, or the process itself."""
    for each in (process, *proc.ancestors(process.pid, processes)):
        read = form_of(each) if each.argv else None
        if read is not None and not (read[1] and each is not process):
            return _found(each, read[0], processes, root, why)
    return _found(process, None, processes, root, why)


def _found(process: Process, form: Form | None, processes: Mapping[int, Process], root: Path, why: str) -> Found:
    tree = proc.descendants(process.pid, processes)
    held = libraries.loaded((process, *tree), root)
    listens = [each for one in (process, *tree) for each in proc.listens(one.pid, root)]
    return Found(
        process=process,
        form=form,
        engine=form.engine if form else embedded(held),
        tree=tree,
        loaded=held,
        listens=tuple(dict.fromkeys(listens)),
        why=why,
    )


def _model(found: Found) -> str:
    words = found.form.args if found.form else ()
    for at, word in enumerate(words):
        if word in ("--model", "--model-path", "-m", "--model-id") and at + 1 < len(words):
            return words[at + 1][:80]
        if word.startswith(("--model=", "--model-path=", "--model-id=")):
            return word.partition("=")[2][:80]
    if words and not words[0].startswith("-"):
        return words[0][:80]
    return ""
