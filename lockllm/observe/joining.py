"""The sources joined: what the engine makes of arguments, files, host, answers and log becomes one observation."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from lockllm.checkpoint import Look
from lockllm.engines import Context, Engine, Given
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import Absent, By, Check, CheckStatus, Raw, Reading, Unobserved, values
from lockllm.facts.registry import GROUPS, same, seen
from lockllm.observe import cuda, gpu, gpu_facts, loading, packages, ranks, settings, workers
from lockllm.observe.asking import Said
from lockllm.observe.cuda import DriverLibrary
from lockllm.observe.gpu import Machine, Trouble
from lockllm.observe.gpu_facts import Used
from lockllm.observe.plan import read_file
from lockllm.observe.request import Request
from lockllm.observe.serving import Serving

ROOT = pathlib.Path("/")


class Pile:
    """Readings, gaps and findings as they come in."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.unobserved: list[Unobserved] = []
        self.checks: list[Check] = []
        self.complete: set[Path] = set()
        self.warnings: list[str] = []

    def add(self, items: Iterable[Reading | Unobserved | Check]) -> None:
        """Put each where it belongs."""
        for item in items:
            if isinstance(item, Reading):
                self.readings.append(item)
            elif isinstance(item, Unobserved):
                self.unobserved.append(item)
            else:
                self.checks.append(item)

    @property
    def values(self) -> dict[Path, Any]:
        """The value in force of each fact so far; what is absent, or of no type that its fact knows, is left out."""
        return _known(self.readings)

    def gaps(self) -> tuple[Unobserved, ...]:
        """What could not be seen, the first reason of each; what was seen after all is left out."""
        held = {reading.fact.path for reading in self.readings}
        found: dict[Path, Unobserved] = {}
        for each in self.unobserved:
            if each.path not in held:
                found.setdefault(each.path, each)
        return tuple(found.values())


def environment(pile: Pile, request: Request, serving: Serving, engine: Engine | None) -> dict[str, str]:
    """Packages, the engine's release, Python and CUDA; gives versions by distribution."""
    if serving.environment is None:
        missing = serving.no_environment
        if missing is not None:
            for group in ("packages", "cuda"):
                pile.unobserved.append(Unobserved((group,), missing.reason, missing.mend))
            pile.unobserved.append(Unobserved(("host", "python"), missing.reason, missing.mend))
        return {}
    found, unseen, complete = packages.readings(serving.environment, engine, request.packages, deep=request.deep)
    pile.add([*found, *unseen])
    pile.complete |= complete
    pile.warnings += serving.environment.problems
    return packages.versions(serving.environment)


def machine(request: Request, serving: Serving) -> Machine:
    """The GPUs of this machine; none for an engine that is built without them. At stage live no driver is asked."""
    environment = serving.environment
    torch = environment.torch if environment is not None and serving.engine is not None else None
    if torch is not None and "cuda" in torch and not any(torch.get(name) for name in ("cuda", "hip", "xpu")):
        return Machine(platform="cpu", none=True, source="torch/version.py: no build for GPUs")
    if serving.stage is Stage.LIVE:
        found = gpu.signs()
        platform = "cuda" if "nvidia" in found else "rocm" if "amd" in found else "cpu"
        return Machine(platform=platform, trouble=Trouble("GPUs are not asked at stage live", "verify at stage all"))
    return gpu.look(request.gpu, env=_env(request, serving))


def host(pile: Pile, request: Request, serving: Serving, seen_machine: Machine) -> dict[Path, Any]:
    """The driver and the CPU; gives what rules may know of the first GPU. How many are used is told later."""
    said = gpu_facts.machine_facts(seen_machine)
    pile.add([*said.readings, *said.unobserved, *said.checks])
    pile.warnings += said.warnings
    if seen_machine.platform == "cpu" and (model := gpu.cpu()) is not None:
        pile.readings.append(seen("host.cpu", model, "/proc/cpuinfo", By.FILE))
    choice = gpu_facts.pick(seen_machine, _env(request, serving), _pids(serving), _closed(serving))
    first = gpu_facts.of_one(choice.gpus) if seen_machine.cards else {}
    return {**first, **({("host", "platform"): seen_machine.platform} if seen_machine.platform else {})}


def used_gpus(pile: Pile, request: Request, serving: Serving, seen_machine: Machine) -> None:
    """The GPUs of this server: as many as its parallel sizes need, of those that it sees."""
    choice = gpu_facts.pick(seen_machine, _env(request, serving), _pids(serving), _closed(serving))
    used = ranks.used(pile.values, _given(serving))
    if used is None and request.gpus is not None and not serving.live and not request.command:
        used = Used(request.gpus, "as locked", request.gpus)
    said = gpu_facts.gpu_facts(seen_machine, choice, used)
    pile.add([*said.readings, *said.unobserved, *said.checks])
    wrong = _stack(pile, request, serving, seen_machine)
    runtime, library = pile.values.get(("cuda", "runtime")), _libcuda(pile)
    for check in (
        cuda.supports(seen_machine, str(runtime) if runtime else None, library),
        cuda.one_driver(seen_machine, library),
        cuda.usable(seen_machine, choice.gpus[: used.count] if used else choice.gpus, wrong, ""),
    ):
        pile.add([check] if check is not None else [])


def _stack(pile: Pile, request: Request, serving: Serving, seen_machine: Machine) -> list[Trouble]:
    """The toolkit, and the library files that a server which does not run yet would load; what keeps CUDA from starting."""
    root = serving.found.process.root if serving.found is not None else ROOT
    pile.readings.append(loading.toolkit(_env(request, serving), root))
    wrong = cuda.shut(root) if seen_machine.platform == "cuda" else []
    if seen_machine.platform != "cuda" or serving.found is not None:
        return wrong
    cwd = serving.plan.cwd if serving.plan is not None else request.cwd
    found = loading.planned(serving.environment, _env(request, serving), cwd, pile.readings)
    pile.readings = [each for each in pile.readings if each.fact.path not in found.instead]
    pile.add(found.readings)
    pile.warnings += found.warnings
    if not found.driver and cuda.has_devices(root):
        mend = "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        wrong.append(Trouble("no libcuda.so.1 lies where the loader looks", mend))
    return wrong


def _no_cuda(pile: Pile, serving: Serving) -> None:
    """A server whose every mapping shows, and that maps and imports nothing of CUDA, has none.

    An engine that imports no torch shows what it maps only while it runs.
    """
    if any(each.fact.path[0] == "cuda" and each.fact.path[1] != "toolkit" for each in pile.readings):
        return
    if serving.found is None and serving.engine is not None and "torch" not in serving.engine.packages:
        reason = "which libraries of CUDA it loads, only the running server shows"
        pile.unobserved.insert(0, Unobserved(("cuda",), reason, "verify at stage live or all", due=Stage.LIVE))
    if serving.found is None or not serving.found.loaded.files or serving.found.loaded.closed:
        return
    source = f"pid {serving.found.process.pid} maps no library of CUDA"
    for name in ("runtime", "cudnn", "nccl", "cublas"):
        pile.readings.append(seen(("cuda", name), None, source, By.LIBRARY))


def _libcuda(pile: Pile) -> DriverLibrary | None:
    """The libcuda that is mapped, or would be loaded."""
    reading = next((each for each in pile.readings if each.fact.path == ("cuda", "driver_library")), None)
    if reading is None or not isinstance(reading.value, str):
        return None
    path = reading.source.rpartition(" ")[2]
    return DriverLibrary(reading.value, path, "/compat/" in path)


def given(pile: Pile, request: Request, serving: Serving) -> None:
    """What the command line, its variables and its files say."""
    plan = serving.plan
    if plan is None:
        return
    pile.add(plan.readings)
    pile.add(plan.checks)
    pile.warnings += plan.warnings
    if plan.given is None:
        return
    told = {reading.fact.path for reading in plan.readings}
    pile.add(reading for reading in plan.given.env if reading.fact.path not in told)
    pile.complete.add(("serve", "args"))
    whole = serving.found is None or serving.found.process.env_whole
    if whole:
        pile.complete.add(("env",))
    else:
        reason = f"{_closed(serving)}: a variable that is not there is unknown"
        pile.unobserved.append(
            Unobserved(("env",), reason, "run lockllm as root, or before the server, with lockllm exec")
        )
    pile.add(workers.readings(serving.found))
    pile.add(workers.stored(serving.found))
    filed = list(settings.of_nccl(plan.env, lambda path: read_file(serving.path(path))))
    pile.add(filed)
    held = {reading.fact.path for reading in (*plan.given.env, *filed)} | {each.fact.path for each in plan.given.paths}
    for name in sorted(request.env):
        if ("env", name) not in held and whole:
            source = f"pid {serving.found.process.pid} environment" if serving.found else "environment"
            by = By.PROCESS if serving.found else By.PLAN
            pile.readings.append(seen(("env", name), None, source, by))


def in_force(engine: Engine, given: Given, context: Context, serving: Serving) -> Iterator[Reading | Unobserved]:
    """What the engine's rules make of the arguments. At stage live, what rules leave open only a full look can close."""
    for item in engine.effective(given, context):
        if isinstance(item, Unobserved) and serving.stage is Stage.LIVE:
            yield msgspec.structs.replace(item, due=Stage.ALL)
        else:
            yield item


def replicas(said: Said, engine: Engine, context: Context) -> Iterator[Reading | Check]:
    """What the later rounds of questions say otherwise: several servers answer at one address."""
    held = {
        reading.fact.path: reading
        for reading in engine.from_http(said.answers, context)
        if isinstance(reading, Reading)
    }
    odd: dict[Path, Reading] = {}
    for answers in said.rounds:
        for item in engine.from_http(answers, context):
            if isinstance(item, Reading):
                first = held.get(item.fact.path)
                if first is not None and not same(item.fact, first.value, item.value):
                    odd.setdefault(item.fact.path, item)
    yield from odd.values()
    if said.rounds:
        names = ", ".join(sorted(reading.fact.key for reading in odd.values()))
        detail = (
            f"answers differ from call to call: {names}" if odd else f"{len(said.rounds) + 1} rounds of answers agree"
        )
        status = CheckStatus.FAIL if odd else CheckStatus.PASS
        mend = "name each replica by its own address" if odd else ""
        yield Check("check.replicas_agree", status, detail, said.server.url, mend)


def silent(pile: Pile, serving: Serving, said: Said | None) -> None:
    """Why facts that only a running server shows are not known."""
    reason = mend = ""
    if said is not None and said.worst is not None:
        reason, mend = said.worst.reason, said.worst.mend
    elif said is None and serving.found is not None and serving.stage is not Stage.PREFLIGHT:
        hidden = serving.found.process.hidden
        reason = hidden or f"pid {serving.found.process.pid} listens on no port that can be asked from here"
        mend = "wait for it with --wait SECONDS, or name its address with --server"
    if reason:
        for group in ("serve", "sampling", "chat_template", "engine", "tokenizer"):
            pile.unobserved.append(Unobserved((group,), reason, mend, due=Stage.LIVE))


def not_running(pile: Pile, serving: Serving) -> None:
    """Why nothing is known of the arguments where no server runs, and no command of an engine is planned."""
    _no_cuda(pile, serving)
    if serving.live or (serving.plan is not None and serving.plan.given is not None):
        return
    reason, mend = (
        "no server runs here and no command is planned",
        "start the server, or give its command to lockllm exec",
    )
    if serving.plan is not None:
        reason, mend = "the command does not show the engine's own arguments", "verify again while the server runs"
    groups = ("serve", "sampling", "env", "libraries", "engine", "kernels", "draft", "adapters")
    for path in (*((group,) for group in groups), *(("tokenizer", name) for name in ("mode", "repo", "commit"))):
        pile.unobserved.append(Unobserved(path, reason, mend, due=Stage.LIVE))


def elsewhere(pile: Pile, serving: Serving) -> None:
    """Everything but HTTP of a server that is not this machine's."""
    if serving.elsewhere is None:
        return
    reason, mend = serving.elsewhere.reason, serving.elsewhere.mend
    pile.unobserved += [Unobserved((group.name,), reason, mend) for group in GROUPS]


def redacted(pile: Pile, secrets: Iterable[str]) -> Pile:
    """The same without any reading that holds a secret of the command line or environment."""
    hidden = [secret for secret in secrets if len(secret) >= 4]
    if not hidden:
        return pile
    kept = Pile()
    kept.complete = pile.complete
    for reading in pile.readings:
        text = reading.source + json.dumps(_plain(reading.value), default=str, ensure_ascii=False)
        if any(secret in text for secret in hidden):
            kept.unobserved.append(
                Unobserved(reading.fact.path, "its value holds a secret", "give the secret by a file")
            )
        else:
            kept.readings.append(reading)
    kept.unobserved += [each for each in pile.unobserved if not _holds(hidden, each.reason, each.mend)]
    kept.checks = [each for each in pile.checks if not _holds(hidden, each.detail, each.source, each.mend)]
    kept.warnings = [text for text in pile.warnings if not _holds(hidden, text)]
    return kept


def context(
    serving: Serving,
    pile: Pile,
    look: Look | None,
    host: Mapping[Path, Any],
    installed: Mapping[str, str],
    fallback: str | None,
) -> Context:  # fmt: skip
    """What an engine's rules may look at."""
    held = pile.values
    version = held.get(("engine", "version"))
    checkpoint = _known(look.readings) if look else {}
    return Context(
        version=str(version) if version is not None else fallback,
        checkpoint=checkpoint, host=host, packages=dict(installed), env=dict(serving.env),
        env_whole=serving.found is None or serving.found.process.env_whole,
    )  # fmt: skip


def _known(readings: Iterable[Reading]) -> dict[Path, Any]:
    return {path: value for path, value in values(readings).items() if not isinstance(value, (Absent, Raw))}


def _given(serving: Serving) -> Given | None:
    return serving.plan.given if serving.plan else None


def _env(request: Request, serving: Serving) -> Mapping[str, str]:
    if serving.found is not None:
        return serving.found.process.env
    return serving.plan.env if serving.plan is not None else (request.environ or os.environ)


def _pids(serving: Serving) -> frozenset[int]:
    return frozenset(process.pid for process in serving.found.processes) if serving.found else frozenset()


def _closed(serving: Serving) -> str:
    """Why the variables of the server are not all known; empty where they are."""
    if serving.found is None or serving.found.process.env_whole:
        return ""
    return serving.found.process.hidden or f"pid {serving.found.process.pid} has overwritten its environment"


def _holds(secrets: Iterable[str], *texts: str) -> bool:
    return any(secret in text for secret in secrets for text in texts)


def _plain(value: Any) -> Any:
    return repr(value) if not isinstance(value, (str, int, float, bool, dict, list, tuple, type(None))) else value
