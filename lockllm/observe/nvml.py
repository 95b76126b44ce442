"""NVIDIA's management library through pynvml: loaded late, every call bounded, every error its own words."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lockllm.facts.gpu_names import split_mig
from lockllm.observe import gpu
from lockllm.observe.bounded import Caller, Hung
from lockllm.observe.gpu import Card, Machine, Slice, Trouble

_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/run/opengl-driver/lib",
)  # fmt: skip
"""Where the library lies on hosts whose loader does not look there."""
_NAME = "libnvidia-ml.so.1"
_HEALTH = "drain the node, then reset the GPU or reboot; see the Xid lines of dmesg"
_OPEN = "give the container the GPU devices, or run lockllm as the user of the server"
_INIT = {
    4: ("NVML: no permission to use the GPU devices", _OPEN),
    9: ("NVML: the driver's kernel module is not loaded", "run `modprobe nvidia`, and see `dkms status`"),
    12: ("NVML library not found", "run with --gpus all, or mount libnvidia-ml.so.1"),
    13: ("NVML: the driver is too old for this binding", "install a newer driver"),
    17: ("NVML: the system blocks the control device", _OPEN),
    18: (
        "NVML: the kernel module and the driver's libraries are of different releases",
        "reboot or reload the kernel module; restart the container",
    ),
    999: (
        "NVML: unknown error; a container that worked before has likely lost its GPU devices",
        "restart the container; on the host use CDI, or cgroupfs as the cgroup driver",
    ),
}
_CALL = {
    3: ("the GPU does not have it", ""),
    4: ("no permission", _OPEN),
    8: ("the GPU lacks power", _HEALTH),
    10: ("the driver did not answer in time", "try again"),
    11: ("the GPU's interrupts fail", _HEALTH),
    13: ("the driver is older than the call", "install a newer driver"),
    14: ("the GPU's InfoROM is corrupted", _HEALTH),
    15: ("the GPU is lost", _HEALTH),
    16: ("the GPU needs a reset", _HEALTH),
    25: ("the driver is older than the call", "install a newer driver"),
    26: ("the driver is older than the call", "install a newer driver"),
}
_LOST = (8, 11, 15, 16)
_AGAIN = (10, 20, 23, 27)
_CORES = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
_CORES_SINCE_8_6 = 128
_VIRTUAL = {0: "none", 1: "passthrough", 2: "vgpu", 3: "vgpu-host", 4: "vgpu-host"}
_MOST_CARDS = 256


def look(root: Path, signs: frozenset[str], seconds: float) -> Machine:
    """What NVML says of this machine."""
    kernel = gpu.kernel_driver(root)
    basis = Machine(platform="cuda", kernel_driver=kernel, driver=kernel, driver_source="/proc/driver/nvidia/version")
    try:
        import pynvml
    except ImportError as error:
        return _with(basis, trouble=Trouble(f"the NVML binding cannot be imported: {error}", "install nvidia-ml-py"))
    if not hasattr(pynvml, "nvmlInitWithFlags") or not hasattr(pynvml, "nvmlDeviceGetCudaComputeCapability"):
        mend = "remove the distribution pynvml, and install nvidia-ml-py"
        return _with(basis, trouble=Trouble("another package stands where the NVML binding should be", mend))
    caller = Caller(seconds)
    try:
        unloaded = _load(pynvml, caller)
        basis = _with(basis, library_driver=_library())
        if unloaded is not None:
            return _missing(basis, root, signs, unloaded)
        return _Reader(pynvml, caller).machine(basis)
    except Hung as hung:
        return _with(basis, trouble=_hang(hung))
    except pynvml.NVMLError as error:
        return _broken(basis, root, signs, error)
    except Exception as error:  # noqa: BLE001 - whatever a binding raises is one more thing that could not be seen
        return _with(basis, trouble=Trouble(f"NVML: {type(error).__name__}: {error}", "update nvidia-ml-py"))
    finally:
        caller.close()


class _Reader:
    """One pass over an initialised NVML."""

    def __init__(self, nvml: Any, caller: Caller) -> None:
        self.nvml = nvml
        self.call = caller

    def machine(self, basis: Machine) -> Machine:
        nvml = self.nvml
        self.call(nvml.nvmlInit)
        try:
            troubles: dict[str, Trouble] = {}
            driver = self.ask(troubles, "driver", nvml.nvmlSystemGetDriverVersion)
            cuda = self.ask(troubles, "driver_cuda", nvml.nvmlSystemGetCudaDriverVersion)
            confidential = self.ask(troubles, "confidential_compute", nvml.nvmlSystemGetConfComputeState)
            if troubles.get("confidential_compute", Trouble("")).reason == _CALL[3][0]:
                del troubles["confidential_compute"]
                confidential = False
            count = min(int(self.call(nvml.nvmlDeviceGetCount)), _MOST_CARDS)
            cards: list[Card] = []
            handles: dict[int, Any] = {}
            notes = []
            for index in range(count):
                card = self.card(index, handles)
                if card is None:
                    notes.append(f"GPU {index} belongs to another container")
                else:
                    cards.append(card)
            return _with(
                basis,
                driver=driver or basis.driver,
                driver_source="NVML" if driver else basis.driver_source,
                driver_cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else None,
                confidential=confidential if isinstance(confidential, bool) else _feature(confidential),
                cards=tuple(cards),
                none=count == 0,
                source="NVML",
                linked=self.links(handles, troubles),
                troubles=troubles,
                notes=tuple(notes),
            )
        finally:
            with contextlib.suppress(Exception):
                self.call(nvml.nvmlShutdown)

    def card(self, index: int, handles: dict[int, Any]) -> Card | None:
        """One GPU, or None where it is not ours."""
        nvml = self.nvml
        try:
            handle = self.again(nvml.nvmlDeviceGetHandleByIndex, index)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NO_PERMISSION:
                return None
            return Card(index=index, lost=_trouble(error))
        handles[index] = handle
        troubles: dict[str, Trouble] = {}
        get = self.ask
        name = get(troubles, "gpu", nvml.nvmlDeviceGetName, handle)
        pci = get(troubles, "gpu_device", nvml.nvmlDeviceGetPciInfo, handle)
        capability = get(troubles, "compute_capability", nvml.nvmlDeviceGetCudaComputeCapability, handle)
        memory = get(troubles, "gpu_memory", nvml.nvmlDeviceGetMemoryInfo, handle)
        cores = get(troubles, "sm_count", nvml.nvmlDeviceGetNumGpuCores, handle)
        virtual = get(troubles, "virtualization", nvml.nvmlDeviceGetVirtualizationMode, handle)
        mode = get(troubles, "mig", nvml.nvmlDeviceGetMigMode, handle)
        if (trouble := troubles.get("mig")) is not None and trouble.reason == _CALL[3][0]:
            del troubles["mig"]
        if troubles.get("virtualization", Trouble("")).reason == _CALL[3][0]:
            del troubles["virtualization"]
            virtual = 0
        sick = next((each for each in troubles.values() if each.reason in {_CALL[code][0] for code in _LOST}), None)
        on = bool(mode and mode[0])
        return Card(
            index=index,
            name=name,
            uuid=get({}, "", nvml.nvmlDeviceGetUUID, handle),
            bus=_decoded(getattr(pci, "busId", None)),
            device=_device(pci),
            capability=f"{capability[0]}.{capability[1]}" if capability else None,
            sm_count=_multiprocessors(cores, capability),
            memory=int(memory.total) if memory is not None else None,
            virtualization=_VIRTUAL.get(virtual) if virtual is not None else None,
            mig=on,
            mig_pending=bool(mode and mode[1]) != on,
            slices=self.slices(handle) if on else (),
            pids=self.pids(handle),
            ailments=self.ailments(handle),
            lost=sick,
            trouble=troubles,
        )

    def slices(self, handle: Any) -> tuple[Slice, ...]:
        """The MIG devices of a card. An empty slot does not end the list."""
        nvml = self.nvml
        most = self.ask({}, "", nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
        found = []
        for slot in range(min(int(most), 64)):
            part = self.ask({}, "", nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)
            if part is None:
                continue
            name = self.ask({}, "", nvml.nvmlDeviceGetName, part) or ""
            memory = self.ask({}, "", nvml.nvmlDeviceGetMemoryInfo, part)
            attributes = self.ask({}, "", nvml.nvmlDeviceGetAttributes, part)
            profile = split_mig(name)[1] or _profile(name) or _built(attributes)
            found.append(
                Slice(
                    uuid=self.ask({}, "", nvml.nvmlDeviceGetUUID, part) or "",
                    profile=profile,
                    memory=int(memory.total) if memory is not None else None,
                    sm_count=int(attributes.multiprocessorCount) if attributes is not None else None,
                )
            )
        return tuple(found)

    def pids(self, handle: Any) -> tuple[int, ...]:
        nvml = self.nvml
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            if (function := getattr(nvml, name, None)) is not None:
                listed = self.ask({}, "", function, handle)
                if listed is not None:
                    return tuple(int(each.pid) for each in listed)
        return ()

    def ailments(self, handle: Any) -> tuple[str, ...]:
        """Memory errors and repairs that wait for a reset."""
        nvml = self.nvml
        found = []
        errors = self.ask({}, "", nvml.nvmlDeviceGetTotalEccErrors, handle, 1, 0)
        if isinstance(errors, int) and errors > 0:
            found.append(f"{errors} uncorrected memory errors since the last reset")
        if self.ask({}, "", nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle) == 1:
            found.append("memory pages wait for retirement")
        remapped = self.ask({}, "", nvml.nvmlDeviceGetRemappedRows, handle)
        if isinstance(remapped, (tuple, list)) and len(remapped) == 4:
            if remapped[2]:
                found.append("memory rows wait for remapping")
            if remapped[3]:
                found.append("a memory row could not be remapped")
        return tuple(found)

    def links(self, handles: dict[int, Any], troubles: dict[str, Trouble]) -> dict[tuple[int, int], bool]:
        """Which pairs of GPUs NVLink joins."""
        nvml = self.nvml
        found: dict[tuple[int, int], bool] = {}
        pairs = [(one, other) for one in handles for other in handles if one < other]
        for one, other in pairs[:512]:
            ends = (handles[one], handles[other], nvml.NVML_P2P_CAPS_INDEX_NVLINK)
            said = self.ask(troubles, "interconnect", nvml.nvmlDeviceGetP2PStatus, *ends)
            if said is None:
                return {}
            found[one, other] = said == 0
        return found

    def ask(self, troubles: dict[str, Trouble], key: str, function: Callable[..., Any], *args: Any) -> Any:
        """The answer, or None with its trouble noted. Hung alone is raised."""
        try:
            return self.again(function, *args)
        except Hung:
            raise
        except self.nvml.NVMLError as error:
            troubles[key] = _trouble(error)
        except UnicodeDecodeError:
            troubles[key] = Trouble("the driver gave a text that is no UTF-8", "update the driver")
        except Exception as error:  # noqa: BLE001 - NVMLLibraryMismatchError is no NVMLError, ctypes has its own
            troubles[key] = Trouble(f"NVML: {type(error).__name__}: {error}", "update nvidia-ml-py")
        return None

    def again(self, function: Callable[..., Any], *args: Any) -> Any:
        """The answer; what is passing is tried twice."""
        try:
            return self.call(function, *args)
        except self.nvml.NVMLError as error:
            if error.value not in _AGAIN:
                raise
            return self.call(function, *args)


def _load(nvml: Any, caller: Caller) -> str | None:
    """Make the library loadable; None where it is, else the loader's words."""
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


def _library() -> str | None:
    """The release in the file name of the loaded library."""
    try:
        with open("/proc/self/maps") as file:
            found = re.search(r"libnvidia-ml\.so\.(\d{3,}\.[\d.]+)", file.read())
    except OSError:
        return None
    return found[1] if found else None


def _missing(basis: Machine, root: Path, signs: frozenset[str], words: str) -> Machine:
    if "No such file" not in words and "cannot open shared object" not in words:
        mend = "reinstall the driver's libraries"
        return _with(basis, trouble=Trouble(f"the NVML library cannot be loaded: {words}", mend))
    if "nvidia" in signs:
        mend = (
            "run with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility, or mount libnvidia-ml.so.1; "
            "on a bare host install the driver"
        )
        return _with(basis, trouble=Trouble("NVML library not found, although an NVIDIA GPU is here", mend))
    if (root / "sys/bus/pci/devices").is_dir():
        return _with(basis, none=True, platform="cpu", source="/sys/bus/pci: no GPU")
    return _with(basis, trouble=Trouble(*_INIT[12]))


def _broken(basis: Machine, root: Path, signs: frozenset[str], error: Any) -> Machine:
    code = int(getattr(error, "value", 999))
    if code == 28:
        return _with(basis, none=True, source="NVML: no GPU found")
    if code == 12:
        return _missing(basis, root, signs, "No such file")
    reason, mend = _INIT.get(code) or _CALL.get(code) or (f"NVML: error {code}", "see dmesg")
    if code == 9 and (there := [each for each in gpu.pci(root) if each[0] == "0x10de"]):
        reason += f" (a GPU {there[0][0][2:]}:{there[0][1][2:]} is on the bus)"
    return _with(basis, trouble=Trouble(reason, mend))


def _trouble(error: Any) -> Trouble:
    code = int(getattr(error, "value", 999))
    reason, mend = _CALL.get(code, (f"NVML: error {code}", "see dmesg"))
    return Trouble(reason, mend)


def _hang(hung: Hung) -> Trouble:
    return Trouble(f"NVML hangs: {hung}", "see the Xid lines of dmesg; reset the GPU or reboot")


def _multiprocessors(cores: Any, capability: Any) -> int | None:
    if not isinstance(cores, int) or cores <= 0 or not capability:
        return None
    major, minor = int(capability[0]), int(capability[1])
    each = _CORES.get((major, minor), _CORES_SINCE_8_6 if (major, minor) >= (8, 6) else 0)
    return cores // each if each and cores % each == 0 else None


def _device(pci: Any) -> str | None:
    packed = getattr(pci, "pciDeviceId", None)
    return f"{packed & 0xFFFF:04x}:{packed >> 16:04x}" if isinstance(packed, int) and packed else None


def _profile(name: str) -> str | None:
    found = re.search(r"\b\d+g\.\d+gb(?:\+[\w.]+)?", name, re.IGNORECASE)
    return found[0].lower() if found else None


def _built(attributes: Any) -> str | None:
    """A MIG profile from the numbers of its slice."""
    slices, megabytes = getattr(attributes, "gpuInstanceSliceCount", 0), getattr(attributes, "memorySizeMB", 0)
    return f"{slices}g.{round(megabytes / 1024)}gb" if slices and megabytes else None


def _feature(state: Any) -> bool | None:
    feature = getattr(state, "ccFeature", None)
    return bool(feature) if isinstance(feature, int) else None


def _decoded(raw: Any) -> str | None:
    return raw.decode("ascii", "replace") if isinstance(raw, bytes) else raw


def _with(machine: Machine, **changes: Any) -> Machine:
    import msgspec

    return msgspec.structs.replace(machine, **changes)
