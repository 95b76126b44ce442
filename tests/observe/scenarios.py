"""Machines as people meet them, and what is to be seen of each: every pair of them is verified against each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.observe.machines import A100, H100, MIXED, SLICED

ALIKE = {
    "H100 80GB HBM3": "NVIDIA H100 80GB HBM3",
    "A100-SXM4-40GB": "NVIDIA A100-SXM4-40GB",
}
"""Names that older drivers gave to the same cards."""
EVERY = {**H100, "count": "8"}
TOLD: dict[str, Any] = {
    "platform": "cuda", "driver": "550.90.07", "driver_cuda": "12.4", "gpu": "NVIDIA H100 80GB HBM3",
    "gpu_product": "NVIDIA H100 80GB HBM3", "gpu_device": "10de:2330", "gpu_count": 8, "compute_capability": "9.0",
    "sm_count": 132, "gpu_memory": "80 GiB", "mig": None, "interconnect": "nvlink", "confidential_compute": False,
    "virtualization": "none",
}  # fmt: skip
"""What is seen of eight H100s."""
ONE_GPU = {"gpu_count": 1, "interconnect": None}
OF_CARDS = ("gpu", "gpu_product", "gpu_device", "compute_capability", "sm_count", "gpu_memory", "virtualization", "mig")


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One machine. `tells` is what differs from TOLD; `gaps` are facts that cannot be seen, `host` all that are not told."""

    machine: Mapping[str, str] = {}
    tells: Mapping[str, Any] = {}
    gaps: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    kernel: str = ""
    old: bool = False
    hangs: str = ""

    @property
    def told(self) -> dict[str, Any]:
        """Everything that is seen of it."""
        if "host" in self.gaps:
            kept = {"platform": "cuda", "driver": "550.90.07"}
            return {**kept, **self.tells}
        return {key: value for key, value in {**TOLD, **self.tells}.items() if key not in self.gaps}

    def gap(self, key: str) -> str:
        """Why a fact is not seen."""
        return self.gaps.get(key) or self.gaps["host"]


class Twofold(msgspec.Struct, frozen=True):
    """A fact of which the host itself says two things."""

    kernel: str
    library: str


def _named(name: str, device: str, ids: str, capability: str, cores: int, mib: int, gib: int, sms: int) -> Scenario:
    machine = {
        "gpu.*.name": name, "gpu.*.ids": ids, "gpu.*.capability": capability.replace(".", " "), "gpu.*.cores": str(cores),
        "gpu.*.memory_mib": str(mib), "nvlink": "none",
    }  # fmt: skip
    tells = {
        "gpu": name, "gpu_product": name, "gpu_device": device, "compute_capability": capability, "sm_count": sms,
        "gpu_memory": f"{gib} GiB", "interconnect": "pcie",
    }  # fmt: skip
    return Scenario(machine={**EVERY, **machine}, tells=tells)


def _nothing(machine: Mapping[str, str]) -> Scenario:
    gone = dict.fromkeys((*OF_CARDS, "interconnect"), None)
    return Scenario(machine={**H100, **machine}, tells={**gone, "gpu_count": 0})


def _broken(reason: str, machine: Mapping[str, str], **more: Any) -> Scenario:
    return Scenario(machine={**EVERY, **machine}, gaps={"host": reason}, **more)


_A100_40 = {
    "gpu": "NVIDIA A100-SXM4-40GB", "gpu_product": "NVIDIA A100-SXM4-40GB", "gpu_device": "10de:20b0", "sm_count": 108,
    "compute_capability": "8.0", "gpu_memory": "40 GiB",
}  # fmt: skip
_SAYS_A100_40 = {**A100, "gpu.*.name": "NVIDIA A100-SXM4-40GB", "gpu.*.ids": "20B010DE", "gpu.*.memory_mib": "40960"}
_FASTEST = "CUDA_VISIBLE_DEVICES=0 counts GPUs fastest first, and the GPUs of this host differ"
_H200 = _named("NVIDIA H200", "10de:2335", "233510DE", "9.0", 16896, 143771, 140, 132)
_OLDER = "the driver is older than the call"

SCENARIOS: dict[str, Scenario] = {
    "eight H100": Scenario(machine=EVERY),
    "two H100": Scenario(machine=H100, tells={"gpu_count": 2}),
    "one H100": Scenario(machine={**H100, "count": "1"}, tells=ONE_GPU),
    "one of eight by its index": Scenario(machine=EVERY, env={"CUDA_VISIBLE_DEVICES": "3"}, tells=ONE_GPU),
    "one of two by its UUID": Scenario(machine=H100, env={"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}, tells=ONE_GPU),
    "a newer driver": Scenario(
        machine={**EVERY, "driver": "570.124.06", "cuda": "12080"}, tells={"driver": "570.124.06", "driver_cuda": "12.8"}
    ),
    "the same branch, another build": Scenario(machine={**EVERY, "driver": "550.90.12"}, tells={"driver": "550.90.12"}),
    "named by an older driver": Scenario(
        machine={**EVERY, "gpu.*.name": "H100 80GB HBM3"}, tells={"gpu": "H100 80GB HBM3", "gpu_product": "H100 80GB HBM3"}
    ),
    "another subsystem": Scenario(machine={**EVERY, "gpu.*.subsystem": "16C110DE"}),
    "H100 PCIe": _named("NVIDIA H100 PCIe", "10de:2331", "233110DE", "9.0", 14592, 81559, 80, 114),
    "H100 NVL": _named("NVIDIA H100 NVL", "10de:2321", "232110DE", "9.0", 16896, 95830, 94, 132),
    "H200": _H200,
    "L40S": _named("NVIDIA L40S", "10de:26b9", "26B910DE", "8.9", 18176, 46068, 45, 142),
    "L4": _named("NVIDIA L4", "10de:27b8", "27B810DE", "8.9", 7424, 23034, 22, 58),
    "T4": _named("Tesla T4", "10de:1eb8", "1EB810DE", "7.5", 2560, 15360, 15, 40),
    "RTX 4090": _named("NVIDIA GeForce RTX 4090", "10de:2684", "268410DE", "8.9", 16384, 24564, 24, 128),
    "A100 80GB": Scenario(
        machine={**EVERY, **A100},
        tells={"gpu": "NVIDIA A100-SXM4-80GB", "gpu_product": "NVIDIA A100-SXM4-80GB", "gpu_device": "10de:20b2",
               "compute_capability": "8.0", "sm_count": 108},
    ),
    "A100 40GB": Scenario(machine={**EVERY, **_SAYS_A100_40}, tells=_A100_40),
    "A100 40GB, named by an older driver": Scenario(
        machine={**EVERY, **_SAYS_A100_40, "gpu.*.name": "A100-SXM4-40GB"},
        tells={**_A100_40, "gpu": "A100-SXM4-40GB", "gpu_product": "A100-SXM4-40GB"},
    ),
    "NVLink between pairs": Scenario(machine={**EVERY, "nvlink": "pairs"}, tells={"interconnect": "nvlink-partial"}),
    "no NVLink": Scenario(machine={**EVERY, "nvlink": "none"}, tells={"interconnect": "pcie"}),
    "mixed": Scenario(
        machine=MIXED,
        tells={
            "gpu": ("Tesla T4", "NVIDIA A100-SXM4-40GB"), "gpu_product": "1x NVIDIA A100-SXM4-40GB, 1x Tesla T4",
            "gpu_device": "1x 10de:1eb8, 1x 10de:20b0", "compute_capability": "7.5, 8.0", "sm_count": 40,
            "gpu_memory": "15 GiB", "gpu_count": 2,
        },
    ),
    "mixed, one by its index": Scenario(
        machine=MIXED, env={"CUDA_VISIBLE_DEVICES": "0"}, tells=ONE_GPU, gaps=dict.fromkeys(OF_CARDS, _FASTEST)
    ),
    "mixed, one by its place on the bus": Scenario(
        machine=MIXED, env={"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, tells={**_A100_40, **ONE_GPU}
    ),
    "a slice, by its UUID": Scenario(
        machine={**H100, **SLICED, "count": "1"}, env={"CUDA_VISIBLE_DEVICES": "MIG-2"},
        tells={**ONE_GPU, "mig": "4g.40gb", "sm_count": 64, "gpu_memory": "40 GiB"},
    ),
    "a slice, as older drivers name it": Scenario(
        machine={**H100, **SLICED, "count": "1"}, env={"CUDA_VISIBLE_DEVICES": "MIG-GPU-aaaa1111/1/0"},
        tells={**ONE_GPU, "mig": "3g.40gb", "sm_count": 60, "gpu_memory": "40 GiB"},
    ),
    "two unlike slices, none named": Scenario(
        machine={**H100, **SLICED, "count": "1"}, tells=ONE_GPU,
        gaps=dict.fromkeys(OF_CARDS, "a CUDA process uses one MIG device, but the visible ones differ"),
    ),
    "MIG mode without a slice": Scenario(
        machine={**H100, "count": "1", "gpu.0.mig_mode": "1 1", "gpu.0.max_mig": "7"},
        tells={"gpu_count": 0, "interconnect": None},
        gaps=dict.fromkeys(OF_CARDS, "MIG mode is on, but no MIG device exists"),
    ),
    "MIG mode after the next reset": Scenario(machine={**EVERY, "gpu.*.mig_mode": "0 1"}),
    "one of eight lost": Scenario(machine={**EVERY, "gpu.5.error.*": "15"}, tells={"gpu_count": 7}),
    "one of eight needs a reset": Scenario(
        machine={**EVERY, "gpu.5.error.nvmlDeviceGetMemoryInfo": "16"}, tells={"gpu_count": 7}
    ),
    "the chosen one lost": Scenario(
        machine={**EVERY, "gpu.5.error.*": "15"}, env={"CUDA_VISIBLE_DEVICES": "5"},
        tells={"gpu_count": 0, "interconnect": None},
        gaps=dict.fromkeys(OF_CARDS, "every GPU that the server would use is lost"),
    ),
    "a container's share": Scenario(
        machine={**EVERY, "count": "4", "gpu.2.error.nvmlDeviceGetHandleByIndex_v2": "4",
                 "gpu.3.error.nvmlDeviceGetHandleByIndex_v2": "4"},
        tells={"gpu_count": 2},
    ),
    "a container that sees no pids of the driver's": Scenario(machine={**EVERY, "gpu.0.pid": "1"}),
    "hidden by its variable": Scenario(
        machine=EVERY, env={"CUDA_VISIBLE_DEVICES": ""}, tells={"gpu_count": 0, "interconnect": None},
        gaps=dict.fromkeys(OF_CARDS, "the server sees no GPU"),
    ),
    "vGPU guest": Scenario(
        machine={**H100, "count": "1", "gpu.*.name": "GRID V100DX-16Q", "gpu.*.ids": "1DB610DE", "gpu.*.capability": "7 0",
                 "gpu.*.cores": "5120", "gpu.*.memory_mib": "16384", "gpu.*.virtualization": "2"},
        tells={**ONE_GPU, "gpu": "GRID V100DX-16Q", "gpu_product": "GRID V100DX-16Q", "gpu_device": "10de:1db6",
               "compute_capability": "7.0", "sm_count": 80, "gpu_memory": "16 GiB", "virtualization": "vgpu"},
    ),
    "passed through": Scenario(machine={**EVERY, "gpu.*.virtualization": "1"}, tells={"virtualization": "passthrough"}),
    "confidential": Scenario(machine={**EVERY, "cc": "1"}, tells={"confidential_compute": True}),
    "GB10, whose memory is the host's": Scenario(
        machine={**H100, "count": "1", "gpu.*.name": "NVIDIA GB10", "gpu.*.ids": "2E1210DE", "gpu.*.capability": "12 1",
                 "gpu.*.cores": "6144", "gpu.*.error.nvmlDeviceGetMemoryInfo": "3"},
        tells={**ONE_GPU, "gpu": "NVIDIA GB10", "gpu_product": "NVIDIA GB10", "gpu_device": "10de:2e12",
               "compute_capability": "12.1", "sm_count": 48, "gpu_memory": None},
    ),
    "a name of 95 bytes": Scenario(
        machine={**EVERY, "gpu.*.name": "NVIDIA " + "X" * 88},
        tells={"gpu": "NVIDIA " + "X" * 88, "gpu_product": "NVIDIA " + "X" * 88},
    ),
    "a name that is no text": Scenario(
        machine={**EVERY, "gpu.*.name": "H100 \\xff\\xfe"},
        gaps=dict.fromkeys(("gpu", "gpu_product"), "the driver returned text that is not UTF-8"),
    ),
    "a corrupted InfoROM": Scenario(
        machine={**EVERY, "gpu.*.error.nvmlDeviceGetTotalEccErrors": "14", "gpu.*.error.nvmlDeviceGetRemappedRows": "14"}
    ),
    "links that nobody may ask for": Scenario(
        machine={**EVERY, "error.nvmlDeviceGetP2PStatus": "4"}, gaps={"interconnect": "no permission"}
    ),
    "a list that grew while it was read": Scenario(
        machine={**EVERY, "passing.nvmlDeviceGetComputeRunningProcesses_v3": "7 3"}
    ),
    "a driver that is busy twice": Scenario(machine={**EVERY, "passing.nvmlDeviceGetName": "23 2"}),
    "a driver of the 470 branch": Scenario(
        machine={**EVERY, "driver": "470.82.01", "cuda": "11040"}, old=True,
        tells={"driver": "470.82.01", "driver_cuda": "11.4"},
        gaps=dict.fromkeys(("sm_count", "confidential_compute"), _OLDER),
    ),
    "a driver without a GPU": msgspec.structs.replace(
        _nothing({"error.nvmlInitWithFlags": "28"}),
        gaps=dict.fromkeys(("driver_cuda", "confidential_compute"), "NVML does not start without a GPU"),
    ),
    "a count of none": _nothing({"count": "0"}),
    "no permission": _broken("NVML: no permission to use the GPU devices", {"error.nvmlInitWithFlags": "4"}),
    "no kernel module": _broken("NVML: the driver's kernel module is not loaded", {"error.nvmlInitWithFlags": "9"}),
    "no kernel module, a GPU on the bus": _broken(
        "NVML: the driver's kernel module is not loaded (a GPU 10de:2330 is on the bus)", {"error.nvmlInitWithFlags": "9"},
        files={f"sys/bus/pci/devices/0000:1b:00.0/{name}": text for name, text in
               (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200"))},
    ),
    "no library": _broken("NVML library not found, although an NVIDIA GPU is here", {"error.nvmlInitWithFlags": "12"}),
    "compute capability alone": _broken(
        "NVML library not found: the container has only the driver's compute part", {"error.nvmlInitWithFlags": "12"},
        files={"usr/lib/x86_64-linux-gnu/libcuda.so.1": ""},
    ),
    "a control device that is blocked": _broken(
        "NVML: the system blocks the control device", {"error.nvmlInitWithFlags": "17"}
    ),
    "a library that is newer than the module": _broken(
        "NVML: the kernel module and the driver's libraries are of different releases", {"error.nvmlInitWithFlags": "18"},
        files={"proc/self/maps": "7f00-7f01 r--p 0 08:01 1 /usr/lib/libnvidia-ml.so.570.124.06\n"},
        tells={"driver": Twofold("550.90.07", "570.124.06")},
    ),
    "devices lost by the container": _broken(
        "NVML: unknown error; a container that worked before has likely lost its GPU devices",
        {"error.nvmlInitWithFlags": "999"},
    ),
    "a driver too old for the binding": _broken(
        "NVML: the driver is too old for this binding", {"error.nvmlInitWithFlags": "13"}
    ),
    "a count that fails": _broken("the GPU's interrupts fail", {"error.nvmlDeviceGetCount_v2": "11"}),
    "a driver that hangs": _broken("NVML hangs: nvmlInit did not answer within 0.2 s", {}, hangs="nvmlInitWithFlags"),
    "a driver that hangs later": _broken(
        "NVML hangs: nvmlDeviceGetPciInfo did not answer within 0.05 s", {}, hangs="nvmlDeviceGetPciInfo_v3"
    ),
}  # fmt: skip
