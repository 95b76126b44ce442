"""Merges the sources: what the engine derives from arguments, files, host, answers, and log becomes one observation."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm import engines
from lockllm.checkpoint import Look
from lockllm.engines import Answer, Context, Engine, Given
from lockllm.engines.kernel import typed as asked
from lockllm.engines.shown import redaction
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import GROUPS, same, seen
from lockllm.observe import machine
from lockllm.observe.collector import Collector, known
from lockllm.observe.machine import closed
from lockllm.observe.python import bytecode, installed, package_fit, packages
from lockllm.observe.python.environments import Environment
from lockllm.observe.request import Request
from lockllm.observe.server import launch, variable_readings, workers
from lockllm.observe.server.command_line import read_file
from lockllm.observe.server.endpoints import Replies
from lockllm.observe.server.locate import Target
from lockllm.observe.web.http import Silence

_SAID_WHOLE: frozenset[Path] = frozenset(
    {("serve", "args"), ("serve", "chat_template_kwargs"), ("serve", "speculative"), ("adapters",), ("draft",)}
)
"""Families that a command line shows completely: what it does not name is absent. Ollama's come with the model."""
_LAYERS: Path = ("checkpoint", "layers")


def environment(collector: Collector, request: Request, target: Target, engine: Engine | None) -> dict[str, str]:
    """Packages, the engine's release, Python, and CUDA; returns versions by distribution."""
    if target.environment is None:
        missing = target.no_environment
        if missing is not None:
            for group in ("packages", "startup", "cuda"):
                collector.unobserved.append(Unobserved((group,), missing.reason, missing.fix))
            collector.unobserved.append(Unobserved(("host", "python"), missing.reason, missing.fix))
        return {}
    names = packages.named(engine, request.packages)
    edits, unread, bytecodes = _edits(request, target, target.environment, names)
    found, unseen, complete = packages.readings(target.environment, engine, request.packages, edits, request.edition)
    pinning = ("torch", *(engine.distributions if engine is not None else ()))
    checks = (
        installed.unedited(target.environment, edits, unread),
        installed.pinned(target.environment, pinning),
        bytecodes,
    )
    collector.add([*found, *unseen, *(check for check in checks if check is not None)])
    collector.complete |= complete
    collector.warnings += target.environment.problems
    versions = packages.versions(target.environment)
    fits = package_fit.check(versions)
    collector.checks += [fits] if fits is not None else []
    return versions


def _edits(
    request: Request, target: Target, environment: Environment, names: Iterable[str]
) -> tuple[installed.Edits, tuple[str, ...] | None, Check | None]:
    """Edited packages, the files that were not read, and the finding on bytecode.

    Where depth is asked for, every byte is read and every source compiled; else size and time decide. Locks of edition 1 are
    not held so.
    """
    if not request.deep:
        touched = installed.touched(environment, names) if request.edition > 1 else None
        if touched is None or not touched.edits:
            return {}, None, None
        return touched.edits, touched.unread, bytecode.unproven(touched.compiled)
    edits = installed.edits(environment, names)
    program = environment.prefix / "bin" / "python"
    foreign = target.server is not None and str(target.server.process.root) != "/"
    if foreign or not edits or not program.is_file():
        return edits, None, None
    check, differ = bytecode.compared(environment, edits, program)
    by_name = {name: tuple(each for each in differ if _is_of(environment, name, each)) for name in edits}
    return {name: (*files, *by_name[name]) for name, files in edits.items()}, None, check


def _is_of(environment: Environment, name: str, file: str) -> bool:
    return file.partition("/")[0].replace("_", "-").lower() == environment.distributions[name].name


def given(collector: Collector, request: Request, target: Target, replies: Replies | None = None) -> None:
    """What the command line, its variables, and its files say, and the store of the model that the server has loaded."""
    plan = target.plan
    if plan is None:
        return
    outranked = plan.given.outranked if plan.given is not None else frozenset[Path]()
    sure = [each for each in plan.readings if not any(each.fact.path[: len(path)] == path for path in outranked)]
    collector.add(each for each in sure if not _is_idle(each, plan.given, request, target))
    collector.add(plan.checks)
    collector.warnings += plan.warnings
    if plan.given is None:
        return
    collector.unobserved += plan.given.unread
    told = {reading.fact.path for reading in plan.readings}
    collector.add(
        reading
        for reading in plan.given.env
        if reading.fact.path not in told and not _is_idle(reading, plan.given, request, target)
    )
    if unread(plan.given, ("serve", "args")) is None:
        collector.complete |= {("serve", "args")} if engines.identity(plan.given.engine).layered_store else _SAID_WHOLE
    collector.asked += asked.typed(plan.given, target.installed)
    whole = target.server is None or target.server.process.env_whole
    if whole:
        collector.complete.add(("env",))
    else:
        reason = f"{closed(target)}: variables that it does not show are unknown"
        collector.unobserved.append(
            Unobserved(("env",), reason, "run lockllm as root, or before the server, with lockllm exec")
        )
    collector.add(workers.readings(target.server))
    stored = tuple(workers.stored(target.server, request.edition, _loaded(replies)))
    collector.add(stored)
    if any(isinstance(each, Reading) and each.fact.path[:2] == _LAYERS for each in stored):
        collector.complete.add(_LAYERS)
    filed = list(variable_readings.of_nccl(plan.env, lambda path: read_file(target.path(path))))
    collector.add(filed)
    held = {reading.fact.path for reading in (*plan.given.env, *filed)} | {each.fact.path for each in plan.given.paths}
    for name in sorted(request.env):
        if ("env", name) not in held and whole:
            source = f"pid {target.server.process.pid} environment" if target.server else "environment"
            by = By.PROCESS if target.server else By.PLAN
            collector.readings.append(seen(("env", name), None, source, by))


_OF_THE_HUB = frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})


def _is_idle(reading: Reading, given: Given | None, request: Request, target: Target) -> bool:
    """Whether a variable has no effect here: one about repositories, where the server serves only folders."""
    name = reading.fact.path[-1]
    if given is None or reading.fact.group != "env" or name not in _OF_THE_HUB or name in request.env:
        return False
    served = [
        each for each in (given.model, given.tokenizer, given.draft, *given.adapters.values()) if each is not None
    ]
    return bool(served) and all(os.path.exists(target.path(each.text)) for each in served)


def in_force(
    engine: Engine, given: Given, context: Context, target: Target, stored: Iterable[Reading] = ()
) -> Iterator[Reading | Unobserved]:
    """What the engine's rules derive from the arguments and from the model's own settings (`stored`: all readings so far).

    At stage live, what rules leave open only a full look can close. No default stands for a fact that is given by a file
    which cannot be read here.
    """
    named = {each.fact.path for each in given.paths}
    for item in engine.effective(_with_settings_of_model(engine, given, stored), context):
        if isinstance(item, Reading) and (item.fact.path in named or unread(given, item.fact.path) is not None):
            continue
        if isinstance(item, Unobserved) and target.stage is Stage.LIVE:
            yield msgspec.structs.replace(item, due=Stage.ALL)
        else:
            yield item


def unread(given: Given, path: Path) -> Unobserved | None:
    """Why a fact is unknown although a rule or another file gives a value: a file that outranks it was not read."""
    return next((gap for gap in given.unread if path[: len(gap.path)] == gap.path), None)


def replicas(replies: Replies, engine: Engine, context: Context) -> Iterator[Reading | Check]:
    """What later rounds of answers show differently: several servers answer at one address."""
    odd = _differing(replies, replies.rounds, engine, context)
    yield from odd.values()
    if replies.again and not replies.rounds:
        detail, fix = "no second round of answers was complete", "give it more time with --timeout"
        yield Check("check.replicas_agree", CheckStatus.UNKNOWN, detail, replies.address.url, fix)
    elif replies.rounds:
        names = ", ".join(sorted(reading.fact.key for reading in odd.values()))
        detail = (
            f"answers differ from call to call: {names}"
            if odd
            else f"{len(replies.rounds) + 1} rounds of answers agree"
        )
        status = CheckStatus.FAIL if odd else CheckStatus.PASS
        fix = "name each replica by its own address" if odd else ""
        yield Check("check.replicas_agree", status, detail, replies.address.url, fix)


def answers_now(
    collector: Collector, replies: Replies, engine: Engine, context: Context, now: Sequence[Answer | Silence]
) -> None:
    """Compare the first answers of a server that only HTTP shows with those at the end.

    A different answer is a finding and a second reading; a server that no longer answers shows nothing that could be known.
    """
    fix = "try again when nothing changes it"
    quiet = [each for each in now if isinstance(each, Silence)]
    if quiet:
        reason = f"answered at first but not at the end: {quiet[0].reason}"
        collector.withhold((By.ENDPOINT,), reason, quiet[0].fix)
        collector.unobserved.append(Unobserved(("check", "server_answers"), reason, quiet[0].fix, due=Stage.LIVE))
        collector.checks = [each for each in collector.checks if each.name != "check.server_answers"]
        collector.checks.append(
            Check("check.server_answers", CheckStatus.UNKNOWN, reason, replies.address.url, quiet[0].fix)
        )
        return
    between = _differing(replies, replies.rounds, engine, context)  # replicas differ from call to call, and are told so
    last = tuple(each for each in now if isinstance(each, Answer))
    odd = {path: each for path, each in _differing(replies, [last], engine, context).items() if path not in between}
    if odd:
        names = ", ".join(sorted(reading.fact.key for reading in odd.values()))
        detail = f"its answers changed during the check: {names}"
        check = Check("check.server_current", CheckStatus.FAIL, detail, replies.address.url, fix)
        collector.add([*odd.values(), check])


def _differing(
    replies: Replies, rounds: Iterable[tuple[Answer, ...]], engine: Engine, context: Context
) -> dict[Path, Reading]:
    """The readings of later answers that differ from those of the first, the first of each fact."""
    first = {item.fact.path: item for item in engine.from_http(replies.answers, context) if isinstance(item, Reading)}
    odd: dict[Path, Reading] = {}
    for answers in rounds:
        for item in engine.from_http(answers, context):
            if isinstance(item, Reading):
                before = first.get(item.fact.path)
                if before is not None and not same(item.fact, before.value, item.value):
                    odd.setdefault(item.fact.path, item)
    return odd


def silent(collector: Collector, target: Target, replies: Replies | None) -> None:
    """Why facts that only a running server shows are not known."""
    reason = fix = ""
    if replies is not None and replies.worst is not None:
        reason, fix = replies.worst.reason, replies.worst.fix
    elif replies is None and target.server is not None and target.stage is not Stage.PREFLIGHT:
        hidden = target.server.process.hidden
        reason = hidden or f"pid {target.server.process.pid} listens on no port that is reachable from here"
        fix = "wait for it with --wait SECONDS, or name its address with --server"
    if reason:
        for group in ("serve", "sampling", "chat_template", "engine", "tokenizer"):
            collector.unobserved.append(Unobserved((group,), reason, fix, due=Stage.LIVE))


def not_running(collector: Collector, request: Request, target: Target) -> None:
    """Why the arguments are unknown where no server runs and no engine command is planned."""
    machine.no_cuda(collector, target)
    if target.live or (target.plan is not None and target.plan.given is not None):
        return
    reason, fix = (
        "no server runs here and no command is planned",
        "start the server, or give its command to lockllm exec",
    )
    if target.plan is not None:
        reason, fix = "the command does not show the engine's own arguments", "verify again while the server runs"
    due = Stage.LIVE
    if request.unread:  # it starts next: what it would serve is due now
        reason, fix, due = request.unread, launch.FIX, Stage.PREFLIGHT
        collector.warnings.append(f"the command is not read: {reason}")
    groups = ("serve", "sampling", "env", "libraries", "engine", "kernels", "draft", "adapters")
    for path in (*((group,) for group in groups), *(("tokenizer", name) for name in ("mode", "repo", "commit"))):
        collector.unobserved.append(Unobserved(path, reason, fix, due=due))


def elsewhere(collector: Collector, target: Target) -> None:
    """The gaps of a server on another machine: everything but HTTP."""
    if target.elsewhere is None:
        return
    reason, fix = target.elsewhere.reason, target.elsewhere.fix
    collector.unobserved += [Unobserved((group.name,), reason, fix) for group in GROUPS]


def redacted(pile: Collector, secrets: Iterable[str]) -> Collector:
    """The same without readings that contain a secret of the command line or environment; secrets are removed from all texts."""
    hidden = tuple(secrets)
    kept = Collector()
    kept.complete = set(pile.complete)
    for reading in redaction.readings(pile.readings):
        path = reading.fact.path
        secret = next((at for at, part in enumerate(path) if redaction.holds(part, hidden)), None)
        if secret is not None:  # a name that a server gave
            family = path[: max(1, secret)]
            kept.complete -= {family[:length] for length in range(1, len(family) + 1)}
            kept.unobserved.append(Unobserved(family, "a name in it contains a secret", "pass the secret in a file"))
            continue
        text = reading.source + json.dumps(_plain(reading.value), default=str, ensure_ascii=False)
        if redaction.holds(text, hidden):
            kept.unobserved.append(
                Unobserved(reading.fact.path, "its value contains a secret", "pass the secret in a file")
            )
        else:
            kept.readings.append(reading)
    kept.asked = [
        each
        for each in redaction.readings(pile.asked)
        if not redaction.holds(json.dumps([*each.fact.path, _plain(each.value)], default=str), hidden)
    ]
    kept.unobserved += [redaction.gap(each, hidden) for each in pile.unobserved]
    kept.checks = list(redaction.checks(pile.checks, hidden))
    kept.warnings = [redaction.text(each, hidden) for each in pile.warnings]
    return kept


def context(
    target: Target,
    collector: Collector,
    look: Look | None,
    host: Mapping[Path, Any],
    installed: Mapping[str, str],
    request: Request,
) -> Context:
    """What an engine's rules may look at."""
    held = collector.values
    told = held.get(("engine", "version"))
    version = str(told) if told is not None else request.engine_version
    checkpoint = known(look.readings) if look else {}
    own = target.installed
    return Context(
        version=version,
        installed=own if own is not None and own.version == version else None,
        checkpoint=checkpoint,
        host=host,
        packages=dict(installed),
        env=dict(target.env),
        env_whole=target.server is None or target.server.process.env_whole,
        locked_model=":".join(each for each in (request.repo, request.revision) if each),
    )


def _loaded(replies: Replies | None) -> str:
    """The digest of the one manifest that a server of Ollama says it has loaded."""
    answer = next((each.json for each in replies.answers if each.probe.path == "/api/ps"), None) if replies else None
    models = answer.get("models") if isinstance(answer, dict) else None
    digest = (
        models[0].get("digest") if isinstance(models, list) and len(models) == 1 and isinstance(models[0], dict) else ""
    )
    return digest if isinstance(digest, str) else ""


def _with_settings_of_model(engine: Engine, given: Given, seen: Iterable[Reading]) -> Given:
    of_model: Any = getattr(engine, "of_model", None)
    held = {reading.fact.path for reading in given.readings}
    more = tuple(each for each in (of_model(seen) if of_model is not None else ()) if each.fact.path not in held)
    return msgspec.structs.replace(given, readings=(*given.readings, *more))


def _given(target: Target) -> Given | None:
    return target.plan.given if target.plan else None


def _plain(value: Any) -> Any:
    return repr(value) if not isinstance(value, (str, int, float, bool, dict, list, tuple, type(None))) else value
