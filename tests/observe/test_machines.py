"""Hosts without NVIDIA, and what procfs and sysfs say of drivers, from trees of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lockllm.observe import gpu

MI300X = {
    "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 96\nsimd_count 0\n",
    "sys/class/kfd/kfd/topology/nodes/1/properties": (
        "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nunique_id 123\n"
    ),
    "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
    "sys/module/amdgpu/version": "6.10.5\n",
    "dev/kfd": "",
}


def tree(root: Path, files: Mapping[str, str]) -> Path:
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def card(vendor: str, device: str, kind: str = "0x030200") -> dict[str, str]:
    base = "sys/bus/pci/devices/0000:1b:00.0"
    return {f"{base}/vendor": vendor, f"{base}/device": device, f"{base}/class": kind}


@pytest.mark.parametrize(
    "line, version",
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Thu Feb 6 2025", "550.163.01"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3)",
            "580.95.05",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64 565.77 Release Build", "565.77"),
        ("GCC version: gcc 12.3.0", None),
        ("", None),
    ],
)
def test_the_kernel_module_tells_its_release(tmp_path: Path, line: str, version: str | None) -> None:
    root = tree(tmp_path, {"proc/driver/nvidia/version": f"{line}\nGCC version:  gcc version 123.4\n"})
    assert gpu.kernel_driver(root) == version


def test_signs_of_a_gpu_are_told_by_vendor(tmp_path: Path) -> None:
    assert gpu.signs(tree(tmp_path / "none", {})) == frozenset()
    assert gpu.signs(tree(tmp_path / "bus", card("0x10de", "0x2330"))) == {"nvidia"}
    assert gpu.signs(tree(tmp_path / "node", {"dev/nvidiactl": ""})) == {"nvidia"}
    assert gpu.signs(tree(tmp_path / "audio", card("0x10de", "0x22ba", "0x040300"))) == frozenset()
    assert gpu.signs(tree(tmp_path / "amd", MI300X)) == {"amd"}


def test_a_bus_without_a_gpu_is_seen_to_have_none(tmp_path: Path) -> None:
    machine = gpu.look("auto", tree(tmp_path, {}))
    assert (machine.platform, machine.none, machine.trouble) == ("cpu", True, None)


def test_without_a_bus_nothing_is_known(tmp_path: Path) -> None:
    machine = gpu.look("auto", tmp_path)
    assert not machine.none
    assert machine.trouble is not None


def test_an_amd_gpu_is_read_from_sysfs(tmp_path: Path) -> None:
    machine = gpu.look("auto", tree(tmp_path, MI300X))
    (one,) = machine.cards
    assert (machine.platform, machine.driver) == ("rocm", "6.10.5")
    assert (one.name, one.device, one.capability, one.sm_count, one.memory) == (
        "AMD Instinct MI300X", "1002:74a1", "gfx942", 304, 206141652992,
    )  # fmt: skip


def test_a_gpu_of_a_vendor_that_is_not_read_is_said_so(tmp_path: Path) -> None:
    machine = gpu.look("auto", tree(tmp_path, card("0x8086", "0x56c0")))
    assert machine.trouble is not None
    assert machine.trouble.reason == "an Intel GPU is here: this release cannot look at it"


@pytest.mark.parametrize(
    "text, told",
    [
        ("model name\t: Intel(R) Xeon(R)  8480+\nflags\t\t: fpu avx2 avx512f amx_bf16\n\nmodel name: x\n",
         "Intel(R) Xeon(R) 8480+ (avx2 avx512f amx_bf16)"),
        ("Features\t: fp asimd sve bf16\nCPU part\t: 0xd4f\n", "0xd4f (asimd bf16 sve)"),
        ("model name\t: old\n", "old (none)"),
    ],
    ids=["x86", "arm", "plain"],
)  # fmt: skip
def test_a_cpu_is_its_model_and_the_instruction_sets_that_pick_kernels(tmp_path: Path, text: str, told: str) -> None:
    assert gpu.cpu(tree(tmp_path, {"proc/cpuinfo": text})) == told


def test_a_host_without_nvidia_imports_no_binding(tmp_path: Path) -> None:
    import subprocess
    import sys

    tree(tmp_path, {})
    code = (
        "import sys; from pathlib import Path; from lockllm.observe import gpu; "
        f"gpu.look('auto', Path({str(tmp_path)!r})); sys.exit('pynvml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
