"""What a GPU is called: one canonical form for names that drivers, labels and tables spell differently."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

DEVICES: dict[str, str] = {
    "10de:2330": "NVIDIA H100 80GB HBM3",
    "10de:2331": "NVIDIA H100 PCIe",
    "10de:2321": "NVIDIA H100 NVL",
    "10de:2339": "NVIDIA H100",
    "10de:2335": "NVIDIA H200",
    "10de:233b": "NVIDIA H200 NVL",
    "10de:2329": "NVIDIA H20",
    "10de:232c": "NVIDIA H20-3e",
    "10de:2324": "NVIDIA H800",
    "10de:2322": "NVIDIA H800 PCIe",
    "10de:233a": "NVIDIA H800 NVL",
    "10de:20b0": "NVIDIA A100-SXM4-40GB",
    "10de:20b2": "NVIDIA A100-SXM4-80GB",
    "10de:20b5": "NVIDIA A100 80GB PCIe",
    "10de:20f1": "NVIDIA A100-PCIE-40GB",
    "10de:20b7": "NVIDIA A30",
    "10de:1eb8": "Tesla T4",
    "10de:1db6": "Tesla V100-PCIE-32GB",
    "10de:1db5": "Tesla V100-SXM2-32GB",
    "10de:1db1": "Tesla V100-SXM2-16GB",
    "10de:2235": "NVIDIA A40",
    "10de:2236": "NVIDIA A10",
    "10de:2237": "NVIDIA A10G",
    "10de:26b5": "NVIDIA L40",
    "10de:26b9": "NVIDIA L40S",
    "10de:27b8": "NVIDIA L4",
    "10de:26b1": "NVIDIA RTX 6000 Ada Generation",
    "10de:2684": "NVIDIA GeForce RTX 4090",
    "1002:74a1": "AMD Instinct MI300X",
    "1002:74b5": "AMD Instinct MI300X",
    "1002:74a5": "AMD Instinct MI325X",
    "1002:74b9": "AMD Instinct MI325X",
    "1002:74a2": "AMD Instinct MI308X",
    "1002:74a0": "AMD Instinct MI300A",
    "1002:740f": "AMD Instinct MI210",
    "1002:7551": "AMD Radeon R9700",
}
"""Vendor and device id -> the name the driver's own table gives (open-gpu-kernel-modules 550, pci.ids 2023.04.11, vLLM 0.32.0)."""

NAMES: tuple[str, ...] = (
    *dict.fromkeys(DEVICES.values()),
    "NVIDIA GH200 120GB",
    "NVIDIA GH200 480GB",
    "NVIDIA B200",
    "NVIDIA GB200",
    "NVIDIA GB300",
    "NVIDIA B300 SXM6 AC",
    "NVIDIA GB10",
    "NVIDIA A800-SXM4-80GB",
    "NVIDIA L20",
    "NVIDIA L20Y",
    "NVIDIA L2",
    "NVIDIA A2",
    "NVIDIA A16",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "NVIDIA GeForce RTX 3090",
    "NVIDIA GeForce RTX 5090",
    "AMD Instinct MI350X",
    "AMD Instinct MI355X",
)
"""Product names that a spec may shorten."""

_ALIASES = {
    "h100 sxm5 80gb": "h100 80gb hbm3",
    "h100 sxm": "h100 80gb hbm3",
    "h100 sxm5": "h100 80gb hbm3",
    "h100 80gb pcie": "h100 pcie",
    "a100 pcie 80gb": "a100 80gb pcie",
    "a100 pcie 40gb": "a100 pcie 40gb",
    "a100 sxm 80gb": "a100 sxm4 80gb",
    "a100 sxm 40gb": "a100 sxm4 40gb",
    "a30 pcie": "a30",
    "h200 sxm": "h200",
}
_MARKS = r"(?i)\((?:r|tm|c)\)|[®™©]"  # `re` compiles and keeps these where a GPU is named: most short runs name none
_MIG = r"(?i)[ _-]+MIG[ _-]+(\d+g\.\d+gb(?:\+[\w.]+)?)\s*\Z"
_SHARED = r"[ _-]SHARED\s*\Z"
_COUNTED = r"(?i)(\d{1,9})\s*x\s+(.+)\Z"


@lru_cache(maxsize=512)
def canonical(name: str) -> str:
    """The form in which two names of one product are equal. A mixed host (`2x A, 2x B`) keeps its counts."""
    parts = [part for part in name.split(",") if part.strip()]
    if len(parts) > 1 or re.match(_COUNTED, name.strip()):
        counted: list[str] = []
        for part in parts:
            found = re.match(_COUNTED, part.strip())
            counted.append(f"{int(found[1])}x {_one(found[2])}" if found else f"1x {_one(part)}")
        return ", ".join(sorted(counted))
    return _one(name)


def split_mig(name: str) -> tuple[str, str | None]:
    """A name without its MIG profile, and the profile: `... MIG 3g.40gb`."""
    bare = re.sub(_SHARED, "", name)
    found = re.search(_MIG, bare)
    return (bare[: found.start()], found[1].lower()) if found else (name, None)


def fits(alias: str) -> tuple[str, ...]:
    """The products that a short name may mean: its words, in order, are words of theirs. One: it is that product."""
    wanted = canonical(alias)
    exact = tuple(name for name in NAMES if canonical(name) == wanted)
    if exact and wanted != "h100":
        return exact
    words = wanted.split()
    return tuple(name for name in NAMES if words and _within(words, canonical(name).split()))


def _one(name: str) -> str:
    text = unicodedata.normalize("NFKC", re.sub(_MARKS, "", name))
    text = re.sub(_MARKS, "", split_mig(text)[0])
    text = re.sub(_SHARED, "", text)
    text = re.sub(r"[\s_-]+", " ", text).strip().casefold()
    for brand in ("nvidia ", "tesla ", "amd ", "instinct "):
        text = text.removeprefix(brand)
    return _ALIASES.get(text, text)


def _within(words: list[str], of: list[str]) -> bool:
    rest = iter(of)
    return all(word in rest for word in words)
