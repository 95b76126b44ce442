"""Which library file a server would load, from real shared objects in the order that the loader looks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from lockllm.facts.observation import ABSENT, By, Reading
from lockllm.facts.registry import seen
from lockllm.observe.cuda import elf, loader_search, mapped_libraries, toolkit
from lockllm.observe.cuda.mapped_libraries import MappedFiles
from lockllm.observe.process import proc
from lockllm.observe.python import environments
from tests.observe import hosts

WHEELS = {"torch": "2.8.0+cu128", "nvidia-nccl-cu12": "2.27.3", "nvidia-cudnn-cu12": "9.10.2.21"}


def shared(path: Path, soname: str, *flags: str) -> Path:
    """A real shared object of that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.parent / "empty.c"
    source.write_text("int answer(void) { return 42; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", path, source, *flags], check=True)
    source.unlink()
    return path


class Place:
    """A torch with its wheels, and folders that may hold other copies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = hosts.environment(folder / "venv", WHEELS)
        site = hosts.site(self.home)
        nccl = shared(site / "nvidia/nccl/lib/libnccl.so.2", "libnccl.so.2")
        cudnn = shared(site / "nvidia/cudnn/lib/libcudnn.so.9", "libcudnn.so.9")
        self.torch = site / "torch" / "lib"
        paths = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/nccl/lib"
        self.flags = ["-Wl,--no-as-needed", str(nccl), str(cudnn), f"-Wl,-rpath,{paths}"]
        self.link("--disable-new-dtags")
        (site / "torch" / "version.py").write_text("cuda = '12.8'\nhip = None\n")
        found = environments.of_command((str(self.home / "bin/python"),), {}, "/")
        assert found is not None
        self.environment = found

    def link(self, tags: str) -> None:
        """The part of torch that needs the libraries, with an old or a new kind of search path."""
        shared(self.torch / "libtorch_global_deps.so", "libtorch_global_deps.so", *self.flags, f"-Wl,{tags}")

    def copy(self, where: str, name: str, soname: str) -> Path:
        """Another copy of a library, as a system has it: the file carries the release, a link the soname."""
        path = shared(self.folder / where / name, soname)
        (path.parent / soname).symlink_to(name)
        return path

    def told(self, env: Mapping[str, str], root: Path | None = None) -> dict[str, loader_search.Library]:
        """What would be loaded, by library."""
        found = loader_search.libraries(self.environment, env, str(self.folder), root or Path("/"))
        return {one.name: one for one in found}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_objects_needs_and_paths_are_read_from_its_headers(place: Place) -> None:
    found = elf.dynamic(place.torch / "libtorch_global_deps.so")
    assert found is not None
    assert {"libnccl.so.2", "libcudnn.so.9"} <= set(found.needed)
    assert (found.soname, found.runpath) == ("libtorch_global_deps.so", ())
    assert found.rpath[0].startswith("$ORIGIN/")
    place.link("--enable-new-dtags")
    newer = elf.dynamic(place.torch / "libtorch_global_deps.so")
    assert newer is not None
    assert (newer.rpath, len(newer.runpath)) == ((), 2)


@pytest.mark.parametrize("raw", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 200, b"MZ" * 100, b"\0" * 64])
def test_what_is_no_object_has_no_needs(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.so").write_bytes(raw)
    assert elf.dynamic(tmp_path / "x.so") is None
    assert elf.dynamic(tmp_path) is None
    assert elf.dynamic(tmp_path / "gone") is None


def test_torchs_own_search_path_comes_first(place: Place) -> None:
    place.copy("opt", "libnccl.so.2.21.5", "libnccl.so.2")
    one = place.told({"LD_LIBRARY_PATH": str(place.folder / "opt")})["libnccl"]
    assert (one.version, one.origin, one.why) == ("2.27.3", "wheel", "RPATH of torch")
    assert one.shadows.endswith("opt/libnccl.so.2")


def test_a_newer_kind_of_search_path_comes_after_the_variable(place: Place) -> None:
    place.link("--enable-new-dtags")
    place.copy("opt", "libnccl.so.2.21.5", "libnccl.so.2")
    assert place.told({"LD_LIBRARY_PATH": "opt"})["libnccl"].version == "2.21.5"
    assert place.told({})["libnccl"].why == "RUNPATH of torch"


def test_a_preloaded_library_beats_all_others(place: Place) -> None:
    path = place.copy("opt", "libnccl.so.2.21.5", "libnccl.so.2")
    one = place.told({"LD_PRELOAD": f"/gone.so:{path}"})["libnccl"]
    assert (one.version, one.origin, one.why) == ("2.21.5", "system", "LD_PRELOAD")


def test_vllm_is_told_which_nccl_to_load(place: Place) -> None:
    path = place.copy("opt", "libnccl.so.2.21.5", "libnccl.so.2")
    assert place.told({"VLLM_NCCL_SO_PATH": str(path)})["libnccl"].version == "2.21.5"


@pytest.mark.parametrize(
    "env, files, version, origin, why",
    [
        ({}, {"usr/lib64": "550.90.07"}, "550.90.07", "system", "the loader's own folders"),
        ({"LD_LIBRARY_PATH": "/usr/local/cuda/compat"}, {"usr/lib64": "550.90.07", "usr/local/cuda/compat": "570.124.06"},
         "570.124.06", "compat", "LD_LIBRARY_PATH"),
        ({}, {"usr/lib64": "550.90.07", "usr/local/cuda-12.8/compat": "570.124.06"}, "570.124.06", "compat",
         "00-compat-1.conf"),
        ({"VLLM_ENABLE_CUDA_COMPATIBILITY": "1"}, {"usr/lib64": "550.90.07", "usr/local/cuda-12.8/compat": "570.124.06"},
         "570.124.06", "compat", "LD_LIBRARY_PATH"),
        ({"VLLM_ENABLE_CUDA_COMPATIBILITY": "1", "VLLM_CUDA_COMPATIBILITY_PATH": "/opt/compat"},
         {"usr/lib64": "550.90.07", "opt/compat": "575.51.03"}, "575.51.03", "compat", "LD_LIBRARY_PATH"),
    ],
    ids=["driver", "variable", "configuration", "vllm", "vllm, where"],
)  # fmt: skip
def test_cuda_compat_stands_in_front_by_three_doors(
    place: Place, env: dict[str, str], files: dict[str, str], version: str, origin: str, why: str
) -> None:
    root = place.folder / "root"
    (root / "etc/ld.so.conf.d").mkdir(parents=True)
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    if why.endswith(".conf"):
        (root / "etc/ld.so.conf.d" / why).write_text("# by the hook\n/usr/local/cuda-12.8/compat\n")
    for where, release in files.items():
        place.copy(f"root/{where}", f"libcuda.so.{release}", "libcuda.so.1")
    one = place.told(env, root)["libcuda"]
    assert (one.version, one.origin, one.why) == (version, origin, why)


def test_a_file_in_front_of_a_wheel_decides_and_is_told(place: Place) -> None:
    path = place.copy("opt", "libnccl.so.2.21.5", "libnccl.so.2")
    wheel = seen("cuda.nccl", "2.27.3", "nvidia_nccl_cu12-2.27.3.dist-info", By.PACKAGE)
    held: list[Reading] = [wheel, seen("cuda.cudnn", "9.10.2.21", "metadata", By.PACKAGE)]
    found = toolkit.planned(place.environment, {"LD_PRELOAD": str(path)}, "/", held)
    told = {each.fact.key: each.value for each in found.readings}
    assert (told["cuda.nccl"], told["libraries.libnccl.origin"]) == ("2.21.5", "system")
    assert found.instead == {("cuda", "nccl")}
    assert found.warnings == (
        f"libnccl 2.21.5 would be loaded from {path} (LD_PRELOAD), not 2.27.3 from nvidia_nccl_cu12-2.27.3.dist-info",
    )
    plain = toolkit.planned(place.environment, {}, "/", held)
    assert (plain.instead, plain.warnings) == (frozenset(), ())
    assert "cuda.nccl" not in {each.fact.key for each in plain.readings}


def test_without_torch_only_the_drivers_library_is_sought(tmp_path: Path) -> None:
    assert loader_search.libraries(None, {}, "/", tmp_path) == ()


@pytest.mark.parametrize(
    "files, env, version",
    [
        ({"usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}'}, {}, "12.8"),
        ({"usr/local/cuda/version.txt": "CUDA Version 10.2.89\n"}, {}, "10.2"),
        ({"usr/local/cuda/include/cuda.h": "#define CUDA_VERSION 13000\n"}, {}, "13.0"),
        ({"opt/cuda/version.json": '{"cuda": {"version": "12.4.0"}}', "usr/local/cuda/version.txt": "CUDA Version 11.8"},
         {"CUDA_HOME": "/opt/cuda"}, "12.4"),
        ({"usr/local/cuda-12.6/bin/nvcc": ""}, {"CUDA_PATH": "/usr/local/cuda-12.6"}, "12.6"),
        ({}, {}, None),
    ],
)  # fmt: skip
def test_the_systems_toolkit_tells_its_release(
    tmp_path: Path, files: dict[str, str], env: dict[str, str], version: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    reading = toolkit.toolkit(env, tmp_path)
    assert (None if reading.value is ABSENT else reading.value) == version
    assert reading.by is By.FILE


@pytest.mark.parametrize(
    "path, fact, value",
    [
        ("/usr/lib/x86_64-linux-gnu/libcudart.so.12.4.127", "cuda.runtime", "12.4"),
        ("/usr/lib/libcudart.so.11.0", "cuda.runtime", None),
        ("/usr/lib/libcuda.so.550.90.07", "cuda.driver_library", "550.90.07"),
        ("/usr/local/cuda-12.8/compat/libcuda.so.570.124.06", "cuda.driver_library", "570.124.06"),
        ("/venv/lib/python3.11/site-packages/torch/lib/libcudnn.so.8", "cuda.cudnn", None),
        ("/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "cuda.nccl", "2.27.3"),
    ],
)
def test_a_mapped_library_tells_its_release_by_its_file_or_its_wheel(
    place: Place, path: str, fact: str, value: str | None
) -> None:
    process = proc.read(1)
    held = MappedFiles(files=((process, proc.MappedFile(path, "08:01", 7, False)),))
    found, _, _ = mapped_libraries.readings(held, place.environment.distributions, hashing=False)
    assert {each.fact.key: each.value for each in found}.get(fact) == value


def test_two_copies_of_one_library_in_one_process_are_a_finding(place: Place) -> None:
    process = proc.read(1)
    paths = ("/usr/lib/libnccl.so.2.21.5", "/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2")
    files = tuple((process, proc.MappedFile(path, "08:01", at, False)) for at, path in enumerate(paths))
    _, _, checks = mapped_libraries.readings(MappedFiles(files=files), {}, hashing=False)
    assert [(each.name, each.status.value) for each in checks] == [("check.one_copy_of_each_library", "fail")]
