"""A second look before the verdict: whatever changed during the check matches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lockllm import engines
from lockllm.checkpoint import Look, again, links
from lockllm.checkpoint.stamps import Ledger
from lockllm.errors import LockllmError
from lockllm.facts.fact import Stage
from lockllm.facts.observation import By, Check, CheckStatus, Unobserved
from lockllm.observe.collector import Collector
from lockllm.observe.process import listeners, proc
from lockllm.observe.request import Request
from lockllm.observe.server import find, locate
from lockllm.observe.server.endpoints import Replies
from lockllm.observe.server.find import RunningServer
from lockllm.observe.server.locate import Target

_MOST_TOLD = 4
_AGAIN = "try again when nothing changes it"
_OF_SERVER = (By.LIBRARY, By.WORKER, By.ENDPOINT, By.PROCESS, By.LOG)
_KEYS = ("authorization:", "x-api-key:", "api-key:")
"""Headers that carry a key."""
_SILENT = ("timeout", "refused", "unreachable", "loading")
"""Kinds of silence that mean the server is not reachable. A server that requires a key is reachable."""
_HALTED = ("T", "t")
_STATES = {"T": "is stopped", "t": "is stopped by a debugger", "D": "waits for a device or a file system", "Z": "ended"}


def look(collector: Collector, target: Target, main: Look | None, ledger: Ledger) -> None:
    """Compare files, processes, and the listener with the first look; a change is a finding, and its facts become unknown."""
    if target.server is None or target.server.process.root == Path("/") or proc.alive(target.server.process):
        _files(collector, main, again.moved(ledger))  # else its view of the files ended with it
    if target.server is not None:
        problem = next(_server(target.server, target), None)
        if problem is not None:
            where = f"pid {target.server.process.pid}"
            collector.checks.append(Check("check.server_current", CheckStatus.FAIL, problem, where, "look again"))
            collector.withhold(_OF_SERVER, problem, "check the server that runs now")


def answers(collector: Collector, request: Request, target: Target, replies: Replies | None) -> None:
    """A server that does not answer, requires a key that was not given, or is stopped shows nothing."""
    if replies is None:
        _not_listening(collector, target)
        return
    states = [(each, proc.state(each)) for each in target.server.processes] if target.server is not None else []
    worst = replies.worst
    silent = replies.engine is None and not replies.answers and worst is not None and worst.kind in _SILENT
    locked = worst is not None and _locked(request, replies)
    halted = [each for each, state in states if state in _HALTED and target.server and _computes(target.server, each)]
    if not silent and not halted and not locked:
        return
    told = [f"pid {each.pid} {_STATES[state]}" for each, state in states if state in _STATES]
    reasons = [*([worst.reason] if (silent or locked) and worst is not None else []), *told[:_MOST_TOLD]]
    fix = (
        worst.fix
        if (silent or locked) and worst is not None and not told
        else "see why the server hangs, and restart it"
    )
    _unanswered(collector, "; ".join(reasons), fix, replies.address.url)


def _locked(request: Request, replies: Replies) -> bool:
    """Whether the server requires a key and none was given; a given key may open only some of the endpoints."""
    closed = any(each.kind == "key" for each in replies.silences)
    given = request.api_key or any(word.lower().startswith(_KEYS) for word in request.headers)
    return closed and (not given or not replies.answers)


def _not_listening(collector: Collector, target: Target) -> None:
    """A running server whose port is not open: it is loading, or it ended up elsewhere."""
    server = target.server
    if (
        server is None
        or target.stage is Stage.PREFLIGHT
        or server.process.hidden
        or not find.same_network(server.process)
    ):
        return
    given = target.plan.given if target.plan is not None else None
    number = locate.port(server)
    if given is None or number is None or given.per_node.get("headless"):
        return
    if number in {each[1] for each in server.addresses}:
        return
    reason = f"{proc.owned(server.process)} does not listen on port {number} yet"
    _unanswered(collector, reason, "wait for it with --wait SECONDS, or see its log", proc.owned(server.process))


def _unanswered(collector: Collector, reason: str, fix: str, where: str) -> None:
    collector.unobserved.append(Unobserved(("check", "server_answers"), reason, fix, due=Stage.LIVE))
    collector.checks = [each for each in collector.checks if each.name != "check.server_answers"]
    collector.checks.append(Check("check.server_answers", CheckStatus.UNKNOWN, reason, where, fix))


def candidate(collector: Collector, target: Target, answers: bool) -> None:
    """A process that was found by its command line alone is no server yet: one that listens nowhere, or that belongs to
    another user and does not answer as an engine does, shows nothing of the server that is meant."""
    server = target.server
    if server is None or answers or server.process.hidden:
        return
    listens = bool(server.addresses)
    if listens and server.process.owner == os.geteuid():
        return
    reason = f"{proc.owned(server.process)} {'does not answer' if listens else 'listens on no port'}, and may not be the server"
    fix = "wait for it with --wait SECONDS, or name the server with --pid or --server"
    collector.withhold(_OF_SERVER, reason, fix)


def _files(collector: Collector, main: Look | None, moved: Mapping[str, str]) -> None:
    named = {} if main is None else _named(main)
    told = {named.get(path, _shown(path)): why for path, why in moved.items()}
    if main is not None:
        told.update(_listed(main))
    if not told:
        return
    listed = [f"{name} {why}" for name, why in sorted(told.items())]
    rest = f" and {len(listed) - _MOST_TOLD} more" if len(listed) > _MOST_TOLD else ""
    detail = f"during the check of this host: {', '.join(listed[:_MOST_TOLD])}{rest}"
    collector.checks.append(
        Check("check.files_stable", CheckStatus.FAIL, detail, ", ".join(sorted(told)[:_MOST_TOLD]), _AGAIN)
    )
    for name in told.keys() & ({*named.values()} | {*(main.names if main is not None else ())}):
        for family in ("files", "blake3"):
            collector.hide(("checkpoint", family, name), f"{told[name]} during the check", _AGAIN)
    for path in (("checkpoint", "content_sha256"), ("tokenizer", "content_sha256")):
        if told.keys() & {*named.values()}:
            collector.hide(path, f"{listed[0]} during the check of this host", _AGAIN)


def _named(main: Look) -> dict[str, str]:
    """The files of the checkpoint by the paths that were opened."""
    return {os.path.abspath(each.entry.real): each.path for each in main.files if each.entry is not None}


def _listed(main: Look) -> dict[str, str]:
    """Files that reach inference and came or went."""
    if main.kept_now is None:
        return {}
    try:
        now = main.kept_now()
    except (LockllmError, OSError):
        return {main.layout.given: "can no longer be listed"}
    if now is None:
        return {main.layout.given: "points to another folder"}
    before = {*(file.path for file in main.files), *main.unread}
    return {**dict.fromkeys(now - before, "was added"), **dict.fromkeys(before - now, "is gone")}


def _shown(path: str) -> str:
    return path[len(links.view(path)) :]


def _server(server: RunningServer, target: Target) -> Iterator[str]:
    """Why this is no longer the server that the check began with."""
    if not proc.alive(server.process):
        yield f"pid {server.process.pid} ended during the check"
        return
    address = target.address
    if address is not None and server.addresses:
        own = {process.pid for process in server.processes}
        local = find.local_addresses(address.host, 1.0)
        pids = find.accepting(local, address.port) if local else None
        if pids is not None and not own.intersection(pids):
            who = f"pid {pids[0]}" if pids else "nobody"
            yield f"{who} answers on port {address.port} now instead of pid {server.process.pid}"
    for process in server.tree:
        if _computes(server, process) and not proc.alive(process):
            yield f"pid {process.pid} of the server ended during the check"
    known = {(process.pid, process.started) for process in server.processes}
    for process in find.below(server.process):
        if (process.pid, process.started) not in known and _computes(server, process):
            yield f"pid {process.pid} of the server started during the check"


def _computing(title: str) -> bool:
    """Whether a process has the title that an engine gives to those that compute."""
    return any(title.lower().startswith(each) for identity in engines.identities() for each in identity.titles)


def _computes(server: RunningServer, process: proc.Process) -> bool:
    """Whether a process below the server is a part of it, and no helper that comes and goes.

    A child that is about to become a helper bears the words of its parent, and holds its sockets, until it does.
    """
    if process.argv and process.argv == server.process.argv:
        return False
    if _computing(process.title) or (process.argv and find.form_of(process) is not None):
        return True
    port = {each[1] for each in server.addresses}
    return bool(port & {each[1] for each in listeners.listens(process.pid)})
