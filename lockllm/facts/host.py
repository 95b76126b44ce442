"""Facts of the machine: GPUs that this server uses, driver, platform, CPU."""

from __future__ import annotations

from lockllm.facts.fact import Fact, Family, Group, Kind, Policy
from lockllm.facts.types import ANY, BOOL, COUNT, GPU, MEMORY, TEXT, VERSION

HOST = Group(name="host", about="the machine and the GPUs that this server uses")
_MOVE = "run on a host with the locked GPU"

PLATFORM = Fact(
    ("host", "platform"), TEXT, Kind.NOISE, "another kind of device computes", _MOVE, "cuda, rocm or cpu.", live=False,
)  # fmt: skip
GPU_ = Fact(
    ("host", "gpu"), GPU, Kind.NOISE, "other kernels and batch limits are chosen", _MOVE,
    "The GPU, by its canonical name: product strings that drivers renamed are one GPU.", live=False, part="numerics",
    firm="host.gpu_device",
)  # fmt: skip
GPU_PRODUCT = Fact(
    ("host", "gpu_product"), TEXT, Kind.NOISE, "kernel tables are looked up by this exact string", _MOVE,
    "The exact product string that the driver gives.", policy=Policy.REPORT, stale_with=("host.gpu",), live=False,
    causes=("host.gpu",), why="drivers rename a product that stays the same card; host.gpu compares the card",
)  # fmt: skip
GPU_DEVICE = Fact(
    ("host", "gpu_device"), TEXT, Kind.NOISE, "the GPU is another model", _MOVE, "The PCI vendor:device ids: the firm key of a GPU.",
    stale_with=("host.gpu",), live=False, causes=("host.gpu",),
)  # fmt: skip
GPU_COUNT = Fact(
    ("host", "gpu_count"), COUNT, Kind.NOISE, "the work is split otherwise", "give the server the locked number of GPUs",
    "GPUs that this server uses, not those the host has: check.gpus_enough compares those that it sees.", live=False,
    why="the number of ranks decides how sums are split; how many the host has does not matter", causes=("serve.tensor_parallel_size",),
)  # fmt: skip
GPU_ORDER = Fact(
    ("host", "gpu_order"), ANY, Kind.NOISE, "ranks land on other GPUs", "set CUDA_VISIBLE_DEVICES as locked",
    "The GPUs of this server in rank order, where they differ.", live=False, on_request=True,
)  # fmt: skip
GPU_HEALTH = Fact(
    ("host", "gpu_health"), ANY, Kind.STEP, "memory errors may corrupt results", "take the GPU out of service",
    "ECC mode and pending errors; findings tell of errors without a lock.", live=False, on_request=True,
)  # fmt: skip
GPU_MEMORY = Fact(
    ("host", "gpu_memory"), MEMORY, Kind.NOISE, "limits of batch and context that follow free memory move", _MOVE,
    "Memory of one GPU.", policy=Policy.COMPATIBLE, why="each driver keeps a little more or less of it for itself",
    stale_with=("host.gpu",), live=False, causes=("host.gpu",),
)  # fmt: skip
COMPUTE_CAPABILITY = Fact(
    ("host", "compute_capability"), VERSION, Kind.NOISE, "other kernels are chosen", _MOVE,
    "The GPU's compute capability, such as 9.0.", stale_with=("host.gpu",), live=False, causes=("host.gpu",),
)  # fmt: skip
SM_COUNT = Fact(
    ("host", "sm_count"), COUNT, Kind.NOISE, "work is cut into other tiles", _MOVE, "Streaming multiprocessors of one GPU.",
    stale_with=("host.gpu",), live=False, causes=("host.gpu",),
)  # fmt: skip
MIG = Fact(
    ("host", "mig"), TEXT, Kind.NOISE, "a slice of a GPU computes", "give the server the locked MIG profile or a whole GPU",
    "The MIG profile, such as 1g.10gb, or the partition of an AMD GPU, such as cpx-nps4; absent on a whole GPU.",
    stale_with=("host.gpu",), live=False,
)  # fmt: skip
INTERCONNECT = Fact(
    ("host", "interconnect"), TEXT, Kind.NOISE, "another all-reduce is chosen", _MOVE, "How the GPUs are linked: nvlink, xgmi, pcie.",
    stale_with=("host.gpu",), live=False,
)  # fmt: skip
CONFIDENTIAL_COMPUTE = Fact(
    ("host", "confidential_compute"), BOOL, Kind.NOISE, "transfers and kernels may differ", "run in the locked mode",
    "Whether the GPU runs in confidential-compute mode.", stale_with=("host.gpu",), live=False,
)  # fmt: skip
VIRTUALIZATION = Fact(
    ("host", "virtualization"), TEXT, Kind.IDENTITY, "the GPU is passed through otherwise", "run on the locked kind of host",
    "none, passthrough or vgpu.", policy=Policy.REPORT, stale_with=("host.gpu",), live=False,
    why="the same card computes the same through a hypervisor",
)  # fmt: skip
DRIVER = Fact(
    ("host", "driver"), VERSION, Kind.NOISE, "kernels are compiled and scheduled by another driver", "install the locked driver",
    "The GPU driver.", live=False,
    why="it compiles kernels that hold no code for the GPU; where llm.toml gives a range, `compatible` lets any driver "
    "inside it pass, because hosts of one fleet differ in its last digits",
)  # fmt: skip
DRIVER_CUDA = Fact(
    ("host", "driver_cuda"), VERSION, Kind.IDENTITY, "the driver supports another CUDA", "install the locked driver",
    "The newest CUDA that the driver supports.", policy=Policy.REPORT, why="it follows host.driver and moves nothing else",
    stale_with=("host.driver",), causes=("host.driver",),
    live=False,
)  # fmt: skip
CPU = Fact(
    ("host", "cpu"), TEXT, Kind.NOISE, "other vector instructions compute", "run on a host with the locked CPU",
    "CPU model and the instruction sets that pick kernels; locked on CPU hosts.", live=False,
)  # fmt: skip
PYTHON = Fact(
    ("host", "python"), VERSION, Kind.IDENTITY, "another interpreter runs the server", "use the locked Python",
    "The Python of the serving environment.", policy=Policy.REPORT,
    why="packages decide what is computed, not the interpreter",
)  # fmt: skip
PLACEMENT = Fact(
    ("host", "placement"), ANY, Kind.STEP, "layers fell back to the CPU", "free GPU memory and start the server again",
    "Layers that really are on the GPU.", on_request=True,
)  # fmt: skip
GPU_SEEN = Family(
    Fact(
        ("host", "gpus"), ANY, Kind.IDENTITY, "another card", "", "One GPU's UUID, serial and bus id: observed, never locked.",
        lockable=False, settable=False,
    ),
    depth=0,
)  # fmt: skip
