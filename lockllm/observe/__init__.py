"""A host, looked at: the sources run side by side and become one observation."""

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
from lockllm.observe.collector import Pile
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
from lockllm.observe.server.endpoints import Said
from lockllm.observe.server.locate import Serving
from lockllm.observe.server.model_files import Files
from lockllm.observe.web import http

__all__ = ["Request", "observe", "subject"]

_MADE = Unobserved(("checkpoint",), "the look at it is made already")
_ROUNDS = 3
"""How often a server that is no local process is asked: replicas behind one address take turns."""


def observe(request: Request) -> Observation:
    """Look at a host as a request says, and once more at all of it. UsageError where it names what is not there; all else is data."""
    if request.log is not None:
        start_log.check(request.log)
    with stamps.watching() as ledger:
        return _observe(request, ledger)


def _observe(request: Request, ledger: stamps.Ledger) -> Observation:
    found = locate.locate(request)
    place = locate.checkpoint(request, found) if request.look is None else _MADE
    installed = found.environment.distributions if found.environment else {}
    deep = found.stage is not Stage.LIVE and not request.quick
    pile = Pile()
    with ThreadPoolExecutor(max_workers=4) as pool:
        asked = _start(pool, found.address is not None, _ask, request, found)
        files = timed.start(pool, model_files.look, request, found, place)
        hardware = _start(pool, found.elsewhere is None, machine.machine, request, found)
        mapped = _start(pool, found.found is not None, _libraries, found, installed, deep)
        said: Said | None = _result(asked)
        engine = found.engine or (said.engine if said else None)
        versions = merge.environment(pile, request, found, engine)
        if (started := program.reading(request, found)) is not None and request.edition > 1:
            pile.add([started])
        merge.given(pile, request, found, said)
        for part in _result(mapped) or ():
            pile.add(part)
        seen_machine: Machine | None = _result(hardware)
        looked: Files = files.result()
    host = machine.host(pile, request, found, seen_machine) if seen_machine is not None else {}
    _files(pile, looked, request.edition)
    if said is not None:
        pile.checks.append(said.check)
    if engine is not None:
        _rules(pile, request, found, engine, said, looked, host, versions)
    served_model.look(pile, request, found, said)
    served_model.branch(pile, found, looked.main)
    second_look.answers(pile, found, said)
    merge.silent(pile, found, said)
    if seen_machine is not None:
        machine.used_gpus(pile, request, found, seen_machine)
    merge.not_running(pile, request, found)
    merge.elsewhere(pile, found)
    if found.found is not None:
        named = frozenset(map(distributions.normal, (*engine.packages, *engine.distributions) if engine else ()))
        also = dict(_named_files(found))
        pile.checks.append(
            staleness.current(found.found, found.environment, looked.looks, named | request.packages, also)
        )
    if request.pid is None and request.server is None:
        second_look.candidate(pile, found, said is not None and said.engine is not None)
    second_look.look(pile, found, looked.main, ledger)
    return _observation(merge.redacted(pile, _secrets(request, found)), found)


def subject(request: Request, seen: Observation) -> str:
    """How what was looked at is called: `server at http://127.0.0.1:8000 (pid 71)`."""
    if request.command:
        return "the planned command, before it runs"
    where = next((check.source for check in seen.checks if check.name == "check.server_answers"), "")
    pid = next((check.source for check in seen.checks if check.name == "check.server_current"), "")
    words = [*([f"at {where}"] if where else []), *([f"({pid})"] if pid else [])]
    return f"server {' '.join(words)}" if words else "this host, before a server runs"


def _rules(
    pile: Pile, request: Request, found: Serving, engine: Engine, said: Said | None, looked: Files, host: Any,
    versions: dict[str, str],
) -> None:  # fmt: skip
    """What the engine makes of everything: its answers, its log, its rules, its findings; then the prompt."""
    given = found.plan.given if found.plan else None

    def context() -> Context:
        return merge.context(found, pile, looked.main, host, versions, request)

    if said is not None and said.engine is engine:
        told = said
        _guarded(pile, f"answers of {engine.name}", lambda: endpoints.kept(engine.from_http(told.answers, context())))
        _guarded(pile, f"answers of {engine.name}", lambda: merge.replicas(told, engine, context()))
    if request.log is not None:
        log = request.log
        _guarded(pile, f"log {log}", lambda: _log(pile, log, engine, found))
    if given is not None:
        _guarded(
            pile,
            f"arguments of {engine.name}",
            lambda: merge.in_force(engine, given, context(), found, tuple(pile.readings)),
        )
        _guarded(pile, f"arguments of {engine.name}", lambda: engine.checks(given, context()))
    if looked.prompt is not None:
        of = looked.prompt
        _guarded(
            pile,
            "chat template",
            lambda: prompts.observe(found, engine, of, context(), pile.values, request, said, looked.main),
        )
    elif said is not None and said.engine is engine:
        shown = said
        _guarded(pile, f"prompts of {engine.name}", lambda: prompts.served(shown, request))


def _guarded(pile: Pile, what: str, read: Callable[[], Iterable[Any]]) -> None:
    """Foreign material may be of any shape: what trips a reader is a gap of its own, and takes nothing else down."""
    try:
        pile.add(list(read()))
    except LockllmError:
        raise
    except Exception as error:  # noqa: BLE001 - one source must not take the others down
        reason = f"the {what} cannot be read: {type(error).__name__}: {error}"[:300]
        pile.warnings.append(f"{reason}; please report it")
        for group in ("serve", "sampling", "chat_template", "prompt_probes"):
            pile.unobserved.append(Unobserved((group,), reason, "report it with the output of lockllm observe"))


def _files(pile: Pile, looked: Files, edition: int) -> None:
    pile.add([*looked.readings, *looked.unobserved])
    if edition > 1:
        pile.checks += [check for each in looked.others for check in model_files.beside(each)]
    if looked.main is None:
        return
    pile.add([*looked.main.readings, *looked.main.unobserved, *looked.main.checks])
    pile.complete |= looked.main.complete
    pile.warnings += looked.main.warnings
    if "not proven" in looked.source:
        pile.warnings.append(f"checkpoint: {looked.source}")


def _named_files(found: Serving) -> Iterator[tuple[str, str]]:
    """The files that the command of a running server names: what its options are given, and its config files."""
    plan = found.plan
    names = (
        [*plan.files, *(each.path for each in plan.given.paths)] if plan is not None and plan.given is not None else []
    )
    for name in dict.fromkeys(names):
        where = found.place(name)
        if where is not None:
            yield name, where


def _log(pile: Pile, name: str, engine: Engine, found: Serving) -> list[Reading | Unobserved]:
    """What the last start in the log shows, where it is the log of this server; `-` is standard input."""
    log = start_log.read(name, engine.name)
    pile.warnings += [log.note] if log.note else []
    reason = log.gap or start_log.other(log, found.found)
    if reason:
        fix = log.fix or "name the log that this server writes"
        pile.warnings.append(f"log {name}: not read: {reason}")
        return [Unobserved(("kernels",), reason, fix)]
    return list(engine.from_log(log.lines))


def _observation(pile: Pile, found: Serving) -> Observation:
    return Observation(
        readings=tuple(pile.readings),
        unobserved=pile.gaps(),
        checks=_checks(pile),
        complete=frozenset(pile.complete),
        stage=found.stage,
        observed_at=dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        host=socket.gethostname(),
        warnings=tuple(dict.fromkeys(pile.warnings)),
        asked=tuple(pile.asked),
    )


def _checks(pile: Pile) -> tuple[Check, ...]:
    """One finding of each name: of those with the worst status, every word once; of those that pass, the first."""
    found: dict[str, list[Check]] = {}
    for check in pile.checks:
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


def _secrets(request: Request, found: Serving) -> tuple[str, ...]:
    given = found.plan.given if found.plan else None
    env = {**(found.found.process.env if found.found else {}), **found.env}
    named = [value for name, value in env.items() if is_secret(name) and len(value) >= 8]
    keys = [request.api_key.strip()] if request.api_key else []
    for name, value in http.key_headers(None, request.headers).items():
        keys += value.split() if secret_name(name.replace("-", "_").lower()) else []
    return (*(given.secrets if given else ()), *named, *keys)


def _start(pool: ThreadPoolExecutor, wanted: bool, function: Callable[..., Any], *args: Any) -> Future[Any] | None:
    return timed.start(pool, function, *args) if wanted else None


def _result(future: Future[Any] | None) -> Any:
    return future.result() if future is not None else None


def _ask(request: Request, found: Serving) -> Said:
    assert found.address is not None
    headers = http.key_headers(request.api_key, request.headers)
    rounds = _ROUNDS if found.elsewhere is not None else 1
    return endpoints.ask(found.address, found.engine, headers, request.timeout, likely=request.engine, rounds=rounds)


def _libraries(found: Serving, installed: Any, hashing: bool) -> Any:
    assert found.found is not None
    return mapped_libraries.readings(found.found.loaded, installed, hashing=hashing)
