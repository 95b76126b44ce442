"""The machine of one server: its GPUs, its driver, the CUDA stack, and whether they fit together."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import By, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.collector import Collector
from lockllm.observe.cuda import stack_fit, toolkit, trial
from lockllm.observe.cuda.stack_fit import DriverLibrary
from lockllm.observe.cuda.trial import TrialResult
from lockllm.observe.gpu import gpu_count, gpu_readings, probe, sysfs
from lockllm.observe.gpu.cards import Machine, Trouble
from lockllm.observe.gpu.gpu_readings import GpuCount
from lockllm.observe.gpu.visible import VisibleGpu
from lockllm.observe.request import Request
from lockllm.observe.safe import child
from lockllm.observe.server.locate import Target

_ROOT = pathlib.Path("/")


def machine(request: Request, target: Target) -> Machine:
    """The GPUs of this machine; none for an engine built without GPU support. At stage live no driver is queried."""
    environment = target.environment
    torch = environment.torch if environment is not None and target.engine is not None else None
    if torch is not None and "cuda" in torch and not any(torch.get(name) for name in ("cuda", "hip", "xpu")):
        return Machine(platform="cpu", none=True, source="torch/version.py: no build for GPUs")
    if target.stage is Stage.LIVE:
        found = sysfs.signs()
        platform = "cuda" if "nvidia" in found else "rocm" if "amd" in found else "cpu"
        return Machine(platform=platform, trouble=Trouble("GPUs are not queried at stage live", "verify at stage all"))
    return probe.look(request.gpu, env=variables(request, target))


def host(collector: Collector, request: Request, target: Target, seen_machine: Machine) -> dict[Path, Any]:
    """The driver and the CPU; returns what rules may know of the first GPU. The number of GPUs in use follows later."""
    said = gpu_readings.machine_facts(seen_machine)
    collector.add([*said.readings, *said.unobserved, *said.checks])
    collector.warnings += said.warnings
    if seen_machine.platform == "cpu" and (model := sysfs.cpu()) is not None:
        collector.readings.append(seen("host.cpu", model, "/proc/cpuinfo", By.FILE))
    choice = gpu_readings.pick(seen_machine, variables(request, target), _pids(target), closed(target))
    first = gpu_readings.of_one(choice.gpus) if seen_machine.cards else {}
    return {**first, **({("host", "platform"): seen_machine.platform} if seen_machine.platform else {})}


def used_gpus(collector: Collector, request: Request, target: Target, seen_machine: Machine) -> None:
    """The GPUs of this server: as many as its parallel sizes need, of those that it sees."""
    choice = gpu_readings.pick(seen_machine, variables(request, target), _pids(target), closed(target))
    used = gpu_count.used(collector.values, target.plan.given if target.plan else None)
    if used is None and request.gpus is not None and not target.live and not request.command:
        used = GpuCount(request.gpus, "as locked", request.gpus)
    said = gpu_readings.gpu_facts(seen_machine, choice, used)
    collector.add([*said.readings, *said.unobserved, *said.checks])
    gpus = choice.gpus[: used.count] if used is not None else choice.gpus
    if gpus and target.server is not None and gpu_readings.idle(seen_machine, _pids(target)):
        pid = target.server.process.pid
        collector.warnings.append(f"the driver shows no process of pid {pid} on a GPU: it may run on the CPU")
    wrong = _stack(collector, request, target, seen_machine)
    tried = _tried(collector, request, target, seen_machine, gpus)
    runtime, library = collector.values.get(("cuda", "runtime")), _libcuda(collector)
    for check in (
        stack_fit.supports(seen_machine, str(runtime) if runtime else None, library),
        stack_fit.one_driver(seen_machine, library),
        stack_fit.usable(seen_machine, gpus, (*wrong, *tried.wrong), tried.done, tried.unknown),
    ):
        collector.add([check] if check is not None else [])


def no_cuda(collector: Collector, target: Target) -> None:
    """A server whose mappings are all visible, and that maps and imports nothing of CUDA, has no CUDA.

    An engine without torch shows its libraries only while it runs.
    """
    if any(each.fact.path[0] == "cuda" and each.by < By.FILE for each in collector.readings):
        return
    if target.server is None and target.engine is not None and "torch" not in target.engine.packages:
        reason = "only the running server shows which CUDA libraries it loads"
        collector.unobserved.insert(0, Unobserved(("cuda",), reason, "verify at stage live or all", due=Stage.LIVE))
    if target.server is None or not target.server.mappings.files or target.server.mappings.closed:
        return
    source = f"pid {target.server.process.pid} maps no CUDA library"
    for name in ("runtime", "cudnn", "nccl", "cublas"):
        collector.readings.append(seen(("cuda", name), None, source, By.LIBRARY))


def variables(request: Request, target: Target) -> Mapping[str, str]:
    """The variables that decide which GPUs and libraries the server takes."""
    if target.server is not None:
        return target.server.process.env
    return target.plan.env if target.plan is not None else (request.environ or os.environ)


def closed(target: Target) -> str:
    """Why the variables of the server are not all known; empty where they are."""
    if target.server is None or target.server.process.env_whole:
        return ""
    return target.server.process.hidden or f"pid {target.server.process.pid} has overwritten its environment"


def _stack(collector: Collector, request: Request, target: Target, seen_machine: Machine) -> list[Trouble]:
    """The toolkit, and the library files that a planned server would load; returns what prevents CUDA from starting."""
    root = target.server.process.root if target.server is not None else _ROOT
    env = variables(request, target)
    collector.readings.append(toolkit.toolkit(env, root))
    if seen_machine.rocm_release is not None and ("rocm", "version") not in collector.values:
        collector.readings.append(
            seen(("rocm", "version"), seen_machine.rocm_release, "/opt/rocm/.info/version", By.FILE)
        )
    wrong = stack_fit.shut(root) if seen_machine.platform == "cuda" else []
    if seen_machine.platform != "cuda" or target.server is not None:
        return wrong
    cwd = target.plan.cwd if target.plan is not None else request.cwd
    found = toolkit.planned(target.environment, env, cwd, collector.readings)
    collector.readings = [each for each in collector.readings if each.fact.path not in found.instead]
    collector.add(found.readings)
    collector.warnings += found.warnings
    if not found.driver and stack_fit.has_devices(root):
        fix = "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        wrong.append(Trouble("the loader finds no libcuda.so.1", fix))
    return wrong


def _tried(
    collector: Collector, request: Request, target: Target, seen_machine: Machine, gpus: Sequence[VisibleGpu]
) -> TrialResult:
    """What only a trial shows, where `--deep` asks for it and lockllm can open the server's files."""
    process = target.server.process if target.server is not None else None
    if not request.deep or target.stage is Stage.LIVE or target.elsewhere is not None:
        return TrialResult()
    if process is not None and process.root != _ROOT:
        return TrialResult(unknown="the server runs in a container: run lockllm inside it to test its CUDA")
    env = variables(request, target)
    wrong: tuple[Trouble, ...] = ()
    environment = target.environment
    program = environment.prefix / "bin" / "python" if environment is not None else _ROOT
    if environment is not None and environment.torch is not None and program.is_file():
        told = trial.torch(program, env, collector.readings)
        collector.add([*told.readings, *told.unobserved])
        wrong = trial.without_code(gpus, told.codes) if told.codes is not None else ()
    if seen_machine.platform != "cuda" or not gpus:
        return TrialResult(wrong=wrong)
    tried = trial.cuda(env, child.rights_of(process.owner, process.owner) if process is not None else {})
    return TrialResult(wrong=(*wrong, *tried.wrong), done=tried.done, unknown=tried.unknown)


def _libcuda(collector: Collector) -> DriverLibrary | None:
    """The libcuda that is mapped, or would be loaded."""
    reading = next((each for each in collector.readings if each.fact.path == ("cuda", "driver_library")), None)
    if reading is None or not isinstance(reading.value, str):
        return None
    path = reading.source.rpartition(" ")[2]
    return DriverLibrary(reading.value, path, "/compat/" in path)


def _pids(target: Target) -> frozenset[int]:
    return frozenset(process.pid for process in target.server.processes) if target.server else frozenset()
