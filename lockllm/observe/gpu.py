"""The accelerators of this machine: what a driver says of each, and what it could not say."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

_DISPLAY = ("0x0300", "0x0302", "0x1200", "0x0380")
VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_KERNEL = re.compile(r"\d{3,}\.\d+(?:\.\d+)*")


class Trouble(msgspec.Struct, frozen=True):
    """Why something about a GPU could not be seen, and what would help."""

    reason: str
    fix: str = ""
    lacks: bool = False  # the chip has no such thing: it is absent, not unseen


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A MIG device: a part of a card that is a GPU of its own."""

    uuid: str
    profile: str | None
    memory: int | None = None
    sm_count: int | None = None
    instance: tuple[int, int] | None = None  # GPU and compute instance, as process lists and older UUIDs name them


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. What is None was not seen; `trouble` says why, by the last part of the fact's key."""

    index: int
    name: str | None = None
    uuid: str | None = None
    bus: str | None = None
    device: str | None = None  # vendor:device
    capability: str | None = None
    sm_count: int | None = None
    memory: int | None = None
    virtualization: str | None = None
    mig: bool = False
    mig_pending: bool = False
    slices: tuple[Slice, ...] = ()
    partition: str | None = None  # AMD: compute and memory partition where the card is cut up
    pids: tuple[tuple[int, tuple[int, int]], ...] = ()  # processes, each with its GPU and compute instance
    listed: bool = False  # whether the driver told its processes, be they none
    ailments: tuple[str, ...] = ()  # memory errors, pending repairs
    shut: tuple[Trouble, ...] = ()  # why CUDA cannot start on it although the driver shows it
    lost: Trouble | None = None
    trouble: Mapping[str, Trouble] = {}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs that show here. `trouble`: none could be asked; `none`: there are none for sure."""

    platform: str | None  # cuda, rocm, cpu; None: not known
    cards: tuple[Card, ...] = ()
    driver: str | None = None
    driver_source: str = ""
    driver_cuda: str | None = None
    kernel_driver: str | None = None  # of the kernel module, by procfs
    nvml_driver: str | None = None  # of the NVML library, by its file's name
    confidential: bool | None = None
    linked: Mapping[tuple[int, int], bool] = {}  # pairs of indexes -> whether a direct link joins them
    link: str = "nvlink"  # what such a link is called
    source: str = ""
    none: bool = False
    trouble: Trouble | None = None
    troubles: Mapping[str, Trouble] = {}  # driver, driver_cuda, interconnect …
    notes: tuple[str, ...] = ()
    host_pids: bool = False  # the driver's pids are those that this process sees
    rocm_driver: str | None = None
    rocm_release: str | None = None


def look(
    mode: str = "auto", root: Path = Path("/"), seconds: float = 5.0, env: Mapping[str, str] | None = None
) -> Machine:
    """What this machine has. `mode` is auto, nvidia, rocm or none; NVML is loaded after a sign of NVIDIA alone.

    `env` is what a container was started with, where that is not our own environment.
    """
    if mode == "none":
        return Machine(platform=None, trouble=Trouble("GPUs were not looked at (--gpu none)", "leave --gpu out"))
    found = signs(root)
    if mode == "nvidia" or (mode == "auto" and "nvidia" in found):
        from lockllm.observe import nvml

        return nvml.look(root, found, seconds, os.environ if env is None else env)
    if mode == "rocm" or (mode == "auto" and "amd" in found):
        from lockllm.observe import rocm

        return rocm.look(root, found)
    if "intel" in found:
        trouble = Trouble("an Intel GPU is here: this release cannot look at it", "")
        return Machine(platform="xpu" if (root / "dev/dri").exists() and _torch_xpu(root) else "cpu", trouble=trouble)
    if _darwin(root):
        return Machine(platform="mps", trouble=Trouble("this is a Mac: this release cannot look at its GPU", ""))
    if not (root / "sys/bus/pci/devices").is_dir():
        trouble = Trouble("the PCI bus does not show here, nor any GPU device", "run where the server runs")
        return Machine(platform="cpu", trouble=trouble)
    return Machine(platform="cpu", none=True, source="/sys/bus/pci: no GPU")


def signs(root: Path = Path("/")) -> frozenset[str]:
    """Vendors of which a GPU, a device node or a driver shows."""
    found = set()
    if any(
        path.exists() for path in (root / "dev/nvidiactl", root / "dev/nvidia0", root / "proc/driver/nvidia/version")
    ):
        found.add("nvidia")
    if (root / "dev/kfd").exists():
        found.add("amd")
    for vendor, _, _ in pci(root):
        if vendor in VENDORS:
            found.add(VENDORS[vendor])
    return frozenset(found)


def pci(root: Path = Path("/")) -> list[tuple[str, str, str]]:
    """Vendor, device and address of every display or compute controller on the PCI bus."""
    found = []
    folder = root / "sys/bus/pci/devices"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        try:
            if (folder / name / "class").read_text().strip().startswith(_DISPLAY):
                found.append(
                    (
                        (folder / name / "vendor").read_text().strip(),
                        (folder / name / "device").read_text().strip(),
                        name,
                    )
                )
        except (OSError, UnicodeError):
            continue
    return found


def kernel_driver(root: Path = Path("/")) -> str | None:
    """The release of NVIDIA's kernel module, as procfs tells it."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(errors="replace")
    except OSError:
        return None
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    found = _KERNEL.search(line)
    return found[0] if found else None


def cpu(root: Path = Path("/")) -> str | None:
    """The CPU's model and the instruction sets that pick kernels."""
    try:
        with open(root / "proc/cpuinfo", errors="replace") as file:
            text = file.read(1 << 16)
    except OSError:
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    model = fields.get("model name") or fields.get("cpu part") or fields.get("hardware") or os.uname().machine
    held = set(fields.get("flags", fields.get("features", "")).split())
    sets = [name for name in _KERNELS if name in held]
    return f"{' '.join(model.split())} ({' '.join(sets) or 'none'})"


_KERNELS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve",
    "sve2", "sme",
)  # fmt: skip


def _torch_xpu(root: Path) -> bool:
    return (root / "sys/module/xe").exists()


def _darwin(root: Path) -> bool:
    return (root / "System/Library/CoreServices/SystemVersion.plist").exists()
