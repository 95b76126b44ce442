"""The laptop and the GPU host, by the command line: what a laptop cannot pin, an observation pins, and verify judges."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import ENVIRON, TINY
from tests.observe import hosts
from tests.observe.machines import A100, H100, SLICED, text

SPEC = """[checkpoint]
path = "model"

[engine]
name = "sglang"
version = "0.5.5"

[serve]
tensor_parallel_size = 2

[host]
gpu = "H100 80GB HBM3"
driver = ">=550.54.14"
"""
TORCH = "__version__ = '2.8.0+cu128'\ncuda: str = '12.8'\nhip = None\n"
WHEELS = {
    "sglang": "0.5.5", "torch": "2.8.0+cu128", "transformers": "4.57.1", "nvidia-nccl-cu12": "2.27.3",
    "nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cublas-cu12": "12.8.4.1",
}  # fmt: skip


class Place:
    """A folder with a spec, beside an environment that serves and a machine that is a fake."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        shutil.copytree(TINY / "model", folder / "model")
        (folder / "llm.toml").write_text(SPEC)
        self.home = hosts.environment(folder / "venv", WHEELS)
        (hosts.site(self.home) / "torch").mkdir()
        (hosts.site(self.home) / "torch" / "version.py").write_text(TORCH)
        self.env = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(folder / "machine")}
        self.machine({})

    def machine(self, changes: Mapping[str, str]) -> None:
        """What the machine is from now on."""
        (self.folder / "machine").write_text(text({**H100, **changes}))

    def laptop(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command where no GPU and no engine is."""
        return self._run({}, *arguments)

    def host(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command on the machine that serves."""
        python = str(self.home / "bin" / "python")
        return self._run(self.env, *arguments, "--gpu", "nvidia", "--python", python, "--stage", "preflight")

    def _run(self, env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {**ENVIRON, "LOCKLLM_CACHE": str(self.folder / "cache"), **env}
        done = subprocess.run(
            [sys.executable, "-m", "lockllm", *arguments], cwd=self.folder, env=environ, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Place:
    """One place, locked from an observation of its machine."""
    made = Place(tmp_path_factory.mktemp("place"), library)
    first = made.laptop("lock")
    assert first.returncode == 0, first.stderr
    for group in ("packages", "cuda", "host"):
        assert f"\n  {group}: " in first.stdout + first.stderr
    assert made.laptop("lock", "--strict").returncode == 1
    assert '\n"host" = "no host was looked at' in (made.folder / "llm.lock").read_text()
    seen = made.host("observe", "-o", "host.json")
    assert seen.returncode == 0, seen.stderr
    assert made.laptop("lock", "--observation", "host.json").returncode == 0
    return made


@pytest.fixture
def host(place: Place) -> Place:
    """The place, its machine as it was locked."""
    place.machine({})
    return place


def test_what_a_laptop_could_not_pin_an_observation_pins(place: Place) -> None:
    lock = (place.folder / "llm.lock").read_text()
    for line in (
        'gpu_product = "NVIDIA H100 80GB HBM3"', "gpu_count = 2", 'driver = "550.90.07"', 'runtime = "12.8"',
        'nccl = "2.27.3"', 'torch = "2.8.0+cu128"', '"host.driver" = ">=550.54.14"',
    ):  # fmt: skip
        assert f"\n{line}" in lock
    assert '\n"host" = ' not in lock.partition("[checkpoint]")[0]
    for private in ("GPU-", "00000000:", str(place.folder)):
        assert private not in lock


def test_every_policy_that_is_not_exact_is_written(place: Place) -> None:
    table = (place.folder / "llm.lock").read_text().partition("[policy]\n")[2].partition("\n\n")[0]
    assert set(table.splitlines()) >= {
        '"host.driver" = "compatible"', '"host.gpu_product" = "report"', '"host.driver_cuda" = "report"',
        '"host.virtualization" = "report"', '"host.python" = "report"',
    }  # fmt: skip


def test_the_locked_host_verifies(host: Place) -> None:
    done = host.host("verify")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "changes, code, told",
    [
        ({"driver": "570.124.06", "cuda": "12080"}, 0, "host.driver"),
        ({"driver": "535.104.05", "cuda": "12020"}, 1, "host.driver"),
        ({"gpu.*.name": "H100 80GB HBM3"}, 0, "host.gpu_product"),
        ({"gpu.*.name": "NVIDIA H100 PCIe", "gpu.*.ids": "233110DE"}, 1, "host.gpu"),
        (A100, 1, "host.compute_capability"),
        ({"count": "1"}, 1, "host.gpu_count"),
        ({"gpu.1.error.*": "15"}, 1, "the GPU is lost"),
        ({"gpu.0.ecc_errors": "2"}, 1, "check.gpus_healthy"),
        (SLICED, 1, "host.mig"),
        ({"error.nvmlInitWithFlags": "4"}, 3, "no permission to use the GPU devices"),
        ({"error.nvmlInitWithFlags": "999"}, 3, "restart the container"),
        ({"error.nvmlDeviceGetNumGpuCores": "13"}, 3, "host.sm_count"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_another_machine_is_told_by_what_differs(host: Place, changes: dict[str, str], code: int, told: str) -> None:
    host.machine(changes)
    done = host.host("verify", "--full")
    assert (done.returncode, told in done.stdout) == (code, True), done.stdout


@pytest.mark.parametrize(
    "changes, unpinned",
    [
        ({"error.nvmlDeviceGetNumGpuCores": "13"}, '"host.sm_count" = "the driver is older than the call"'),
        ({"error.nvmlInitWithFlags": "4"}, '"host" = "NVML: no permission to use the GPU devices"'),
    ],
    ids=["one fact", "broken"],
)
def test_what_the_host_could_not_show_stands_unpinned_with_its_reason(
    host: Place, changes: dict[str, str], unpinned: str
) -> None:
    host.machine(changes)
    assert host.host("observe", "-o", "part.json").returncode == 0
    assert host.laptop("lock", "--observation", "part.json", "-o", "part.lock").returncode == 0
    assert f"\n{unpinned}\n" in (host.folder / "part.lock").read_text()


@pytest.mark.parametrize("gpu", ["auto", "nvidia"])
def test_verify_imports_the_binding_only_where_a_gpu_may_be(place: Place, gpu: str) -> None:
    code = (
        "import sys; from pathlib import Path; from lockllm.observe import gpu as g; "
        f"g.signs = lambda root=Path('/'): frozenset(); from lockllm.cli import main; import contextlib\n"
        f"sys.argv = ['lockllm', 'verify', '--gpu', '{gpu}', '--stage', 'preflight']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "print('pynvml' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place.folder, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == str(gpu == "nvidia"), done.stderr
