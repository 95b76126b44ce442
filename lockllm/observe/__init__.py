"""Inspects a host: the sources run side by side and become one observation."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from lockllm.checkpoint import stamps
from lockllm.engines import Context, Engine
from lockllm.engines.kernel.values import secret_name
from lockllm.errors import LockllmError
from lockllm.facts.env import is_secret
from lockllm.facts.fact import Stage
from lockllm.facts.observation import Check, Observation, Reading, Unobserved
from lockllm.observe import machine, merge
from lockllm.observe.collector import Collector
from lockllm.observe.cuda import mapped_libraries
from lockllm.observe.gpu.cards import Machine
from lockllm.observe.python import distributions
from lockllm.observe.request import Request
from lockllm.observe.safe import timed
from lockllm.observe.server import (
    endpoints,
    locate,
    model_files,
    program,
    prompts,
    second_look,
    served_model,
    staleness,
    start_log,
)
from lockllm.observe.server.endpoints import Replies
from lockllm.observe.server.locate import Target
from lockllm.observe.server.model_files import Files
from lockllm.observe.web import http

__all__ = ["Request", "observe", "subject"]

_MADE = Unobserved(("checkpoint",), "it was already inspected")
_ROUNDS = 3
"""How often a server that is not a local process is asked: replicas behind one address take turns."""


def observe(request: Request) -> Observation:
    """Inspect a host as requested, then look again. UsageError where the request names what does not exist; all else is data."""
    if request.log is not None:
        start_log.check(request.log)
    with stamps.watching() as ledger:
        return _observe(request, ledger)


def _observe(request: Request, ledger: stamps.Ledger) -> Observation:
    target = locate.locate(request)
    place = locate.checkpoint(request, target) if request.look is None else _MADE
    installed = target.environment.distributions if target.environment else {}
    deep = target.stage is not Stage.LIVE and not request.quick
    collector = Collector()
    with ThreadPoolExecutor(max_workers=4) as pool:
        asked = _start(pool, target.address is not None, _ask, request, target)
        files = timed.start(pool, model_files.look, request, target, place)
        hardware = _start(pool, target.elsewhere is None, machine.machine, request, target)
        mapped = _start(pool, target.server is not None, _libraries, target, installed, deep)
        replies: Replies | None = _result(asked)
        engine = target.engine or (replies.engine if replies else None)
        versions = merge.environment(collector, request, target, engine)
        if (started := program.reading(request, target)) is not None and request.edition > 1:
            collector.add([started])
        merge.given(collector, request, target, replies)
        for part in _result(mapped) or ():
            collector.add(part)
        seen_machine: Machine | None = _result(hardware)
        looked: Files = files.result()
    host = machine.host(collector, request, target, seen_machine) if seen_machine is not None else {}
    _files(collector, looked, request.edition)
    if replies is not None:
        collector.checks.append(replies.check)
    if request.probe_generate:
        word = replies.generated if replies is not None else "no running server was asked: nothing was generated"
        collector.warnings.append(f"--probe-generate: {word}")
    if engine is not None:
        _rules(collector, request, target, engine, replies, looked, host, versions)
    served_model.look(collector, request, target, replies)
    served_model.branch(collector, target, looked.main)
    second_look.answers(collector, request, target, replies)
    merge.silent(collector, target, replies)
    if seen_machine is not None:
        machine.used_gpus(collector, request, target, seen_machine)
    merge.not_running(collector, request, target)
    merge.elsewhere(collector, target)
    if target.server is not None:
        named = frozenset(map(distributions.normal, (*engine.packages, *engine.distributions) if engine else ()))
        also = dict(_named_files(target))
        collector.checks.append(
            staleness.current(target.server, target.environment, looked.looks, named | request.packages, also)
        )
    if request.pid is None and request.server is None:
        second_look.candidate(collector, target, replies is not None and replies.engine is not None)
    second_look.look(collector, target, looked.main, ledger)
    if target.server is None and replies is not None and replies.engine is not None:
        context = merge.context(target, collector, looked.main, host, versions, request)
        _ask_again(collector, request, replies, replies.engine, context)
    return _observation(merge.redacted(collector, _secrets(request, target)), target)


def subject(request: Request, seen: Observation) -> str:
    """A name for what was inspected: `server at http://127.0.0.1:8000 (pid 71)`."""
    if request.command:
        return "the planned command, before it runs"
    where = next((check.source for check in seen.checks if check.name == "check.server_answers"), "")
    current = (check.source for check in seen.checks if check.name == "check.server_current")
    pid = next((source for source in current if source.startswith("pid ")), "")
    words = [*([f"at {where}"] if where else []), *([f"({pid})"] if pid else [])]
    return f"server {' '.join(words)}" if words else "this host, before a server runs"


def _rules(
    collector: Collector,
    request: Request,
    target: Target,
    engine: Engine,
    replies: Replies | None,
    looked: Files,
    host: Any,
    versions: dict[str, str],
) -> None:
    """What the engine derives from its answers, its log, its rules, and its findings; then the prompt."""
    given = target.plan.given if target.plan else None

    def context() -> Context:
        return merge.context(target, collector, looked.main, host, versions, request)

    if replies is not None and replies.engine is engine:
        told = replies
        _guarded(
            collector,
            f"answers of {engine.name}",
            lambda: endpoints.kept(engine.from_http(told.with_refusals, context())),
        )
        _guarded(collector, f"answers of {engine.name}", lambda: merge.replicas(told, engine, context()))
    if request.log is not None:
        log = request.log
        _guarded(collector, f"log {log}", lambda: _log(collector, log, engine, target))
    if given is not None:
        _guarded(
            collector,
            f"arguments of {engine.name}",
            lambda: merge.in_force(engine, given, context(), target, tuple(collector.readings)),
        )
        _guarded(collector, f"arguments of {engine.name}", lambda: engine.checks(given, context()))
    if looked.prompt is not None:
        of = looked.prompt
        _guarded(
            collector,
            "chat template",
            lambda: prompts.observe(target, engine, of, context(), collector.values, request, replies, looked.main),
        )
    elif replies is not None and replies.engine is engine:
        shown = replies
        _guarded(collector, f"prompts of {engine.name}", lambda: prompts.served(shown, request))


def _guarded(collector: Collector, what: str, read: Callable[[], Iterable[Any]]) -> None:
    """Foreign data may have any shape: what a reader cannot parse becomes one gap and stops nothing else."""
    try:
        collector.add(list(read()))
    except LockllmError:
        raise
    except Exception as error:  # noqa: BLE001 - one source must not take the others down
        reason = f"the {what} cannot be read: {type(error).__name__}: {error}"[:300]
        collector.warnings.append(f"{reason}; please report it")
        for group in ("serve", "sampling", "chat_template", "prompt_probes"):
            collector.unobserved.append(Unobserved((group,), reason, "report it with the output of lockllm observe"))


def _files(collector: Collector, looked: Files, edition: int) -> None:
    collector.add([*looked.readings, *looked.unobserved])
    if edition > 1:
        collector.checks += [check for each in looked.others for check in model_files.beside(each)]
    if looked.main is None:
        return
    collector.add([*looked.main.readings, *looked.main.unobserved, *looked.main.checks])
    collector.complete |= looked.main.complete
    collector.warnings += looked.main.warnings
    if "not proven" in looked.source:
        collector.warnings.append(f"checkpoint: {looked.source}")


def _named_files(target: Target) -> Iterator[tuple[str, str]]:
    """The files that a running server's command names: values of its options, and its config files."""
    plan = target.plan
    names = (
        [*plan.files, *(each.path for each in plan.given.paths)] if plan is not None and plan.given is not None else []
    )
    for name in dict.fromkeys(names):
        where = target.place(name)
        if where is not None:
            yield name, where


def _log(collector: Collector, name: str, engine: Engine, target: Target) -> list[Reading | Unobserved]:
    """What the last start in the log shows, if it is this server's log; `-` is standard input."""
    log = start_log.read(name, engine.name)
    collector.warnings += [log.note] if log.note else []
    reason = log.gap or start_log.other(log, target.server)
    if reason:
        fix = log.fix or "name the log that this server writes"
        collector.warnings.append(f"log {name}: not read: {reason}")
        return [Unobserved(("kernels",), reason, fix)]
    return list(engine.from_log(log.lines))


def _observation(collector: Collector, target: Target) -> Observation:
    return Observation(
        readings=tuple(collector.readings),
        unobserved=collector.gaps(),
        checks=_checks(collector),
        complete=frozenset(collector.complete),
        stage=target.stage,
        observed_at=dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        host=socket.gethostname(),
        warnings=tuple(dict.fromkeys(collector.warnings)),
        asked=tuple(collector.asked),
    )


def _checks(collector: Collector) -> tuple[Check, ...]:
    """One finding for each name: the worst status with all its details, or the first pass."""
    found: dict[str, list[Check]] = {}
    for check in collector.checks:
        found.setdefault(check.name, []).append(check)
    return tuple(map(_joined, found.values()))


def _joined(same: list[Check]) -> Check:
    rank = {"fail": 0, "unknown": 1, "pass": 2}
    worst = min(rank[each.status.value] for each in same)
    told = [each for each in same if rank[each.status.value] == worst]
    if len(told) == 1 or worst == rank["pass"]:
        return told[0]
    return Check(
        told[0].name,
        told[0].status,
        "; ".join(dict.fromkeys(each.detail for each in told if each.detail)),
        ", ".join(dict.fromkeys(each.source for each in told if each.source)),
        "; ".join(dict.fromkeys(each.fix for each in told if each.fix)),
    )


def _secrets(request: Request, target: Target) -> tuple[str, ...]:
    given = target.plan.given if target.plan else None
    env = {**(target.server.process.env if target.server else {}), **target.env}
    named = [value for name, value in env.items() if is_secret(name) and len(value) >= 8]
    keys = [request.api_key.strip()] if request.api_key else []
    for name, value in http.key_headers(None, request.headers).items():
        keys += value.split() if secret_name(name.replace("-", "_").lower()) else []
    return (*(given.secrets if given else ()), *named, *keys)


def _start(pool: ThreadPoolExecutor, wanted: bool, function: Callable[..., Any], *args: Any) -> Future[Any] | None:
    return timed.start(pool, function, *args) if wanted else None


def _result(future: Future[Any] | None) -> Any:
    return future.result() if future is not None else None


def _ask(request: Request, target: Target) -> Replies:
    assert target.address is not None
    headers = http.key_headers(request.api_key, request.headers)
    rounds = _ROUNDS if target.elsewhere is not None else 1
    return endpoints.ask(
        target.address,
        target.engine,
        headers,
        request.timeout,
        likely=request.engine,
        rounds=rounds,
        generate=request.probe_generate,
    )


def _ask_again(collector: Collector, request: Request, replies: Replies, engine: Engine, context: Context) -> None:
    """Ask a server again whose process is not visible: only its answers can show that it changed."""
    headers = http.key_headers(request.api_key, request.headers)

    def ask() -> tuple[()]:
        now = endpoints.ask_again(replies, headers, request.timeout)
        merge.answers_now(collector, replies, engine, context, now)
        return ()

    _guarded(collector, f"answers of {engine.name}", ask)


def _libraries(target: Target, installed: Any, hashing: bool) -> Any:
    assert target.server is not None
    return mapped_libraries.readings(target.server.mappings, installed, hashing=hashing)
