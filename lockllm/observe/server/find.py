"""Which process is the server: by pid, by its port, or the only one that is a launch form of the engine."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from lockllm import engines
from lockllm.engines import Form
from lockllm.engines.launch import recognise, unwrap
from lockllm.engines.launch.forms import base, hint
from lockllm.engines.launch.shell import SHELLS
from lockllm.errors import UsageError
from lockllm.facts.observation import Unobserved
from lockllm.observe.cuda import mapped_libraries
from lockllm.observe.cuda.mapped_libraries import MappedFiles
from lockllm.observe.process import listeners, proc
from lockllm.observe.process.proc import Process
from lockllm.observe.web import http

_RESOLVE = 3.0  # seconds
_MOST_TOLD = 8


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A running server: its root process, everything below it, and where it listens."""

    process: Process
    form: Form | None  # None: a program of its own that holds an engine
    engine: str | None
    tree: tuple[Process, ...] = ()  # without the root
    mappings: MappedFiles = MappedFiles()
    addresses: tuple[tuple[str, int], ...] = ()  # host and TCP port of each socket that it listens on
    program_tick: int = 0  # the clock tick by which its root process had become the program that it is
    why: str = ""  # how it was chosen

    @property
    def processes(self) -> tuple[Process, ...]:
        """Root first."""
        return (self.process, *self.tree)


def by_pid(pid: int, root: Path = proc.PROC) -> RunningServer:
    """The server that a process belongs to. UsageError where there is none, or where the process is not a server."""
    fix = "find the server with `ps -ef`, or name its address with --server"
    try:
        process = proc.read(pid, root)
    except proc.Gone as error:
        raise UsageError(str(error), where=f"--pid {pid}", fix=fix) from error
    processes = {**proc.tree(root), pid: process}
    server = _climb(process, processes, root, f"--pid {pid}")
    if server.form is None and not listeners.listens(pid, root):
        server = _started_by(process, processes, root) or server
    if server.form is None and server.engine is None and not server.addresses and not process.hidden:
        raise UsageError(f"process {pid}{_program(process)} is not a server", where=f"--pid {pid}", fix=fix)
    return server


def by_address(address: http.Address, root: Path = proc.PROC, seconds: float = _RESOLVE) -> RunningServer | Unobserved:
    """The local process that listens at an address, or why it is none. Its name has so long to resolve, and no more than 3 s."""
    there = ("engine",)
    elsewhere = "run `lockllm observe` there, and pass the file with --observation"
    local = local_addresses(address.host, min(seconds, _RESOLVE))
    if not local:
        return Unobserved(there, f"{address.host} is another host: only HTTP was used", elsewhere)
    pids = accepting(local, address.port, root)
    where = f"port {address.port}"
    if pids is None:
        fix = "run lockllm as the user of the server, as root, or inside its container"
        return Unobserved(there, f"the process that listens on {where} is not visible here", fix)
    if not pids:
        reason = f"nothing listens on {where}"
        if listeners.listeners(address.port, root) != ():
            reason = f"nothing listens on {where} of {address.host}: it is in use at another address"
        return Unobserved(there, reason, "start the server, or name its address")
    processes = proc.tree(root)
    servers: dict[int, RunningServer] = {}
    listening = proc.whole((processes[pid] for pid in pids if pid in processes), root)
    for process in listening:
        one = _climb(process, processes, root, f"it listens on {where}")
        if one.form is not None or one.engine is not None:
            servers.setdefault(one.process.pid, one)
    if len(servers) > 1:
        listed = ", ".join(f"pid {pid}" for pid in sorted(servers))
        fix = "choose one of them with --pid"
        return Unobserved(there, f"several servers share {where}: {listed}", fix)
    if servers:
        return next(iter(servers.values()))
    names = ", ".join(f"pid {each.pid}{_program(each)}" for each in listening) or "it ended"
    return Unobserved(
        there, f"the program that listens on {where} is not an engine ({names}): only HTTP was used", elsewhere
    )


def accepting(addresses: Iterable[str], port: int, root: Path = proc.PROC) -> tuple[int, ...] | None:
    """The pids that answer at the first of these addresses where anybody listens."""
    for address in addresses:
        pids = listeners.accepting(address, port, root)
        if pids != ():
            return pids
    return ()


def running(engine: str | None, root: Path = proc.PROC) -> tuple[RunningServer, ...]:
    """Every process here that is a launch form of an engine (of any, where none is named); ourselves left out."""
    processes, forms = _forms(engine, root)
    why = "the only server here"
    return tuple(
        _server(process, forms[process.pid][0], processes, root, why)
        for process in proc.whole((processes[pid] for pid in _outermost(engine, processes, forms)), root)
    )


def choose(engine: str | None, root: Path = proc.PROC) -> RunningServer | None:
    """The only server of that engine here, or None. UsageError where there are several."""
    fix = "choose one with --pid or --server"
    try:
        processes, forms = _forms(engine, root)
    except proc.Crowded as error:
        what = "more LLM servers run on this host than lockllm inspects"
        raise UsageError(what, where="this host", fix=fix) from error
    pids = _outermost(engine, processes, forms)
    several = proc.whole((processes[pid] for pid in pids[:_MOST_TOLD]), root)
    found = tuple(_server(each, forms[each.pid][0], processes, root, "the only server here") for each in several)
    if len(pids) < 2:
        return found[0] if found else None
    more = f"; and {len(pids) - _MOST_TOLD} more" if len(pids) > _MOST_TOLD else ""
    listed = "; ".join(map(describe, found)) + more
    what = f"several LLM servers are running on this host: {listed}"
    raise UsageError(what, where="this host", fix=fix)


def _forms(engine: str | None, root: Path) -> tuple[dict[int, Process], dict[int, tuple[Form, bool]]]:
    """Every process, and of those that are launch forms of an engine the form; ourselves left out.

    Plugins are looked through where one is asked for, and where no engine of lockllm owns a process.
    """
    engines.identity(engine)
    forms: dict[int, tuple[Form, bool]] = {}

    def is_form(process: Process) -> bool:
        read = form_of(process) if process.argv else None
        if read is not None:
            forms[process.pid] = read
        return read is not None

    processes = proc.everything(is_form, root)
    if not forms and engines.include_plugins():
        processes = proc.everything(is_form, root)
    for own in (os.getpid(), *(process.pid for process in proc.ancestors(os.getpid(), processes))):
        forms.pop(own, None)
    return processes, forms


def _outermost(
    engine: str | None, processes: Mapping[int, Process], forms: Mapping[int, tuple[Form, bool]]
) -> list[int]:
    """The launch forms of an engine that no other launch form has started; of a wrapper and its server the server."""
    above = {pid: [each.pid for each in proc.ancestors(pid, processes) if each.pid in forms] for pid in forms}
    below: dict[int, list[int]] = {}
    for pid, several in above.items():
        for each in several:
            below.setdefault(each, []).append(pid)
    roots = []
    for pid, (form, wrapped) in forms.items():
        if engine is not None and form.engine != engine:
            continue
        if any(not forms[each][1] for each in above[pid]):
            continue
        if wrapped and any(forms[each][0].engine == form.engine for each in below.get(pid, ())):
            continue
        roots.append(pid)
    return roots


def _program(process: Process) -> str:
    """The program of a process in brackets. Its arguments are never shown: those of other programs may contain any secret."""
    name = os.path.basename(process.exe)
    return f" ({name})" if name else ""


def below(process: Process, root: Path = proc.PROC) -> tuple[Process, ...]:
    """Everything that runs below a process now."""
    return proc.whole(proc.descendants(process.pid, proc.tree(root)), root)


def describe(server: RunningServer) -> str:
    """One server in a few words: pid, engine, port, model, GPUs."""
    words = [f"{proc.owned(server.process)} {server.engine or 'server'}"]
    if server.addresses:
        words.append(f"port {server.addresses[0][1]}")
    if model := _model(server):
        words.append(f"model {model}")
    if (gpus := server.process.env.get("CUDA_VISIBLE_DEVICES")) is not None:
        words.append(f"GPUs {gpus or 'none'}")
    return ", ".join(words)


def form_of(process: Process) -> tuple[Form, bool] | None:
    """The launch form of a running process, and whether wrappers come before it."""
    word_of_engine = hint()
    if not any(word_of_engine.search(word) for word in process.argv[:64]):
        return None
    unwrapped = unwrap(process.argv, process.env)
    if unwrapped.opaque or unwrapped.reach in ("container", "image-args", "shell"):
        return None  # a shell is no server: the one that its text starts is a process below it
    form = recognise(unwrapped.argv)
    return (form, bool(unwrapped.wrappers)) if form is not None else None


def local_addresses(host: str, seconds: float) -> tuple[str, ...]:
    """The addresses of a name that belong to this machine, in the order that clients try them.

    A name that does not resolve in that time has none.
    """
    return tuple(filter(_is_own, _addresses(host, seconds)))


def _is_own(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
            return True
    except OSError:
        return False


def _addresses(host: str, seconds: float) -> list[str]:
    found: list[str] = []

    def look() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            found.extend(str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))

    thread = threading.Thread(target=look, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # a limit on memory or on threads
        look()
    else:
        thread.join(seconds)
    return list(dict.fromkeys(found))


def embedded(mappings: MappedFiles) -> str | None:
    """The engine whose library a program maps, where its command line names none."""
    marks = {mark: each.name for each in engines.identities() for mark in each.embedded}
    hits = [mark for mark in marks if any(mark in file.path for _, file in mappings.files)]
    return marks[max(hits, key=len)] if hits else None  # a package says more than a library that several carry


def same_network(process: Process, root: Path = proc.PROC) -> bool:
    """Whether a process's loopback is ours."""
    try:
        return os.readlink(root / str(process.pid) / "ns/net") == os.readlink(root / "self/ns/net")
    except OSError:
        return True


def _climb(process: Process, processes: Mapping[int, Process], root: Path, why: str) -> RunningServer:
    """The server that a process is part of: the nearest launch form from it upwards, or the process itself."""
    for each in (process, *proc.whole(proc.ancestors(process.pid, processes), root)):
        read = form_of(each) if each.argv else None
        if read is not None and not (read[1] and each is not process):
            return _server(each, read[0], processes, root, why)
    if engines.include_plugins():
        return _climb(process, processes, root, why)
    return _server(process, None, processes, root, why)


def _started_by(process: Process, processes: Mapping[int, Process], root: Path) -> RunningServer | None:
    """The only server below a process that is none itself, such as a shell or a supervisor. UsageError for several."""
    below = proc.whole(proc.descendants(process.pid, processes), root)
    forms = {each.pid: read for each in below if each.argv and (read := form_of(each)) is not None}
    pids = _outermost(None, {process.pid: process, **{each.pid: each for each in below}}, forms)
    where = f"--pid {process.pid}"
    if len(pids) > 1:
        listed = ", ".join(f"pid {pid}" for pid in sorted(pids)[:_MOST_TOLD])
        what = f"process {process.pid}{_program(process)} started several servers: {listed}"
        raise UsageError(what, where=where, fix="choose one of them with --pid")
    if not pids and base(process.argv[0] if process.argv else "") in SHELLS:
        what = f"process {process.pid}{_program(process)} is a shell, and no server runs below it"
        raise UsageError(what, where=where, fix="give the pid of the server once the shell has started it")
    why = f"{where} started it"
    return next((_server(each, forms[each.pid][0], processes, root, why) for each in below if each.pid in pids), None)


def _server(
    process: Process, form: Form | None, processes: Mapping[int, Process], root: Path, why: str
) -> RunningServer:
    tree = proc.whole(proc.descendants(process.pid, processes), root)
    held = mapped_libraries.mapped_files((process, *tree), root)
    addresses = [each for one in (process, *tree) for each in listeners.listens(one.pid, root)]
    return RunningServer(
        process=process,
        form=form,
        engine=form.engine if form else embedded(held),
        tree=tree,
        mappings=held,
        addresses=tuple(dict.fromkeys(addresses)),
        program_tick=proc.program_tick(process, root),
        why=why,
    )


def _model(server: RunningServer) -> str:
    words = server.form.args if server.form else ()
    for at, word in enumerate(words):
        if word in ("--model", "--model-path", "-m", "--model-id") and at + 1 < len(words):
            return words[at + 1][:80]
        if word.startswith(("--model=", "--model-path=", "--model-id=")):
            return word.partition("=")[2][:80]
    if words and not words[0].startswith("-"):
        return words[0][:80]
    return ""
