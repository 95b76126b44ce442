"""Hosts without NVIDIA, and what procfs and sysfs say of drivers, from trees of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts.observation import ABSENT
from lockllm.observe.gpu import gpu_readings, probe, sysfs
from tests.observe.scenarios import OF_CARDS

MI300X = {
    "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 96\nsimd_count 0\n",
    "sys/class/kfd/kfd/topology/nodes/1/properties": (
        "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nunique_id 123\n"
    ),
    "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
    "sys/module/amdgpu/version": "6.10.5\n",
    "dev/kfd": "",
}


NODE = "sys/class/kfd/kfd/topology/nodes"


def amd(index: int, *, unique: int = 0, linked: tuple[int, ...] = (), **more: str) -> dict[str, str]:
    """One MI300X as the kernel shows it; `more` are files of its device."""
    text = MI300X[f"{NODE}/1/properties"].replace(
        "unique_id 123", f"unique_id {unique or index}\ndrm_render_minor {128 + index}"
    )
    links = {f"{NODE}/{index}/io_links/{to}/properties": f"type 11\nnode_to {to}\n" for to in linked}
    files = {
        f"sys/class/drm/renderD{128 + index}/device/{name.replace('__', '/')}": value for name, value in more.items()
    }
    return {
        f"{NODE}/{index}/properties": text, f"{NODE}/{index}/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
        "dev/kfd": "", **links, **files,
    }  # fmt: skip


def told(root: Path, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What is seen of a machine of AMD GPUs, without the parts that name one card."""
    machine = probe.look("auto", root)
    choice = gpu_readings.pick(machine, env or {}, frozenset())
    said = [gpu_readings.machine_facts(machine), gpu_readings.gpu_facts(machine, choice, None)]
    found = {each.fact.path: each.value for one in said for each in one.readings}
    return {
        path[1]: None if value is ABSENT else value for path, value in found.items() if path[:2] != ("host", "gpus")
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
    assert sysfs.kernel_driver(root) == version


def test_signs_of_a_gpu_are_told_by_vendor(tmp_path: Path) -> None:
    assert sysfs.signs(tree(tmp_path / "none", {})) == frozenset()
    assert sysfs.signs(tree(tmp_path / "bus", card("0x10de", "0x2330"))) == {"nvidia"}
    assert sysfs.signs(tree(tmp_path / "node", {"dev/nvidiactl": ""})) == {"nvidia"}
    assert sysfs.signs(tree(tmp_path / "audio", card("0x10de", "0x22ba", "0x040300"))) == frozenset()
    assert sysfs.signs(tree(tmp_path / "amd", MI300X)) == {"amd"}


def test_a_bus_without_a_gpu_is_seen_to_have_none(tmp_path: Path) -> None:
    machine = probe.look("auto", tree(tmp_path, {}))
    assert (machine.platform, machine.none, machine.trouble) == ("cpu", True, None)


def test_without_a_bus_nothing_is_known(tmp_path: Path) -> None:
    machine = probe.look("auto", tmp_path)
    assert not machine.none
    assert machine.trouble is not None


def test_an_amd_gpu_is_read_from_sysfs(tmp_path: Path) -> None:
    machine = probe.look("auto", tree(tmp_path, MI300X))
    (one,) = machine.cards
    assert (machine.platform, machine.driver) == ("rocm", "6.10.5")
    assert (one.name, one.device, one.capability, one.sm_count, one.memory) == (
        "AMD Instinct MI300X", "1002:74a1", "gfx942", 304, 206141652992,
    )  # fmt: skip


TWO = {**amd(1, unique=0xAB, linked=(2,)), **amd(2, unique=0xCD, linked=(1,)), "sys/module/amdgpu/version": "6.10.5\n"}


def test_amd_gpus_are_told_as_others_are(tmp_path: Path) -> None:
    assert told(tree(tmp_path, TWO)) == {
        "platform": "rocm", "driver": "6.10.5", "driver_cuda": None, "gpu": "AMD Instinct MI300X", "gpu_count": 2,
        "gpu_product": "AMD Instinct MI300X", "gpu_device": "1002:74a1", "compute_capability": "gfx942", "sm_count": 304,
        "gpu_memory": "192 GiB", "mig": None, "interconnect": "xgmi", "virtualization": "none",
    }  # fmt: skip


@pytest.mark.parametrize(
    "env, changes, differ",
    [
        ({"ROCR_VISIBLE_DEVICES": "1"}, {}, {"gpu_count": 1, "interconnect": None}),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000cd"}, {}, {"gpu_count": 1, "interconnect": None}),
        ({"HIP_VISIBLE_DEVICES": ""}, {}, {"gpu_count": 0, "interconnect": None}),
        ({}, {"sys/module/amdgpu/version": "6.12.12\n"}, {"driver": "6.12.12"}),
        ({}, {f"{NODE}/1/io_links/2/properties": "type 2\nnode_to 2\n", f"{NODE}/2/io_links/1/properties": ""},
         {"interconnect": "pcie"}),
        ({}, {f"sys/class/drm/renderD{minor}/device/current_{kind}_partition": text
              for minor in (129, 130) for kind, text in (("compute", "CPX\n"), ("memory", "NPS4\n"))}, {"mig": "cpx-nps4"}),
        ({}, {f"sys/class/drm/renderD{minor}/device/current_{kind}_partition": text
              for minor in (129, 130) for kind, text in (("compute", "SPX\n"), ("memory", "NPS1\n"))}, {}),
        ({}, {f"{NODE}/{at}/properties": TWO[f"{NODE}/{at}/properties"].replace("device_id 29857", "device_id 29861")
              for at in (1, 2)},
         {"gpu": "AMD Instinct MI325X", "gpu_product": "AMD Instinct MI325X", "gpu_device": "1002:74a5"}),
        ({}, {f"{NODE}/3/properties": ""}, {}),
        ({}, {f"{NODE}/3/properties": "simd_count many\n\xff\n"}, {}),
    ],
    ids=["index", "id", "none", "driver", "pcie", "partition", "whole", "another", "hidden", "nonsense"],
)  # fmt: skip
def test_what_differs_between_two_amd_machines_is_all_that_differs(
    tmp_path: Path, env: dict[str, str], changes: dict[str, str], differ: dict[str, Any]
) -> None:
    plain = told(tree(tmp_path / "plain", TWO))
    seen = told(tree(tmp_path / "changed", {**TWO, **changes}), env)
    assert {key: seen.get(key, "unseen") for key in plain if plain[key] != seen.get(key, "unseen")} == (
        differ if seen["gpu_count"] else {**dict.fromkeys(OF_CARDS, "unseen"), **differ}
    )


def test_memory_errors_of_an_amd_gpu_are_a_finding(tmp_path: Path) -> None:
    files = {**TWO, "sys/class/drm/renderD129/device/ras/umc_err_count": "ue: 2\nce: 5\n"}
    machine = probe.look("auto", tree(tmp_path, files))
    (check,) = gpu_readings.machine_facts(machine).checks
    assert (check.status.value, check.detail) == (
        "fail", "GPU 0: 2 uncorrected memory errors since the driver was loaded",
    )  # fmt: skip


def test_an_amd_gpu_that_the_container_was_not_given_is_unknown(tmp_path: Path) -> None:
    files = {name: text for name, text in TWO.items() if name != "dev/kfd"}
    machine = probe.look("rocm", tree(tmp_path, files))
    assert machine.trouble is not None
    assert machine.trouble.reason == "/dev/kfd is missing, although the kernel shows AMD GPUs"
    bare = probe.look("auto", tree(tmp_path / "bare", card("0x1002", "0x74a1")))
    assert bare.trouble is not None
    assert bare.trouble.reason.startswith("the ROCm topology cannot be read: ")


def test_the_systems_rocm_tells_its_release(tmp_path: Path) -> None:
    machine = probe.look("auto", tree(tmp_path, {**TWO, "opt/rocm/.info/version": "6.2.0-66\n"}))
    assert machine.rocm_release == "6.2.0"


def test_a_mac_is_named_as_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "System/Library/CoreServices").mkdir(parents=True)
    (tmp_path / "System/Library/CoreServices/SystemVersion.plist").touch()
    machine = probe.look("auto", tmp_path)
    assert (machine.platform, machine.none) == ("mps", False)
    assert machine.trouble is not None
    assert machine.trouble.reason == "this is a Mac: this release cannot inspect its GPU"


def test_a_gpu_of_a_vendor_that_is_not_read_is_said_so(tmp_path: Path) -> None:
    machine = probe.look("auto", tree(tmp_path, card("0x8086", "0x56c0")))
    assert machine.trouble is not None
    assert machine.trouble.reason == "an Intel GPU is here: this release cannot inspect it"


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
    assert sysfs.cpu(tree(tmp_path, {"proc/cpuinfo": text})) == told


def test_a_host_without_nvidia_imports_no_binding(tmp_path: Path) -> None:
    import subprocess
    import sys

    tree(tmp_path, {})
    code = (
        "import sys; from pathlib import Path; from lockllm.observe.gpu import probe; "
        f"probe.look('auto', Path({str(tmp_path)!r})); sys.exit('pynvml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
