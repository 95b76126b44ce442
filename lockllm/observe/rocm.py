"""AMD GPUs through the kernel's own files: no library is loaded."""

from __future__ import annotations

import os
from pathlib import Path

from lockllm.facts.gpu_names import DEVICES
from lockllm.observe.gpu import Card, Machine, Trouble


def look(root: Path, signs: frozenset[str]) -> Machine:
    """What sysfs says of this machine's AMD GPUs."""
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    try:
        names = sorted((name for name in os.listdir(nodes) if name.isdigit()), key=int)
    except OSError as error:
        if "amd" not in signs:
            return Machine(platform="cpu", none=True, source="/sys/class/kfd: no AMD GPU")
        mend = "load the amdgpu module, and give the container /dev/kfd and /dev/dri"
        return Machine(platform="rocm", trouble=Trouble(f"the ROCm topology cannot be read: {error.strerror}", mend))
    cards: list[Card] = []
    for name in names:
        fields = _fields(nodes / name / "properties")
        if int(fields.get("simd_count", "0")) > 0:
            cards.append(_card(len(cards), fields, nodes / name))
    driver = _line(root / "sys/module/amdgpu/version")
    release = driver or os.uname().release
    return Machine(
        platform="rocm", cards=tuple(cards), driver=release, rocm_driver=release, none=not cards,
        driver_source="/sys/module/amdgpu/version" if driver else "kernel release", source="/sys/class/kfd",
    )  # fmt: skip


def _card(index: int, fields: dict[str, str], node: Path) -> Card:
    device = f"{int(fields.get('vendor_id', '4098')):04x}:{int(fields.get('device_id', '0')):04x}"
    version = int(fields.get("gfx_target_version", "0"))
    gfx = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else None
    units = int(fields.get("simd_count", "0")) // max(1, int(fields.get("simd_per_cu", "4")))
    return Card(
        index=index,
        name=DEVICES.get(device) or _line(node / "name") or device,
        device=device,
        capability=gfx,
        sm_count=units or None,
        memory=_memory(node),
        bus=fields.get("location_id"),
        uuid=fields.get("unique_id"),
        virtualization="none",
    )


def _memory(node: Path) -> int | None:
    total = 0
    for bank in sorted((node / "mem_banks").glob("*/properties")):
        fields = _fields(bank)
        if fields.get("heap_type") in ("1", "2"):
            total += int(fields.get("size_in_bytes", "0"))
    return total or None


def _fields(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split(None, 1) for line in lines)
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and pair[1].strip().lstrip("-").isdigit()}


def _line(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip().splitlines()[0][:200]
    except (OSError, IndexError):
        return None
