"""One pass over an initialized NVML: the driver, every GPU, its slices, its processes and its links."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from lockllm.facts.gpu_names import split_mig
from lockllm.observe.gpu.cards import Card, Machine, Slice, Trouble
from lockllm.observe.gpu.nvml_errors import CALL, LOST, PASSING, code, trouble
from lockllm.observe.safe.timed import Caller, Hung

_CORES = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
_CORES_SINCE_8_6 = 128
_VIRTUAL = {0: "none", 1: "passthrough", 2: "vgpu", 3: "vgpu-host", 4: "vgpu-host"}
_PROHIBITED = 2
_FABRIC_DONE = (0, 3)  # not supported, completed
_MOST_CARDS = 256
_MOST_PAIRS = 2048
_TRIES = 3
_SICK = frozenset(CALL[number][0] for number in LOST)


class Reader:
    """Queries NVML; `call` bounds every call, and each failure concerns only its own value."""

    def __init__(self, nvml: Any, call: Caller) -> None:
        self.nvml = nvml
        self.call = call

    def machine(self, basis: Machine) -> Machine:
        """The machine with everything that NVML reports."""
        nvml = self.nvml
        troubles: dict[str, Trouble] = {}
        driver = self.ask(troubles, "driver", nvml.nvmlSystemGetDriverVersion)
        cuda = self.ask(troubles, "driver_cuda", nvml.nvmlSystemGetCudaDriverVersion)
        confidential = self.ask(troubles, "confidential_compute", nvml.nvmlSystemGetConfComputeState)
        count = min(int(self.again(nvml.nvmlDeviceGetCount)), _MOST_CARDS)
        cards: list[Card] = []
        handles: dict[int, Any] = {}
        notes = []
        for index in range(count):
            card = self.card(index, handles)
            if card is None:
                notes.append(f"GPU {index} belongs to another container")
            else:
                cards.append(card)
        return msgspec.structs.replace(
            basis,
            driver=driver or basis.driver,
            driver_source="NVML" if driver else basis.driver_source,
            driver_cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else None,
            confidential=_feature(confidential, troubles.pop("confidential_compute", None), troubles),
            cards=tuple(cards),
            none=count == 0,
            source="NVML",
            linked=self.links({card.index: handles[card.index] for card in cards if card.lost is None}, troubles),
            troubles=troubles,
            notes=tuple(notes),
        )

    def card(self, index: int, handles: dict[int, Any]) -> Card | None:
        """One GPU, or None where this container may not use it."""
        nvml = self.nvml
        try:
            handle = self.again(nvml.nvmlDeviceGetHandleByIndex, index)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NO_PERMISSION:
                return None
            return Card(index=index, lost=trouble(error))
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
        virtual = 0 if _lacking(troubles, "virtualization") else virtual
        _lacking(troubles, "mig")
        on = bool(mode and mode[0])
        pids = self.pids(handle)
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
            pids=pids or (),
            lists_processes=pids is not None,
            ailments=self.ailments(handle),
            shut=self.shut(handle),
            lost=next((each for each in troubles.values() if each.reason in _SICK), None),
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
            instance = [
                self.ask({}, "", function, part)
                for function in (nvml.nvmlDeviceGetGpuInstanceId, nvml.nvmlDeviceGetComputeInstanceId)
            ]
            found.append(
                Slice(
                    uuid=self.ask({}, "", nvml.nvmlDeviceGetUUID, part) or "",
                    profile=split_mig(name)[1] or _profile(name) or _built(attributes),
                    memory=int(memory.total) if memory is not None else None,
                    sm_count=int(attributes.multiprocessorCount) if attributes is not None else None,
                    instance=(instance[0], instance[1]) if all(isinstance(part, int) for part in instance) else None,
                )
            )
        return tuple(found)

    def pids(self, handle: Any) -> tuple[tuple[int, tuple[int, int]], ...] | None:
        """The processes that compute on a card, as the driver lists them; None where it does not."""
        nvml = self.nvml
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            if (function := getattr(nvml, name, None)) is not None:
                listed = self.ask({}, "", function, handle)
                if listed is not None:
                    return tuple((int(each.pid), _instance(each)) for each in listed)
        return None

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

    def shut(self, handle: Any) -> tuple[Trouble, ...]:
        """Why CUDA would not start on a card that NVML shows."""
        nvml = self.nvml
        found = []
        if self.ask({}, "", nvml.nvmlDeviceGetComputeMode, handle) == _PROHIBITED:
            found.append(Trouble("its compute mode is prohibited", "run `nvidia-smi --compute-mode 0`"))
        fabric = self.ask({}, "", self.fabric, handle)
        if isinstance(fabric, int) and fabric not in _FABRIC_DONE:
            fix = "start the fabric manager (CUDA fails with error 802 until then)"
            found.append(Trouble("it has not joined the NVLink fabric", fix))
        return tuple(found)

    def fabric(self, handle: Any) -> int:
        """The state of a card's fabric registration."""
        nvml = self.nvml
        kind = getattr(nvml, "c_nvmlGpuFabricInfo_v2_t", None) or nvml.c_nvmlGpuFabricInfoV_t
        info = kind()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(info))
        return int(info.state) & 0xFF

    def links(self, handles: dict[int, Any], troubles: dict[str, Trouble]) -> dict[tuple[int, int], bool]:
        """Which pairs of GPUs NVLink joins; a pair that cannot be asked is left out."""
        nvml = self.nvml
        found: dict[tuple[int, int], bool] = {}
        pairs = [(one, other) for one in handles for other in handles if one < other]
        for one, other in pairs[:_MOST_PAIRS]:
            ends = (handles[one], handles[other], nvml.NVML_P2P_CAPS_INDEX_NVLINK)
            said = self.ask(troubles, "interconnect", nvml.nvmlDeviceGetP2PStatus, *ends)
            if said is not None:
                found[one, other] = said == 0
        return found

    def ask(self, troubles: dict[str, Trouble], key: str, function: Callable[..., Any], *args: Any) -> Any:
        """The answer, or None with the reason recorded. Raises only Hung."""
        try:
            return self.again(function, *args)
        except Hung:
            raise
        except self.nvml.NVMLError as error:
            troubles[key] = trouble(error)
        except UnicodeDecodeError:
            troubles[key] = Trouble("the driver returned text that is not UTF-8", "update the driver")
        except Exception as error:  # noqa: BLE001 - NVMLLibraryMismatchError is no NVMLError, ctypes has its own
            troubles[key] = Trouble(f"NVML: {type(error).__name__}: {error}", "update nvidia-ml-py")
        return None

    def again(self, function: Callable[..., Any], *args: Any) -> Any:
        """The answer; transient errors are retried three times."""
        for _ in range(_TRIES - 1):
            try:
                return self.call(function, *args)
            except self.nvml.NVMLError as error:
                if code(error) not in PASSING:
                    raise
        return self.call(function, *args)


def _lacking(troubles: dict[str, Trouble], key: str) -> bool:
    """Whether the chip lacks the feature, where that is a value and not a failure."""
    lacks = key in troubles and troubles[key].lacks
    if lacks:
        del troubles[key]
    return lacks


def _instance(process: Any) -> tuple[int, int]:
    return int(getattr(process, "gpuInstanceId", -1) or 0), int(getattr(process, "computeInstanceId", -1) or 0)


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


def _feature(state: Any, why: Trouble | None, troubles: dict[str, Trouble]) -> bool | None:
    """Confidential computing: off on a chip that lacks it."""
    if why is not None:
        if why.lacks:
            return False
        troubles["confidential_compute"] = why
        return None
    feature = getattr(state, "ccFeature", None)
    return bool(feature) if isinstance(feature, int) else None


def _decoded(raw: Any) -> str | None:
    return raw.decode("ascii", "replace") if isinstance(raw, bytes) else raw
