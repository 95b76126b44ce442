"""Whether driver, CUDA runtime, and GPUs fit together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from lockllm.facts.observation import Check, CheckStatus
from lockllm.observe.gpu.cards import Machine, Trouble
from lockllm.observe.gpu.visible import VisibleGpu

FLOORS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""Least driver of each CUDA major: minor-version compatibility (CUDA 13.2 release notes, table 2)."""
TOOLKITS = {
    "11.1": "455.23.05",
    "11.2": "460.27.03",
    "11.3": "465.19.01",
    "11.4": "470.42.01",
    "11.5": "495.29.05",
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}
"""The driver that each CUDA toolkit was first released with: all of its features work from there on (table 3)."""


class DriverLibrary(msgspec.Struct, frozen=True):
    """The libcuda that a server maps, or would load."""

    version: str
    path: str
    compat: bool  # from a cuda-compat package, in front of the driver's own


def supports(machine: Machine, runtime: str | None, library: DriverLibrary | None) -> Check | None:
    """Whether the driver is new enough for the CUDA runtime, alone or with the compat library in front of it."""
    name = "check.driver_supports_cuda"
    if runtime is None or machine.platform != "cuda" or machine.driver is None:
        return None
    wanted, driver = numbers(runtime), numbers(machine.driver)
    told, source = f"driver {machine.driver} and CUDA runtime {runtime}", machine.driver_source
    own = numbers(machine.driver_cuda) if machine.driver_cuda is not None else _cuda_of(driver)
    if own and own >= wanted[:2]:
        return Check(name, CheckStatus.PASS, told, source)
    if library is not None and library.compat and numbers(library.version) > driver:
        return _forward(name, machine, told, wanted, library)
    floor = FLOORS.get(wanted[0]) if wanted else None
    if floor is None:
        return Check(
            name, CheckStatus.UNKNOWN, f"{told}: the oldest driver that supports this CUDA is not known", source
        )
    if driver >= numbers(floor):
        full = TOOLKITS.get(".".join(map(str, wanted[:2])))
        rest = f"; all features of CUDA {runtime} need {full}" if full and numbers(full) > driver else ""
        return Check(name, CheckStatus.PASS, f"{told}, by minor-version compatibility{rest}", source)
    fix = f"install driver {floor} or newer, or an engine built for an older CUDA"
    return Check(name, CheckStatus.FAIL, f"{told} needs driver {floor} or newer", source, fix)


def one_driver(machine: Machine, library: DriverLibrary | None) -> Check | None:
    """Whether kernel module, NVML library, and libcuda have one release, or libcuda is a newer compat library."""
    name, kernel = "check.driver_witnesses_agree", machine.kernel_driver
    if kernel is None or machine.platform != "cuda":
        return None
    parts = [f"kernel module {kernel}"]
    odd = False
    if machine.nvml_driver is not None:
        parts.append(f"NVML library {machine.nvml_driver}")
        odd = machine.nvml_driver != kernel
    if library is not None:
        newer = library.compat and numbers(library.version) > numbers(kernel)
        parts.append(f"{'compat ' if library.compat else ''}libcuda {library.version} ({library.path})")
        odd = odd or (library.version != kernel and not newer)
    if len(parts) == 1:
        return None
    fix = ""
    if odd:
        fix = "reboot or reload the kernel module; restart the container"
        if library is not None and library.compat:
            fix = "remove the compat folder from the search path: it is older than the driver"
    status = CheckStatus.FAIL if odd else CheckStatus.PASS
    return Check(name, status, ", ".join(parts), "/proc/driver/nvidia/version", fix)


def usable(
    machine: Machine, gpus: Sequence[VisibleGpu], found: Sequence[Trouble], tried: str = "", unknown: str = ""
) -> Check | None:
    """Whether CUDA starts where NVML shows GPUs. `tried`: it did; `unknown`: why no trial was possible."""
    name = "check.cuda_usable"
    if machine.platform != "cuda" or machine.trouble is not None or not gpus:
        return None
    wrong = [*found]
    for gpu in gpus:
        wrong += [Trouble(f"GPU {gpu.card.index}: {each.reason}", each.fix) for each in gpu.card.shut]
    if wrong:
        detail = "NVML shows the GPUs, but " + "; ".join(each.reason for each in wrong)
        return Check(name, CheckStatus.FAIL, detail, machine.source, wrong[0].fix)
    if unknown:
        return Check(name, CheckStatus.UNKNOWN, unknown, machine.source, "run lockllm where the server runs")
    return Check(name, CheckStatus.PASS, tried, machine.source) if tried else None


def has_devices(root: Path) -> bool:
    """Whether the driver's device nodes exist: a fake or remote driver has none."""
    return (root / "dev/nvidiactl").exists()


def shut(root: Path) -> list[Trouble]:
    """What the device nodes reveal that prevents CUDA from starting."""
    if not has_devices(root) or (root / "dev/nvidia-uvm").exists():
        return []
    fix = "give the container /dev/nvidia-uvm; on the host run `nvidia-modprobe -u -c 0`"
    return [Trouble("/dev/nvidia-uvm is missing", fix)]


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, up to the first part that is not a number."""
    found: list[int] = []
    for part in version.split("."):
        if not part.isdigit() or len(part) > 9:
            break
        found.append(int(part))
    return tuple(found)


def _forward(name: str, machine: Machine, told: str, wanted: tuple[int, ...], library: DriverLibrary) -> Check:
    """Forward compatibility: a newer libcuda with an older driver, only on data-center GPUs."""
    told = f"{told}, with the compat library {library.version}"
    source = library.path
    if any("geforce" in (card.name or "").lower() for card in machine.cards):
        fix = "install a newer driver: the compat library works on data-center GPUs alone (CUDA error 804)"
        return Check(name, CheckStatus.FAIL, f"{told}, which this GPU does not support", source, fix)
    floor = FLOORS.get(wanted[0])
    if floor is not None and numbers(library.version) < numbers(floor):
        fix = f"install driver {floor} or newer, or a newer cuda-compat"
        return Check(name, CheckStatus.FAIL, f"{told}, needs {floor} or newer", source, fix)
    return Check(name, CheckStatus.PASS, told, source)


def _cuda_of(driver: tuple[int, ...]) -> tuple[int, ...]:
    """The newest CUDA that a driver was released with or after."""
    fits = [numbers(toolkit) for toolkit, first in TOOLKITS.items() if numbers(first) <= driver]
    return max(fits, default=())
