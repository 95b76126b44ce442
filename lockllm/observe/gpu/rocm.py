"""AMD GPUs through the kernel's own files: no library is loaded."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lockllm.facts.gpu_names import DEVICES
from lockllm.observe.gpu.cards import Card, Machine, Trouble

_NODES = "sys/class/kfd/kfd/topology/nodes"
_DRM = "sys/class/drm"
_XGMI = 11
_WHOLE = ("SPX", "NPS1")
"""One partition for computing and one for memory: the card is whole."""


def look(root: Path, signs: frozenset[str]) -> Machine:
    """What sysfs reports about this machine's AMD GPUs."""
    nodes = root / _NODES
    try:
        names = sorted((name for name in os.listdir(nodes) if name.isdigit()), key=int)
    except OSError as error:
        if "amd" not in signs:
            return Machine(platform="cpu", none=True, source="/sys/class/kfd: no AMD GPU")
        fix = "load the amdgpu module, and give the container /dev/kfd and /dev/dri"
        return Machine(platform="rocm", trouble=Trouble(f"the ROCm topology cannot be read: {error.strerror}", fix))
    cards: dict[str, Card] = {}
    for name in names:
        fields = _fields(nodes / name / "properties")
        if _number(fields, "simd_count") > 0:
            cards[name] = _card(len(cards), fields, nodes / name, root)
    driver = _line(root / "sys/module/amdgpu/version")
    release = driver or _line(root / "proc/sys/kernel/osrelease") or os.uname().release
    if not (root / "dev/kfd").exists() and cards:
        return Machine(
            platform="rocm",
            driver=release,
            rocm_driver=release,
            driver_source="/sys/module/amdgpu",
            trouble=Trouble(
                "/dev/kfd is missing, although the kernel shows AMD GPUs", "give the container /dev/kfd and /dev/dri"
            ),
        )
    return Machine(
        platform="rocm",
        cards=tuple(cards.values()),
        driver=release,
        rocm_driver=release,
        none=not cards,
        driver_source="/sys/module/amdgpu/version" if driver else "kernel release",
        source="/sys/class/kfd",
        linked=_links(nodes, cards),
        link="xgmi",
        rocm_release=_release(root),
    )


def _card(index: int, fields: dict[str, str], node: Path, root: Path) -> Card:
    device = f"{_number(fields, 'vendor_id', 0x1002):04x}:{_number(fields, 'device_id'):04x}"
    version = _number(fields, "gfx_target_version")
    gfx = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else None
    units = _number(fields, "simd_count") // max(1, _number(fields, "simd_per_cu", 4))
    folder = root / _DRM / f"renderD{_number(fields, 'drm_render_minor', -1)}" / "device"
    unique = _number(fields, "unique_id")
    return Card(
        index=index,
        name=DEVICES.get(device) or _line(folder / "product_name") or _line(node / "name") or device,
        device=device,
        capability=gfx,
        sm_count=units or None,
        memory=_memory(node),
        bus=fields.get("location_id"),
        uuid=f"GPU-{unique:016x}" if unique else None,
        virtualization="none",
        partition=_partition(folder),
        ailments=_ailments(folder),
    )


def _partition(folder: Path) -> str | None:
    """A card's partition mode, `cpx-nps4`; None for a whole card."""
    parts = [_line(folder / f"current_{kind}_partition") for kind in ("compute", "memory")]
    told = [part for part, whole in zip(parts, _WHOLE, strict=True) if part and part.upper() != whole]
    return "-".join(part.lower() for part in parts if part) if told else None


def _ailments(folder: Path) -> tuple[str, ...]:
    """Uncorrected errors of a card's memory."""
    text = _text(folder / "ras" / "umc_err_count")
    found = re.search(r"^ue:\s*(\d{1,18})", text, re.MULTILINE)
    return (f"{found[1]} uncorrected memory errors since the driver was loaded",) if found and int(found[1]) else ()


def _links(nodes: Path, cards: dict[str, Card]) -> dict[tuple[int, int], bool]:
    """Which pairs of GPUs xGMI joins; all others meet over PCIe."""
    found = {
        (one.index, other.index): False for one in cards.values() for other in cards.values() if one.index < other.index
    }
    for name, card in cards.items():
        for link in sorted((nodes / name / "io_links").glob("*/properties")):
            fields = _fields(link)
            other = cards.get(fields.get("node_to", ""))
            if other is not None and _number(fields, "type") == _XGMI:
                found[min(card.index, other.index), max(card.index, other.index)] = True
    return found


def _memory(node: Path) -> int | None:
    total = 0
    for bank in sorted((node / "mem_banks").glob("*/properties")):
        fields = _fields(bank)
        if fields.get("heap_type") in ("1", "2"):
            total += _number(fields, "size_in_bytes")
    return total or None


def _release(root: Path) -> str | None:
    """The system's ROCm, `6.2.0`."""
    text = _line(root / "opt/rocm/.info/version") or ""
    found = re.match(r"\d+\.\d+(?:\.\d+)?", text)
    return found[0] if found else None


def _fields(path: Path) -> dict[str, str]:
    pairs = (line.split(None, 1) for line in _text(path).splitlines())
    return {
        pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and re.fullmatch(r"-?\d{1,20}", pair[1].strip())
    }


def _number(fields: dict[str, str], name: str, default: int = 0) -> int:
    return int(fields.get(name, default))


def _line(path: Path) -> str | None:
    lines = _text(path).strip().splitlines()
    return lines[0][:200] if lines else None


def _text(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
