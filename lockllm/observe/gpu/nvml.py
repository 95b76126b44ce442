"""NVIDIA's management library through pynvml: loaded late, with a timeout for each call and a message for each error."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from lockllm.observe.gpu import sysfs
from lockllm.observe.gpu.cards import Machine, Trouble
from lockllm.observe.gpu.nvml_errors import INIT, code, hang, of_init
from lockllm.observe.gpu.nvml_reader import Reader
from lockllm.observe.safe.timed import Caller, Hung

_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/opengl-driver/lib",
)
"""Where the library lies on hosts whose loader does not look there."""
_NAME = "libnvidia-ml.so.1"
_START = 4
"""Initializing idle GPUs takes seconds: the timeout is this many times that of other calls."""
_INITIAL_PIDS = "pid:[4026531836]"


def look(root: Path, signs: frozenset[str], seconds: float, env: Mapping[str, str]) -> Machine:
    """What NVML reports about this machine."""
    kernel = sysfs.kernel_driver(root)
    source = "/proc/driver/nvidia/version"
    basis = Machine(platform="cuda", kernel_driver=kernel, driver=kernel, driver_source=source)
    try:
        import pynvml
    except ImportError as error:
        return _with(basis, trouble=Trouble(f"the NVML binding cannot be imported: {error}", "install nvidia-ml-py"))
    if not hasattr(pynvml, "nvmlInitWithFlags") or not hasattr(pynvml, "nvmlDeviceGetCudaComputeCapability"):
        fix = "remove the distribution pynvml, and install nvidia-ml-py"
        return _with(basis, trouble=Trouble("another package has the name of the NVML binding", fix))
    caller = Caller(seconds)
    try:
        unloaded = _load(caller)
        basis = _with(basis, nvml_driver=_library(root), host_pids=_host_pids(root))
        if unloaded is not None:
            return _missing(basis, root, signs, unloaded, env)
        return _read(pynvml, caller, basis, seconds)
    except Hung as hung:
        return _with(basis, trouble=hang(hung))
    except pynvml.NVMLError as error:
        return _broken(basis, root, signs, error, env)
    except Exception as error:  # noqa: BLE001 - whatever a binding raises is one more thing that could not be seen
        return _with(basis, trouble=Trouble(f"NVML: {type(error).__name__}: {error}", "update nvidia-ml-py"))
    finally:
        caller.close()


def _read(nvml: Any, caller: Caller, basis: Machine, seconds: float) -> Machine:
    caller.seconds = seconds * _START
    caller(nvml.nvmlInit)
    caller.seconds = seconds
    try:
        return Reader(nvml, caller).machine(basis)
    finally:
        with contextlib.suppress(Exception):
            caller(nvml.nvmlShutdown)


def _load(caller: Caller) -> str | None:
    """Make the library loadable; None on success, else the loader's message."""
    import ctypes

    try:
        caller(ctypes.CDLL, _NAME)
        return None
    except OSError as error:
        words = str(error)
    for folder in _FOLDERS:
        path = os.path.join(folder, _NAME)
        if os.path.exists(path):
            try:
                caller(ctypes.CDLL, path)
                return None
            except OSError as error:
                words = str(error)
    return words


def _library(root: Path) -> str | None:
    """The release in the file name of the loaded library."""
    try:
        with open(root / "proc/self/maps") as file:
            found = re.search(r"libnvidia-ml\.so\.(\d{3,}\.[\d.]+)", file.read())
    except OSError:
        return None
    return found[1].rstrip(".") if found else None


def _host_pids(root: Path) -> bool:
    """Whether this process sees the same pids as the driver, which ignores pid namespaces."""
    try:
        return os.readlink(root / "proc/self/ns/pid") == _INITIAL_PIDS
    except OSError:
        return False


def _missing(basis: Machine, root: Path, signs: frozenset[str], words: str, env: Mapping[str, str]) -> Machine:
    if "No such file" not in words and "cannot open shared object" not in words:
        fix = "reinstall the driver's libraries"
        return _with(basis, trouble=Trouble(f"the NVML library cannot be loaded: {words}", fix))
    if "nvidia" in signs:
        return _with(basis, trouble=_no_library(root, env))
    if (root / "sys/bus/pci/devices").is_dir():
        return _with(basis, none=True, platform="cpu", source="/sys/bus/pci: no GPU")
    return _with(basis, trouble=Trouble(*INIT[12]))


def _no_library(root: Path, env: Mapping[str, str]) -> Trouble:
    """Why a machine with an NVIDIA GPU has no NVML: missing container options, or no driver."""
    given = env.get("NVIDIA_DRIVER_CAPABILITIES", "")
    words = {word.strip() for word in given.split(",")}
    half = bool(given) and not words & {"all", "utility"}
    if half or any((root / folder.lstrip("/") / "libcuda.so.1").exists() for folder in _FOLDERS):
        said = f" (NVIDIA_DRIVER_CAPABILITIES={given})"[:100] if given else ""
        return Trouble(
            f"NVML library not found: the container has only the driver's compute part{said}",
            "start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    if any((root / name).exists() for name in (".dockerenv", "run/.containerenv")) or "KUBERNETES_SERVICE_HOST" in env:
        return Trouble(
            "NVML library not found, although an NVIDIA GPU is here",
            "start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility, or mount libnvidia-ml.so.1",
        )
    return Trouble(
        "NVML library not found, although an NVIDIA GPU is here",
        "install the driver; in a container run with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    )


def _broken(basis: Machine, root: Path, signs: frozenset[str], error: Any, env: Mapping[str, str]) -> Machine:
    number = code(error)
    if number == 28:
        why = Trouble("NVML does not start without a GPU", "run where the server runs")
        troubles = dict.fromkeys(("driver_cuda", "confidential_compute"), why)
        return _with(basis, none=True, source="NVML: no GPU found", troubles=troubles)
    if number == 12:
        return _missing(basis, root, signs, "No such file", env)
    why = of_init(error)
    if number == 9 and (there := [each for each in sysfs.pci(root) if each[0] == "0x10de"]):
        found = f"{why.reason} (a GPU {there[0][0][2:]}:{there[0][1][2:]} is on the bus)"
        why = msgspec.structs.replace(why, reason=found)
    return _with(basis, trouble=why)


def _with(machine: Machine, **changes: Any) -> Machine:
    return msgspec.structs.replace(machine, **changes)
