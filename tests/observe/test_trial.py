"""What only trying tells: CUDA started and torch imported in child processes, packages compared with what they were."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockllm.facts.observation import By
from lockllm.facts.registry import seen
from lockllm.observe.cuda import stack_fit, trial
from lockllm.observe.gpu.cards import Card, Machine
from lockllm.observe.gpu.visible import VisibleGpu
from lockllm.observe.python import environments, installed
from lockllm.observe.safe import child
from tests.observe import hosts
from tests.observe.machines import DRIVER_SOURCE

TORCH = """
import types
__version__ = "2.8.0+cu128"
version = types.SimpleNamespace(cuda="12.8", hip=None)
backends = types.SimpleNamespace(
    cudnn=types.SimpleNamespace(version=lambda: 91002), cpu=types.SimpleNamespace(get_cpu_capability=lambda: "AVX512"))
cuda = types.SimpleNamespace(nccl=types.SimpleNamespace(version=lambda: (2, 27, 3)))
_C = types.SimpleNamespace(_cuda_getArchFlags=lambda: "sm_80 sm_90 compute_90")
print("noise of an import")
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fake libcuda."""
    folder = tmp_path_factory.mktemp("cuda")
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*command, "-o", folder / "libcuda.so.1", DRIVER_SOURCE], check=True)
    return folder


@pytest.mark.parametrize(
    "says, wrong",
    [
        ("0 2", None),
        ("803 0", "CUDA does not start: error 803, libcuda and the kernel module are of different releases"),
        ("802 0", "CUDA does not start: error 802, the system is not ready: the NVLink fabric is not up"),
        ("999 0", "CUDA does not start: error 999, unknown error, often a missing /dev/nvidia-uvm"),
        ("77 0", "CUDA does not start: error 77, see the error codes of the CUDA driver"),
        ("crash", "a process that starts CUDA was killed by signal 6"),
    ],
)
def test_cuda_is_started_in_a_child_with_the_servers_search_path(
    driver: Path, monkeypatch: pytest.MonkeyPatch, says: str, wrong: str | None
) -> None:
    monkeypatch.setenv("FAKE_CUDA", says)
    tried = trial.cuda({"LD_LIBRARY_PATH": str(driver), "HF_TOKEN": "secret"}, {})
    assert [each.reason for each in tried.wrong] == ([wrong] if wrong else [])
    assert tried.done == ("" if wrong else "CUDA starts, and sees 2 GPUs")
    machine = Machine(platform="cuda", cards=(Card(index=0),), source="NVML")
    check = stack_fit.usable(machine, (VisibleGpu(card=machine.cards[0]),), tried.wrong, tried.done)
    assert check is not None
    assert check.status.value == ("fail" if wrong else "pass")


def test_a_library_that_is_not_there_is_no_proof_of_anything(tmp_path: Path) -> None:
    tried = trial.cuda({"LD_LIBRARY_PATH": str(tmp_path)}, {})
    if not tried.done:  # a machine with a driver has one on the loader's own path
        assert tried.unknown.startswith("libcuda.so.1 cannot be loaded: ")
        assert not tried.wrong


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = hosts.environment(tmp_path / "venv", {"torch": "2.8.0+cu128"})
    (hosts.site(made) / "torch.py").write_text(TORCH)
    return made


def test_an_import_tells_what_no_file_does(home: Path) -> None:
    held = [seen("cuda.nccl", "2.26.2", "wheel", By.PACKAGE), seen("cuda.cudnn", "9.10.2.21", "wheel", By.PACKAGE)]
    tried = trial.torch(home / "bin" / "python", {"PATH": os.environ["PATH"]}, held)
    told = {each.fact.key: each.value for each in tried.readings}
    assert told == {"cuda.runtime": "12.8", "cuda.nccl": "2.27.3", "kernels.cpu_capability": "AVX512"}
    assert tried.codes == ("sm_80", "sm_90", "compute_90")


def test_a_torch_that_cannot_be_imported_is_a_gap_in_its_own_words(home: Path) -> None:
    (hosts.site(home) / "torch.py").write_text("raise ImportError('libcudnn.so.9: cannot open shared object file')")
    (gap,) = trial.torch(home / "bin" / "python", {}, []).unobserved
    assert gap.reason.endswith("gave no answer: ImportError: libcudnn.so.9: cannot open shared object file")


def test_an_interpreter_that_others_can_write_is_not_run_for_depth(home: Path) -> None:
    (home / "bin").chmod(0o777)
    (gap,) = trial.torch(home / "bin" / "python", {}, []).unobserved
    assert "is not run: everybody can write" in gap.reason


@pytest.mark.parametrize(
    "capability, codes, good",
    [
        ("9.0", "sm_80 sm_90", True),
        ("8.6", "sm_80 sm_90", True),
        ("7.5", "sm_80 sm_90", False),
        ("10.0", "sm_80 sm_90", False),
        ("10.0", "sm_90 compute_90", True),
        ("12.0", "sm_100a sm_120", True),
        ("9.0", "", True),
    ],
)
def test_a_torch_without_code_for_the_gpu_is_told(capability: str, codes: str, good: bool) -> None:
    found = trial.without_code((VisibleGpu(card=Card(index=0, capability=capability)),), codes.split())
    assert (not found) is good


@pytest.mark.parametrize(
    "code, words",
    [
        ("import sys; sys.exit('it is broken')", "gave no answer: it is broken"),
        ("import os; os.kill(os.getpid(), 11)", "was killed by signal 11"),
        ("while True: pass", "did not answer within 0.3 s"),
        ("print('lockllm-child:[1]')", "gave no answer: exit 0"),
    ],
)
def test_a_child_that_does_not_answer_says_why(code: str, words: str) -> None:
    assert child.ask((sys.executable, "-I"), code, 0.3 if "while" in code else 20.0) == words


def test_edited_files_are_told_by_name(tmp_path: Path) -> None:
    files = {f"vllm/{name}.py": "x = 1\n" for name in "abcde"}
    hosts.install(tmp_path, "vllm", "0.33.0", files=files)
    hosts.install(tmp_path, "torch", "2.8.0", files={"torch/__init__.py": "\n"})
    environment = environments.build("test", tmp_path, "3.11.7", (tmp_path,))
    good = installed.unedited(environment, installed.edits(environment, ["vllm", "torch", "none"]))
    assert good is not None
    assert (good.status.value, good.detail) == ("pass", "the files of 2 packages match RECORD")
    for name in "abcd":
        (tmp_path / "vllm" / f"{name}.py").write_text("x = 2\n")
    (tmp_path / "torch/__init__.py").unlink()
    bad = installed.unedited(environment, installed.edits(environment, ["vllm", "torch"]))
    assert bad is not None
    assert bad.detail == (
        "differ from RECORD: torch: torch/__init__.py; vllm: vllm/a.py, vllm/b.py, vllm/c.py and 1 more"
    )
    assert bad.fix == "reinstall them: pip install --force-reinstall --no-deps torch==2.8.0 vllm==0.33.0"
    assert installed.unedited(environment, {}) is None


@pytest.mark.parametrize(
    "line, version, detail",
    [
        ("nvidia-nccl-cu12==2.27.3; platform_system == 'Linux'", "2.27.3", "1 exact requirements are met"),
        ("nvidia-nccl-cu12 (==2.27.3)", "2.28.1", "torch requires nvidia-nccl-cu12 2.27.3, but 2.28.1 is installed"),
        (
            "nvidia_nccl_cu12==2.27.3+cu12",
            "2.27.3",
            "torch requires nvidia-nccl-cu12 2.27.3+cu12, but 2.27.3 is installed",
        ),
        ("nvidia-nccl-cu12==2.27.3; extra == 'nccl'", "2.28.1", None),
        ("nvidia-nccl-cu12>=2.20", "2.28.1", None),
        ("nvidia-nccl-cu12==2.27.3; python_version < '3.9'", "2.28.1", None),
        ("nvidia-nccl-cu12==2.27.3; no marker at all", "2.28.1", None),
    ],
)
def test_an_exact_requirement_that_is_not_met_is_told(
    tmp_path: Path, line: str, version: str, detail: str | None
) -> None:
    folder = hosts.install(tmp_path, "torch", "2.8.0")
    (folder / "METADATA").write_text(f"Name: torch\nVersion: 2.8.0\nRequires-Dist: {line}\n\nRequires-Dist: x==1\n")
    hosts.install(tmp_path, "nvidia-nccl-cu12", version)
    check = installed.pinned(environments.build("test", tmp_path, "3.11.7", (tmp_path,)), ("torch",))
    assert (check.detail if check is not None else None) == detail
