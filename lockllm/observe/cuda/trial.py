"""What only a trial shows, in a child process and only with `--deep`: that CUDA starts, what torch imports."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.gpu.cards import Trouble
from lockllm.observe.gpu.visible import VisibleGpu
from lockllm.observe.python import interpreter
from lockllm.observe.safe import child

_CUDA = f"""
import ctypes, json
told = {{}}
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    told["load"] = str(error)
else:
    told["init"] = driver.cuInit(0)
    number = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(number)) == 0:
        told["cuda"] = number.value
    if told["init"] == 0 and driver.cuDeviceGetCount(ctypes.byref(number)) == 0:
        told["count"] = number.value
{child.PRINT}
"""
_TORCH = f"""
import json, torch
told = {{"version": str(torch.__version__), "cuda": torch.version.cuda, "hip": getattr(torch.version, "hip", None)}}
for name, ask in (
    ("cudnn", lambda: torch.backends.cudnn.version()),
    ("nccl", lambda: list(torch.cuda.nccl.version())),
    ("codes", lambda: str(torch._C._cuda_getArchFlags() or "").split()),
    ("cpu", lambda: torch.backends.cpu.get_cpu_capability()),
):
    try:
        told[name] = ask()
    except Exception:
        pass
{child.PRINT}
"""
_CODES = {
    34: "the libcuda that is loaded is a stub of the toolkit",
    35: "the driver is older than libcuda",
    46: "all devices are busy or unavailable",
    100: "no device",
    802: "the system is not ready: the NVLink fabric is not up",
    803: "libcuda and the kernel module are of different releases",
    804: "this GPU does not support the compat library",
    999: "unknown error, often a missing /dev/nvidia-uvm",
}
_FIXES = {
    34: "remove the stubs folder from LD_LIBRARY_PATH",
    802: "start the fabric manager",
    803: "reboot or reload the kernel module; restart the container",
    804: "remove the compat folder from the search path, or install a newer driver",
    999: "run `nvidia-modprobe -u -c 0` on the host; restart the container",
}
_CUDA_SECONDS = 30.0
_TORCH_SECONDS = 120.0
_KEPT = ("PATH", "HOME", "LANG", "FAKE_CUDA")
_LOADER = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial: problems with CUDA, or what worked."""

    wrong: tuple[Trouble, ...] = ()
    done: str = ""
    unknown: str = ""
    readings: tuple[Reading, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    codes: tuple[str, ...] | None = None  # the GPUs that torch holds code for: sm_90, compute_90


def cuda(env: Mapping[str, str], rights: Mapping[str, Any]) -> TrialResult:
    """Start CUDA as the server would, with its search path and its GPUs. This uses no GPU memory."""
    answer = child.ask((sys.executable, "-I"), _CUDA, _CUDA_SECONDS, env=_environ(env, _LOADER), rights=rights)
    if isinstance(answer, str):
        return TrialResult(wrong=(Trouble(f"a process that starts CUDA {answer}", "see dmesg"),))
    if "load" in answer:
        return TrialResult(unknown=f"libcuda.so.1 cannot be loaded: {answer['load']}"[:200])
    code = answer.get("init")
    if code != 0:
        number = code if isinstance(code, int) else -1
        words = _CODES.get(number, "see the error codes of the CUDA driver")
        return TrialResult(
            wrong=(Trouble(f"CUDA does not start: error {number}, {words}", _FIXES.get(number, "see dmesg")),)
        )
    return TrialResult(done=f"CUDA starts, and sees {answer.get('count')} GPUs")


def torch(program: Path, env: Mapping[str, str], held: Sequence[Reading]) -> TrialResult:
    """What importing torch shows that no file does. `held`: readings so far, which are not repeated."""
    where = f"import torch in {program}"
    if (why := interpreter.refusal(program)) is not None:
        return TrialResult(unobserved=(Unobserved(("kernels", "cpu_capability"), f"{program} is not run: {why}", ""),))
    variables = _environ(env, (*_LOADER, "PYTHONPATH", "ATEN_CPU_CAPABILITY"))
    argv = (str(program), "-B", "-W", "ignore")
    answer = child.ask(argv, _TORCH, _TORCH_SECONDS, env=variables, rights=interpreter.rights(program))
    if isinstance(answer, str):
        gap = Unobserved(
            ("kernels", "cpu_capability"), f"{where}: {program.name} {answer}"[:300], "see whether torch imports"
        )
        return TrialResult(unobserved=(gap,))
    told = {
        ("cuda", "runtime"): answer.get("cuda"),
        ("rocm", "version"): answer.get("hip"),
        ("cuda", "cudnn"): _cudnn(answer.get("cudnn")),
        ("cuda", "nccl"): _dotted(answer.get("nccl")),
        ("kernels", "cpu_capability"): answer.get("cpu"),
    }
    found = []
    for path, value in told.items():
        known = [each.value for each in held if each.fact.path == path]
        if isinstance(value, str) and not any(isinstance(each, str) and _within(value, each) for each in known):
            found.append(seen(path, value, where, By.PLAN))
    codes = answer.get("codes")
    listed = tuple(code for code in codes if isinstance(code, str)) if isinstance(codes, list) else None
    return TrialResult(readings=tuple(found), codes=listed)


def without_code(gpus: Sequence[VisibleGpu], codes: Sequence[str]) -> tuple[Trouble, ...]:
    """The GPUs that torch has no code for: neither binaries nor PTX of their generation."""
    found = []
    for capability in sorted({gpu.card.capability for gpu in gpus if gpu.card.capability}):
        own = _number(capability.replace(".", ""))
        made = [_number(code.partition("_")[2]) for code in codes if code.startswith("sm_")]
        text = [_number(code.partition("_")[2]) for code in codes if code.startswith("compute_")]
        same = any(each // 10 == own // 10 and each <= own for each in made)
        if codes and not same and not any(each <= own for each in text):
            fix = "install a torch that is built for this GPU"
            found.append(
                Trouble(f"torch has no code for compute capability {capability} (only {' '.join(codes)})", fix)
            )
    return tuple(found)


def _environ(env: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """A few variables of lockllm's own, and those of the server that decide what it loads; never its secrets."""
    own = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**own, **{name: env[name] for name in names if name in env}}


def _cudnn(number: Any) -> str | None:
    """92400 is 9.24.0; before release 9, 8902 was 8.9.2."""
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        return None
    if number >= 90000:
        return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
    return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"


def _dotted(parts: Any) -> str | None:
    good = isinstance(parts, list) and parts and all(isinstance(part, int) for part in parts)
    return ".".join(map(str, parts)) if good else None


def _within(short: str, long: str) -> bool:
    """Whether one release is a shorter form of another: 9.10.2 and 9.10.2.21."""
    return long == short or long.startswith(f"{short}.")


def _number(text: str) -> int:
    found = re.match(r"\d{1,18}", text)
    return int(found[0]) if found else 0
