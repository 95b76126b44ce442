"""The scenarios go through the real pynvml and the real loader: only the library below them is a fake (fake_nvml.c)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts import registry
from lockllm.facts.observation import ABSENT, Check, Reading, Unobserved
from lockllm.observe.cuda import stack_fit
from lockllm.observe.cuda.stack_fit import DriverLibrary
from lockllm.observe.gpu import gpu_readings
from lockllm.observe.gpu.cards import Machine
from lockllm.observe.gpu.gpu_readings import GpuCount
from tests.observe.machines import EIGHT, H100, MIG, MIXED, ONE, Host, text


class Facts:
    """Readings, gaps and findings by key."""

    def __init__(self, machine: Machine, env: Mapping[str, str], used: int | None) -> None:
        choice = gpu_readings.pick(machine, env, frozenset())
        using = None if used is None else GpuCount(used, "test", used)
        said = [gpu_readings.machine_facts(machine), gpu_readings.gpu_facts(machine, choice, using)]
        self.readings: dict[str, list[Reading]] = {}
        for each in said:
            for reading in each.readings:
                self.readings.setdefault(reading.fact.key, []).append(reading)
        self.gaps: dict[str, Unobserved] = {".".join(gap.path): gap for each in said for gap in each.unobserved}
        self.checks: dict[str, Check] = {check.name: check for each in said for check in each.checks}
        self.warnings = [text for each in said for text in each.warnings]

    def __getitem__(self, key: str) -> Any:
        value = self.readings[f"host.{key}"][0].value
        return None if value is ABSENT else value


def facts(machine: Machine, env: Mapping[str, str] | None = None, used: int | None = None) -> Facts:
    return Facts(machine, env or {}, used)


def test_a_whole_host_is_told(host: Host) -> None:
    seen = facts(host.look(H100))
    told = {key: seen[key] for key in (
        "platform", "driver", "driver_cuda", "gpu", "gpu_product", "gpu_device", "gpu_count", "compute_capability", "sm_count",
        "gpu_memory", "mig", "interconnect", "confidential_compute", "virtualization",
    )}  # fmt: skip
    assert told == {
        "platform": "cuda", "driver": "550.90.07", "driver_cuda": "12.4", "gpu": "NVIDIA H100 80GB HBM3",
        "gpu_product": "NVIDIA H100 80GB HBM3", "gpu_device": "10de:2330", "gpu_count": 2, "compute_capability": "9.0",
        "sm_count": 132, "gpu_memory": "80 GiB", "mig": None, "interconnect": "nvlink", "confidential_compute": False,
        "virtualization": "none",
    }  # fmt: skip
    assert not seen.gaps
    assert seen.checks["check.gpus_alike"].status.value == "pass"


@pytest.mark.parametrize(
    "name, changes, differ",
    [
        ("another driver", {"driver": "570.124.06", "cuda": "12080"}, {"driver", "driver_cuda"}),
        ("another card", {"gpu.*.name": "NVIDIA H100 PCIe", "gpu.*.ids": "233110DE", "gpu.*.cores": "14592"},
         {"gpu", "gpu_product", "gpu_device", "sm_count"}),
        ("renamed by a driver", {"gpu.*.name": "H100 80GB HBM3"}, {"gpu_product"}),
        ("fewer cards", {"count": "1"}, {"gpu_count", "interconnect"}),
        ("less memory", {"gpu.*.memory_mib": "40960"}, {"gpu_memory"}),
        ("no NVLink", {"nvlink": "none"}, {"interconnect"}),
        ("confidential compute", {"cc": "1"}, {"confidential_compute"}),
        ("a vGPU guest", {"gpu.*.virtualization": "2"}, {"virtualization"}),
        ("a slice", MIG, {"gpu_count", "interconnect", "mig", "sm_count", "gpu_memory"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_differs_between_two_hosts_is_all_that_differs(
    host: Host, name: str, changes: dict[str, str], differ: set[str]
) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "MIG-1"} if changes is MIG else {}
    before, after = facts(host.look(H100)), facts(host.look({**H100, **changes}), env)
    keys = {key for key in {*before.readings, *after.readings} if not key.startswith("host.gpus.")}
    moved = set()
    for key in keys:
        row = registry.fact(key)
        values = [found.readings[key][0].value if key in found.readings else ABSENT for found in (before, after)]
        if not registry.same(row, *values):
            moved.add(key.removeprefix("host."))
    assert moved == differ


@pytest.mark.parametrize(
    "code, reason",
    [
        (4, "NVML: no permission to use the GPU devices"),
        (9, "NVML: the driver's kernel module is not loaded"),
        (12, "NVML library not found, although an NVIDIA GPU is here"),
        (17, "NVML: the system blocks the control device"),
        (18, "NVML: the kernel module and the driver's libraries are of different releases"),
        (999, "NVML: unknown error; a container that worked before has likely lost its GPU devices"),
    ],
)
def test_each_way_of_not_starting_has_its_own_words(host: Host, code: int, reason: str) -> None:
    seen = facts(host.look({**H100, "error.nvmlInitWithFlags": str(code)}))
    gap = seen.gaps["host"]
    assert gap.reason == reason
    assert gap.fix
    assert seen["driver"] == "550.90.07"
    assert "host.gpu" not in seen.readings


@pytest.mark.parametrize("changes", [{"error.nvmlInitWithFlags": "28"}, {"count": "0"}], ids=["error", "count"])
def test_a_driver_without_a_gpu_is_seen_to_have_none(host: Host, changes: dict[str, str]) -> None:
    seen = facts(host.look({**H100, **changes}))
    assert (seen["gpu_count"], seen["gpu"]) == (0, None)


def test_a_lost_gpu_is_missing_and_told_while_the_others_stand(host: Host) -> None:
    seen = facts(host.look({**EIGHT, "gpu.5.error.*": "15"}))
    assert (seen["gpu_count"], seen["gpu"]) == (7, "NVIDIA A100-SXM4-80GB")
    assert seen.checks["check.gpus_healthy"].status.value == "fail"
    assert seen.warnings == ["GPU 5 is lost: the GPU is lost"]


def test_a_server_on_no_gpu_is_told_where_pids_can_be_compared(host: Host) -> None:
    (host.root / "proc/self/ns").mkdir(parents=True)
    (host.root / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
    machine = host.look({**H100, "gpu.1.pid": "4242"})
    assert machine.host_pids
    assert [gpu_readings.idle(machine, frozenset({pid})) for pid in (4242, 71)] == [False, True]
    hidden = host.look({**H100, "error.nvmlDeviceGetComputeRunningProcesses_v3": "4",
                        "error.nvmlDeviceGetComputeRunningProcesses_v2": "4"})  # fmt: skip
    assert not gpu_readings.idle(hidden, frozenset({71}))


def test_the_gpus_of_a_process_are_those_on_which_the_driver_shows_it(host: Host) -> None:
    (host.root / "proc/self/ns").mkdir(parents=True)
    (host.root / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
    machine = host.look({**MIXED, "gpu.1.pid": "4242"})
    choice = gpu_readings.pick(machine, {"CUDA_VISIBLE_DEVICES": "0"}, frozenset({4242}))
    assert [gpu.card.name for gpu in choice.gpus] == ["NVIDIA A100-SXM4-40GB"]
    sliced = host.look({**MIG, "gpu.0.pid": "4242 2 0"})
    (one,) = gpu_readings.pick(sliced, {}, frozenset({4242})).gpus
    assert one.part is not None
    assert one.part.profile == "4g.40gb"
    (host.root / "proc/self/ns/pid").unlink()
    inside = host.look({**MIXED, "gpu.1.pid": "4242"})
    assert gpu_readings.pick(inside, {"CUDA_VISIBLE_DEVICES": "0"}, frozenset({4242})).trouble is not None


def test_gpus_of_another_container_do_not_count(host: Host) -> None:
    hidden = {"gpu.2.error.nvmlDeviceGetHandleByIndex_v2": "4", "gpu.3.error.nvmlDeviceGetHandleByIndex_v2": "4"}
    seen = facts(host.look({**EIGHT, "count": "4", **hidden}))
    assert seen["gpu_count"] == 2
    assert seen.warnings == ["GPU 2 belongs to another container", "GPU 3 belongs to another container"]


def test_an_empty_slot_between_two_slices_hides_neither(host: Host) -> None:
    machine = host.look(MIG)
    assert [part.profile for part in machine.cards[0].slices] == ["3g.40gb", "4g.40gb"]
    seen = facts(machine, {"CUDA_VISIBLE_DEVICES": "MIG-2"})
    assert (seen["mig"], seen["sm_count"], seen["gpu_memory"], seen["gpu_count"]) == ("4g.40gb", 64, "40 GiB", 1)
    assert seen["gpu"] == "NVIDIA H100 80GB HBM3"


def test_unlike_gpus_of_one_server_are_a_finding(host: Host) -> None:
    machine = host.look(MIXED)
    seen = facts(machine)
    assert seen["gpu"] == ("Tesla T4", "NVIDIA A100-SXM4-40GB")
    assert seen["gpu_product"] == "1x NVIDIA A100-SXM4-40GB, 1x Tesla T4"
    assert seen.checks["check.gpus_alike"].status.value == "fail"
    ambiguous = facts(machine, {"CUDA_VISIBLE_DEVICES": "0"}, used=1)
    assert "fastest first" in ambiguous.gaps["host.gpu"].reason
    assert (
        facts(machine, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})["gpu"]
        == "NVIDIA A100-SXM4-40GB"
    )


def test_a_server_is_the_gpus_that_it_uses(host: Host) -> None:
    machine = host.look(EIGHT)
    assert facts(machine, used=2)["gpu_count"] == 2
    few = facts(machine, {"CUDA_VISIBLE_DEVICES": "0"}, used=2)
    assert few["gpu_count"] == 1
    assert few.checks["check.gpus_enough"].status.value == "fail"


def test_too_few_gpus_are_no_fault_where_others_may_lie_on_other_nodes(host: Host) -> None:
    machine = host.look(ONE)
    said = gpu_readings.gpu_facts(
        machine, gpu_readings.pick(machine, {}, frozenset()), GpuCount(16, "test", 16, spread=True)
    )
    told = next(check for check in said.checks if check.name == "check.gpus_enough")
    assert (told.status.value, "Ray may place the others" in told.detail) == ("unknown", True)


@pytest.mark.parametrize(
    "changes, key, reason",
    [
        ({"error.nvmlDeviceGetMemoryInfo": "20"}, "host.gpu_memory", "the driver has no memory left"),
        ({"error.nvmlSystemGetConfComputeState": "13"}, "host.confidential_compute", "the driver is older than the call"),
        ({"gpu.0.name": "H100 \\xff\\xfe"}, "host.gpu", "the driver returned text that is not UTF-8"),
        ({"error.nvmlDeviceGetNumGpuCores": "13"}, "host.sm_count", "the driver is older than the call"),
        ({"error.nvmlDeviceGetP2PStatus": "13"}, "host.interconnect", "the driver is older than the call"),
        ({"error.nvmlDeviceGetPciInfo_v3": "4"}, "host.gpu_device", "no permission"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_one_fact_that_is_not_told_takes_no_other_with_it(
    host: Host, changes: dict[str, str], key: str, reason: str
) -> None:
    seen = facts(host.look({**H100, **changes}))
    assert seen.gaps[key].reason == reason
    assert seen["driver"] == "550.90.07"
    assert seen["gpu_count"] == 2


def test_what_a_chip_lacks_is_a_value_where_that_means_one(host: Host) -> None:
    lacking = {key: value for key, value in ONE.items() if key not in ("cc", "gpu.*.virtualization", "gpu.*.mig_mode")}
    seen = facts(host.look(lacking))
    assert (seen["confidential_compute"], seen["virtualization"], seen["mig"]) == (False, "none", None)
    assert not seen.gaps


def test_a_long_name_is_whole(host: Host) -> None:
    name = "NVIDIA " + "X" * 88
    assert facts(host.look({**ONE, "gpu.0.name": name}))["gpu_product"] == name


@pytest.mark.parametrize("symbol", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetName"])
def test_a_driver_that_hangs_costs_its_time_and_no_more(host: Host, symbol: str) -> None:
    stuck = host.root / "stuck"
    stuck.touch()
    seen = facts(host.look({**ONE, f"hang.{symbol}": str(stuck)}, seconds=0.05))  # the call hangs until `stuck` is gone
    stuck.unlink()
    assert seen.gaps["host"].reason.startswith(f"NVML hangs: nvml{'Init' if 'Init' in symbol else ''}")
    assert seen["driver"] == "550.90.07"
    for thread in threading.enumerate():  # the call ends before the next test asks the same library
        if thread.daemon and thread is not threading.current_thread():
            thread.join(5)


@pytest.mark.parametrize(
    "ailment", [{"gpu.0.ecc_errors": "3"}, {"gpu.0.remapped": "1 0"}, {"gpu.0.pages_pending": "1"}]
)
def test_memory_errors_and_waiting_repairs_are_a_finding(host: Host, ailment: dict[str, str]) -> None:
    assert facts(host.look({**ONE, **ailment})).checks["check.gpus_healthy"].status.value == "fail"


@pytest.mark.parametrize(
    "driver, made, runtime, mapped, status, words",
    [
        ("550.90.07", "12040", "12.4", None, "pass", "driver 550.90.07 and CUDA runtime 12.4"),
        ("525.60.13", "12000", "12.8", None, "pass", "minor-version compatibility; all features of CUDA 12.8 need 570.26"),
        ("520.61.05", "11080", "12.8", None, "fail", "needs driver 525.60.13 or newer"),
        ("520.61.05", "11080", "12.8", DriverLibrary("570.124.06", "/usr/local/cuda/compat/libcuda.so.1", True), "pass",
         "with the compat library 570.124.06"),
        ("520.61.05", "11080", "13.0", DriverLibrary("570.124.06", "/usr/local/cuda/compat/libcuda.so.1", True), "fail",
         "with the compat library 570.124.06, needs 580.65.06 or newer"),
        ("580.95.05", "13000", "12.8", None, "pass", "driver 580.95.05 and CUDA runtime 12.8"),
        ("570.26", "12080", "13.0", None, "fail", "needs driver 580.65.06 or newer"),
        ("570.26", "12080", "14.0", None, "unknown", "the oldest driver that supports this CUDA is not known"),
        ("575.51.03", "", "12.9", None, "pass", "driver 575.51.03 and CUDA runtime 12.9"),
        ("470.42.01", "", "11.8", None, "pass", "minor-version compatibility; all features of CUDA 11.8 need 520.61.05"),
        ("440.33.01", "", "11.8", None, "fail", "needs driver 450.80.02 or newer"),
    ],
    ids=lambda value: value if isinstance(value, str) and value[:1].isdigit() else "",
)  # fmt: skip
def test_a_driver_must_be_new_enough_for_the_runtime(
    host: Host, driver: str, made: str, runtime: str, mapped: DriverLibrary | None, status: str, words: str
) -> None:
    said = (
        {**ONE, "driver": driver, "cuda": made} if made else {**ONE, "driver": driver, "error.nvmlInitWithFlags": "4"}
    )
    host.kernel(driver)
    check = stack_fit.supports(host.look(said), runtime, mapped)
    assert check is not None
    assert (check.status.value, check.detail.endswith(words)) == (status, True), check.detail


def test_a_consumer_card_takes_no_forward_compatibility(host: Host) -> None:
    host.kernel("520.61.05")
    machine = host.look({**ONE, "driver": "520.61.05", "cuda": "11080", "gpu.*.name": "NVIDIA GeForce RTX 4090"})
    check = stack_fit.supports(machine, "12.8", DriverLibrary("570.124.06", "/compat/libcuda.so.1", True))
    assert check is not None
    assert (check.status.value, check.fix.endswith("(CUDA error 804)")) == ("fail", True)


def test_a_floor_is_known_for_every_toolkit() -> None:
    for toolkit, first in stack_fit.TOOLKITS.items():
        assert stack_fit.numbers(first) >= stack_fit.numbers(stack_fit.FLOORS[stack_fit.numbers(toolkit)[0]])
    ordered = sorted(stack_fit.TOOLKITS, key=stack_fit.numbers)
    drivers = [stack_fit.numbers(stack_fit.TOOLKITS[toolkit]) for toolkit in ordered]
    assert drivers == sorted(drivers)


@pytest.mark.parametrize(
    "nvml, libcuda, status",
    [
        ("550.90.07", None, "pass"),
        ("550.54.15", None, "fail"),
        (None, DriverLibrary("550.90.07", "/usr/lib/libcuda.so.1", False), "pass"),
        (None, DriverLibrary("550.54.15", "/usr/lib/libcuda.so.1", False), "fail"),
        (None, DriverLibrary("570.124.06", "/usr/local/cuda/compat/libcuda.so.1", True), "pass"),
        (None, DriverLibrary("535.104.05", "/usr/local/cuda/compat/libcuda.so.1", True), "fail"),
    ],
)  # fmt: skip
def test_kernel_module_and_libraries_are_of_one_release(
    host: Host, nvml: str | None, libcuda: DriverLibrary | None, status: str
) -> None:
    if nvml is not None:
        host.write("proc/self/maps", f"7f00-7f01 r--p 00000000 08:01 1 /usr/lib/libnvidia-ml.so.{nvml}\n")
    check = stack_fit.one_driver(host.look(ONE), libcuda)
    assert check is not None
    assert check.status.value == status, check.detail


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"gpu.0.compute_mode": "2"}, "NVML shows the GPUs, but GPU 0: its compute mode is prohibited"),
        ({"gpu.0.fabric": "2"}, "NVML shows the GPUs, but GPU 0: it has not joined the NVLink fabric"),
        ({"gpu.0.fabric": "3"}, None),
        ({"gpu.0.fabric": "0"}, None),
        ({}, None),
    ],
)
def test_nvml_works_and_cuda_does_not(host: Host, changes: dict[str, str], words: str | None) -> None:
    machine = host.look({**ONE, **changes})
    check = stack_fit.usable(machine, gpu_readings.pick(machine, {}, frozenset()).gpus, (), "")
    assert (check.detail if check is not None else None) == words


def _observe(env: Mapping[str, str], *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "lockllm", "observe", "--stage", "preflight", *options]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_command_finds_the_library_on_the_loaders_path(library: Path, tmp_path: Path) -> None:
    (tmp_path / "machine").write_text(text(H100))
    env = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(tmp_path / "machine")}
    seen = _observe(env, "--gpu", "nvidia")["facts"]
    assert seen["host.gpu"][0]["value"] == "NVIDIA H100 80GB HBM3"
    assert seen["host.driver"][0]["value"] == "550.90.07"


def test_a_file_that_is_no_library_is_said_in_the_loaders_words(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    gap = _observe({"LD_LIBRARY_PATH": str(tmp_path)}, "--gpu", "nvidia")["unobserved"]["host"]
    assert gap["reason"].startswith("the NVML library cannot be loaded: ")


def test_gpus_that_were_not_looked_at_are_not_absent() -> None:
    seen = _observe({}, "--gpu", "none")
    assert seen["unobserved"]["host"]["reason"] == "GPUs were not inspected (--gpu none)"
    assert "host.gpu" not in seen["facts"]
