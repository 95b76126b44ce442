"""Machines for the fake NVML library: how it is built, what a machine says, and a host whose files can be changed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockllm.observe.gpu import probe
from lockllm.observe.gpu.cards import Machine

SOURCE = Path(__file__).with_name("fake_nvml.c")
DRIVER_SOURCE = Path(__file__).with_name("fake_cuda.c")
SONAME = "libnvidia-ml.so.1"
NEWER_THAN_470 = (
    "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlSystemGetConfComputeState", "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetGpuFabricInfoV",
)  # fmt: skip
"""What a driver of that age does not export."""


def build(folder: Path, hidden: Sequence[str] = (), name: str = SONAME) -> Path:
    """The fake library, without some of its symbols. It needs a compiler: without one these tests fail."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}"]
    if hidden:
        script = folder / "hidden.map"
        script.write_text("{ local: " + "; ".join(hidden) + "; };\n")
        flags.append(f"-Wl,--version-script={script}")
    subprocess.run(["cc", *flags, "-o", path, SOURCE], check=True)
    return path


H100 = {
    "driver": "550.90.07", "cuda": "12040", "nvml": "12.550.90.07", "count": "2", "cc": "0", "nvlink": "all",
    "gpu.*.name": "NVIDIA H100 80GB HBM3", "gpu.0.uuid": "GPU-aaaa1111", "gpu.1.uuid": "GPU-bbbb2222",
    "gpu.*.ids": "233010DE", "gpu.*.capability": "9 0", "gpu.*.cores": "16896", "gpu.*.memory_mib": "81559",
    "gpu.*.virtualization": "0", "gpu.*.mig_mode": "0 0", "gpu.*.ecc_errors": "0",
}  # fmt: skip
ONE = {**H100, "count": "1"}
A100 = {
    "gpu.*.name": "NVIDIA A100-SXM4-80GB", "gpu.*.ids": "20B210DE", "gpu.*.capability": "8 0", "gpu.*.cores": "6912",
    "gpu.*.memory_mib": "81920",
}  # fmt: skip
EIGHT = {**H100, **A100, "count": "8"}
SLICED = {
    "gpu.0.mig_mode": "1 1", "gpu.0.max_mig": "7",
    "gpu.0.mig.0.uuid": "MIG-1", "gpu.0.mig.0.name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "gpu.0.mig.0.sms": "60",
    "gpu.0.mig.0.memory_mib": "40448", "gpu.0.mig.0.gpu_instance": "1", "gpu.0.mig.0.compute_instance": "0",
    "gpu.0.mig.2.uuid": "MIG-2", "gpu.0.mig.2.name": "NVIDIA H100 80GB HBM3 MIG 4g.40gb", "gpu.0.mig.2.sms": "64",
    "gpu.0.mig.2.memory_mib": "40448", "gpu.0.mig.2.gpu_instance": "2", "gpu.0.mig.2.compute_instance": "0",
}  # fmt: skip
MIG = {**ONE, **SLICED}
MIXED = {
    **H100, "gpu.0.name": "Tesla T4", "gpu.0.ids": "1EB810DE", "gpu.0.capability": "7 5", "gpu.0.cores": "2560",
    "gpu.0.memory_mib": "15360", "gpu.1.name": "NVIDIA A100-SXM4-40GB", "gpu.1.ids": "20B010DE", "gpu.1.capability": "8 0",
    "gpu.1.cores": "6912", "gpu.1.memory_mib": "40960",
}  # fmt: skip


class Host:
    """A machine that can be changed between two looks: its files, and what its NVML says."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.file = folder / "machine"
        (self.root / "proc/driver/nvidia").mkdir(parents=True)
        (self.root / "sys/bus/pci/devices").mkdir(parents=True)
        self.kernel("550.90.07")

    def kernel(self, version: str) -> None:
        """The release of the kernel module; empty: procfs does not show it."""
        line = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue May 28 00:00:00 UTC 2024\n"
        self.write("proc/driver/nvidia/version", line if version else "")

    def write(self, name: str, text: str = "") -> None:
        """A file of this machine."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def say(self, machine: Mapping[str, str]) -> None:
        """What NVML says from its next initialisation on."""
        self.file.write_text(text(machine))

    def look(self, machine: Mapping[str, str], seconds: float = 5.0, env: Mapping[str, str] | None = None) -> Machine:
        """What is seen of this machine."""
        self.say(machine)
        return probe.look("auto", self.root, seconds, {} if env is None else env)


def text(machine: Mapping[str, str]) -> str:
    """A machine as the fake reads it."""
    return "".join(f"{key} = {value}\n" for key, value in machine.items())
