"""What the kernel's own files report about GPUs and the CPU: PCI devices, NVIDIA's kernel module, instruction sets."""

from __future__ import annotations

import os
import re
from pathlib import Path

_DISPLAY = ("0x0300", "0x0302", "0x1200", "0x0380")
VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_KERNEL = re.compile(r"\d{3,}\.\d+(?:\.\d+)*")


def signs(root: Path = Path("/")) -> frozenset[str]:
    """Vendors with a visible GPU, device node, or driver."""
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
    """The release of NVIDIA's kernel module, from procfs."""
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
    "sse4_2",
    "avx",
    "f16c",
    "fma",
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "amx_fp16",
    "asimd",
    "asimdhp",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "sme",
)
