"""Facts of the serving engine, its packages, libraries and CUDA stack."""

from __future__ import annotations

import msgspec

from lockllm.facts.fact import Fact, Family, Group, Kind, Policy, Stage
from lockllm.facts.types import ANY, PACKAGE, RELEASE, SHA256, TEXT, VERSION

ENGINE = Group(name="engine", about="the program that serves the model", waits=True)
_INSTALL = "install the locked version of the engine"

NAME = Fact(
    ("engine", "name"), TEXT, Kind.STEP, "another engine with other defaults, kernels and template rules answers",
    "start the locked engine", "The serving engine.", part="engine",
)  # fmt: skip
VERSION_ = Fact(
    ("engine", "version"), VERSION, Kind.STEP, "defaults, kernels and template rules of another release apply", _INSTALL,
    "The engine's public version.", part="engine",
)  # fmt: skip
BUILD = Fact(
    ("engine", "build"), TEXT, Kind.NOISE, "the same release was built otherwise: other kernels or a patch",
    "install the locked build of the engine", "The build below the version: commit, CUDA label, vendor patch.",
    stale_with=("engine.version",), causes=("engine.version",), part="engine",
)  # fmt: skip
BUNDLED = Family(
    Fact(
        ("engine", "bundled"), TEXT, Kind.STEP, "the library inside the engine is another one", _INSTALL,
        "A library that the engine carries: the llama.cpp inside a binding or Ollama.", stale_with=("engine.version",),
        causes=("engine.version",), settable=False,
    )
)  # fmt: skip
WRAPPER = Fact(
    ("engine", "wrapper"), TEXT, Kind.STEP, "another launcher sets other defaults and variables", "start it the locked way",
    "What stands around the engine: KServe, DJL, Ray Serve, NIM.", on_request=True,
)  # fmt: skip
PROGRAM = Fact(
    ("engine", "program"), TEXT, Kind.STEP, "another program starts under the engine's name",
    "install the engine again, and start its own program",
    "The program that starts: the package that its script hands over to, else the sha256 of the script or binary.",
    stale_with=("engine.version",), live=False, settable=False, since=2,
)  # fmt: skip
ARTIFACT_SHA256 = Fact(
    ("engine", "artifact_sha256"), SHA256, Kind.STEP, "an engine file built from other inputs runs",
    "deploy the locked engine file, or build it again from the locked inputs", "The sha256 of a built engine (TensorRT plan).",
    live=False, settable=False,
)  # fmt: skip
ARTIFACT_VERSION = Fact(
    ("engine", "artifact_version"), VERSION, Kind.STEP, "the engine file was built by another release", "build it again",
    "The release that built the engine file.", settable=False, on_request=True,
)  # fmt: skip
IMAGE = Fact(
    ("engine", "image"), TEXT, Kind.IDENTITY, "the image has another name", "deploy the locked image",
    "The container image's name and tag; visible only from outside the container.", policy=Policy.REPORT, on_request=True,
    why="a name says nothing of what is in the image",
)  # fmt: skip
IMAGE_DIGEST = Fact(
    ("engine", "image_digest"), TEXT, Kind.STEP, "the image holds other packages and libraries",
    "deploy the image by the locked digest", "The digest of the container image; visible only from outside the container.",
    policy=Policy.REPORT, on_request=True,
    why="from inside a container it cannot be seen; packages and libraries are compared themselves",
)  # fmt: skip
GENERATION = Fact(
    ("engine", "generation"), TEXT, Kind.NOISE, "another internal engine schedules and samples", "start the locked generation",
    "The engine's internal generation (vLLM V0 or V1).", causes=("engine.version",), on_request=True,
)  # fmt: skip
BACKEND = Fact(
    ("engine", "backend"), TEXT, Kind.STEP, "another engine inside the engine computes", "restore what the choice depends on",
    "Which of its own engines serves the model: turbomind or pytorch (LMDeploy), V2 or V3 (TGI), the runner (Ollama).",
    causes=("engine.version", "checkpoint.architecture"), on_request=True,
)  # fmt: skip

PACKAGES = Group(name="packages", about="distributions that move numerics, prompts or decoding", via=False)
PACKAGE_ = Family(
    Fact(
        ("packages",), PACKAGE, Kind.STEP, "numerics, prompts or decoding may move with it",
        "install the locked version where the server runs",
        "A distribution as installed where the server runs: version with its local label; edited and VCS installs are told.",
        stale_with=("engine.version",), causes=("engine.version",), part="",
    )
)  # fmt: skip
STARTUP = Group(name="startup", about="code that runs before the engine: site hooks and .pth files", via=False)
STARTUP_CODE = Family(
    Fact(
        ("startup",), TEXT, Kind.STEP, "other code runs in the server before the engine starts",
        "remove what was added to the serving environment, or restore what was there",
        "Code that starts with the interpreter: the sha256 of sitecustomize and usercustomize, and of the acting lines of "
        "each .pth file; and modules that stand before those that the engine means (`shadows`), by a digest.",
        settable=False, since=2,
    ),
    closed=True, given=True, depth=0,
)  # fmt: skip
LIBRARIES = Group(name="libraries", about="shared objects that the server really maps", via=False, waits=True)
LIBRARY = Family(
    Fact(
        ("libraries",), ANY, Kind.NOISE, "another copy of the library computes", "remove the copy that shadows the locked one",
        "A mapped library: its version, sha256 and origin (wheel, system, compat).", stale_with=("engine.version",),
        causes=("engine.version",), on_request=True,
    ),
    depth=0,
)  # fmt: skip

CUDA = Group(name="cuda", about="the CUDA stack, by the best witness", waits=True)


def _cuda(name: str, about: str, *, on_request: bool = False) -> Fact[str]:
    return Fact(
        ("cuda", name), RELEASE, Kind.NOISE, "kernels of another release compute", "install the locked release of it", about,
        stale_with=("engine.version",), causes=("engine.version", "packages.torch"), on_request=on_request,
        part="numerics" if name == "runtime" else "",
    )  # fmt: skip


RUNTIME = _cuda("runtime", "The CUDA runtime that the server uses.")
CUDNN = _cuda("cudnn", "The cuDNN that the server uses.")
NCCL = _cuda("nccl", "The NCCL that the server uses.")
CUBLAS = _cuda("cublas", "The cuBLAS that the server uses.")
TOOLKIT = _cuda("toolkit", "The CUDA toolkit of the system, where kernels are compiled at run time.", on_request=True)
DRIVER_LIBRARY = _cuda("driver_library", "The user-space driver library (libcuda) that is loaded.", on_request=True)
ROCM = Group(name="rocm", about="the ROCm stack")
ROCM_VERSION = Fact(
    ("rocm", "version"), VERSION, Kind.NOISE, "kernels of another release compute", "install the locked ROCm",
    "The HIP or ROCm release that torch was built for.", stale_with=("engine.version",), causes=("packages.torch",),
)  # fmt: skip
ROCM_DRIVER = Fact(
    ("rocm", "driver"), VERSION, Kind.IDENTITY, "another kernel driver runs", "install the locked driver",
    "The amdgpu kernel driver.", policy=Policy.REPORT, why="in-tree drivers have the kernel's release", live=False,
)  # fmt: skip

ENV = Group(name="env", about="variables that change results", waits=True, guarded=True)


def _variable(row: Fact[str]) -> Fact[str]:
    """What the catalogue says of one variable."""
    from lockllm.facts import variables

    found = variables.find(row.path[-1])
    if found is None or not found.effect:
        return row
    steps = found.kind not in (variables.Class.NUMERICS, variables.Class.SCHEDULING)
    kind = Kind.STEP if steps else Kind.NOISE
    return msgspec.structs.replace(row, kind=kind, effect=found.effect, since=found.edition)


VARIABLE = Family(
    Fact(
        ("env",), TEXT, Kind.STEP, "the engine reads another value", "set the variable as locked, or unset it",
        "An environment variable of the server that moves output, injects code or is read by the release; never a secret.",
        since=2,
    ),
    closed=True, closed_by=("engine",), given=True, detail=_variable,
)  # fmt: skip
KERNELS = Group(name="kernels", about="what `auto` chose at start; mostly only the start log shows it", waits=True)
_KERNELS = {
    "attention": "The attention kernels in use.",
    "moe_backend": "The kernels of the mixture-of-experts layers.",
    "gemm_backend": "The kernels of the linear layers.",
    "quant_kernel": "The kernels of the quantized layers.",
    "sampler": "The implementation that draws tokens.",
    "all_reduce": "The all-reduce between GPUs.",
}
KERNEL_ROWS = tuple(
    Fact(
        ("kernels", name), TEXT, Kind.NOISE, "sums are formed in another order", "restore what the choice depends on",
        about, due=Stage.LIVE, on_request=True,
        causes=("serve.attention_backend", "engine.version", "host.gpu", "packages.*"),
    )
    for name, about in _KERNELS.items()
)  # fmt: skip
KERNEL = Family(
    Fact(
        ("kernels",), ANY, Kind.NOISE, "sums are formed in another order", "restore what the choice depends on",
        "Another choice that the engine made at start.", due=Stage.LIVE, on_request=True, causes=("engine.version", "host.gpu"),
    )
)  # fmt: skip
