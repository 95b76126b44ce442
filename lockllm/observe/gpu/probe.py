"""Which accelerators this machine has. lockllm queries a vendor's driver only after a sign of that vendor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lockllm.observe.gpu import nvml, rocm
from lockllm.observe.gpu.cards import Machine, Trouble
from lockllm.observe.gpu.sysfs import signs


def look(
    mode: str = "auto", root: Path = Path("/"), seconds: float = 5.0, env: Mapping[str, str] | None = None
) -> Machine:
    """The GPUs of this machine. `mode` is auto, nvidia, rocm, or none; NVML is loaded only after a sign of NVIDIA.

    `env` is what a container was started with, where that is not our own environment.
    """
    if mode == "none":
        return Machine(platform=None, trouble=Trouble("GPUs were not inspected (--gpu none)", "omit --gpu"))
    found = signs(root)
    if mode == "nvidia" or (mode == "auto" and "nvidia" in found):
        return nvml.look(root, found, seconds, os.environ if env is None else env)
    if mode == "rocm" or (mode == "auto" and "amd" in found):
        return rocm.look(root, found)
    if "intel" in found:
        trouble = Trouble("an Intel GPU is here: this release cannot inspect it", "")
        return Machine(platform="xpu" if (root / "dev/dri").exists() and _torch_xpu(root) else "cpu", trouble=trouble)
    if _darwin(root):
        return Machine(platform="mps", trouble=Trouble("this is a Mac: this release cannot inspect its GPU", ""))
    if not (root / "sys/bus/pci/devices").is_dir():
        trouble = Trouble("neither the PCI bus nor a GPU device is visible here", "run where the server runs")
        return Machine(platform="cpu", trouble=trouble)
    return Machine(platform="cpu", none=True, source="/sys/bus/pci: no GPU")


def _torch_xpu(root: Path) -> bool:
    return (root / "sys/module/xe").exists()


def _darwin(root: Path) -> bool:
    return (root / "System/Library/CoreServices/SystemVersion.plist").exists()
