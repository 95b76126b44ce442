"""Libraries that a running server maps: which copy, which release, and where it comes from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.process import proc
from lockllm.observe.python import distributions
from lockllm.observe.python.distributions import Distribution
from lockllm.observe.safe import files

CUDA = {
    "libcuda": "driver_library",
    "libcudart": "runtime",
    "libnccl": "nccl",
    "libcudnn": "cudnn",
    "libcublas": "cublas",
}
"""Library -> the last part of the `cuda` fact that it decides."""
_FILE = re.compile(
    r"(libcuda|libcudart|libnccl|libcudnn|libcublas|libllama|libggml(?:-[a-z]+)?|xllamacpp)(?:-[0-9a-f]{6,})?(?:\.abi3)?\.so(?:\.([\d.]+))?\Z"
)
_NCCL = re.compile(rb"NCCL version (\d+\.\d+\.\d+)")
_WEIGHTS = (".gguf", ".safetensors", ".bin", ".pt", ".pth")
_BLOCK = 1 << 20


class MappedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The mapped files of a server, over all its processes."""

    files: tuple[tuple[proc.Process, proc.MappedFile], ...] = ()
    closed: str = ""  # why some of them could not be read

    @property
    def weights(self) -> tuple[proc.MappedFile, ...]:
        """Mapped weight files, each once."""
        found = {file.path: file for _, file in self.files if file.path.lower().endswith(_WEIGHTS)}
        return tuple(found.values())

    @property
    def sites(self) -> tuple[str, ...]:
        """The site folders that contain mapped extensions."""
        found = [match[1] for _, file in self.files if (match := re.match(r"(.*/(?:site|dist)-packages)/", file.path))]
        return tuple(sorted(set(found), key=lambda site: (-found.count(site), site)))


def mapped_files(processes: Iterable[proc.Process], root: Path = proc.PROC) -> MappedFiles:
    """What these processes map."""
    files: list[tuple[proc.Process, proc.MappedFile]] = []
    closed = ""
    for process in processes:
        try:
            files += [(process, file) for file in proc.mapped_files(process.pid, root)]
        except PermissionError:
            closed = closed or f"process {process.pid} belongs to another user"
        except OSError:
            continue
    return MappedFiles(files=tuple(files), closed=closed)


def readings(
    mappings: MappedFiles, installed: Mapping[str, Distribution], *, hashing: bool
) -> tuple[list[Reading], list[Unobserved], list[Check]]:
    """What is mapped of each library that lockllm knows. With `hashing`, every byte is read."""
    found: list[Reading] = []
    unseen: list[Unobserved] = []
    copies: dict[str, dict[tuple[str, int], tuple[proc.Process, proc.MappedFile]]] = {}
    for process, file in mappings.files:
        if match := _FILE.match(Path(file.path).name):
            copies.setdefault(match[1], {}).setdefault((file.path, file.inode), (process, file))
    if mappings.closed:
        fix = "run lockllm as the user of the server, or as root"
        unseen.append(Unobserved(("libraries",), mappings.closed, fix))
    for name, several in copies.items():
        for process, file in several.values():
            one, missing = _library(name, process, file, installed, hashing)
            found += one
            unseen += missing
    return found, unseen, [_alone(copies)] if mappings.files else []


def _library(
    name: str, process: proc.Process, file: proc.MappedFile, installed: Mapping[str, Distribution], hashing: bool
) -> tuple[list[Reading], list[Unobserved]]:
    source = f"pid {process.pid} maps {file.path}"
    path = proc.inside(process.root, file.path)
    named = _FILE.match(Path(file.path).name)
    version = named[2] if named and named[2] and "." in named[2] else None
    wheel = distributions.owner(Path(file.path), installed)
    version = release(name, version, wheel)
    origin = "compat" if "/compat/" in file.path else "wheel" if "-packages/" in file.path else "system"
    found = [seen(("libraries", name, "origin"), origin, source, By.LIBRARY)]
    unseen: list[Unobserved] = []
    gone = "the mapped file was replaced on disk since the server started"
    if file.deleted:
        unseen.append(Unobserved(("libraries", name, "sha256"), gone, "restart the server"))
        version = None if wheel else version
    elif hashing:
        try:
            digest, inner = _digest(path, name == "libnccl" and version is None)
        except OSError as error:
            unseen.append(Unobserved(("libraries", name, "sha256"), f"{file.path}: {error.strerror}", ""))
        else:
            found.append(seen(("libraries", name, "sha256"), digest, source, By.LIBRARY))
            version = version or inner
    if version is not None:
        found.append(seen(("libraries", name, "version"), version, source, By.LIBRARY))
        if name in CUDA:
            found.append(seen(("cuda", CUDA[name]), fact_value(name, version), source, By.LIBRARY))
    else:
        unseen.append(Unobserved(("libraries", name, "version"), f"{file.path} does not show its version", ""))
    return found, unseen


def release(name: str, named: str | None, wheel: Distribution | None) -> str | None:
    """The release of a library by its file's name, else by its wheel. Another project's wheel only carries it."""
    if name == "libcudart" and named == "11.0":  # every CUDA 11 has this name
        named = None
    if named is not None or wheel is None:
        return named
    return wheel.version if name not in CUDA or wheel.name.startswith("nvidia-") else None


def fact_value(name: str, version: str) -> str:
    """A library's release as its `cuda` fact has it: for the runtime, major and minor."""
    return ".".join(version.split(".")[:2]) if name == "libcudart" else version


def _digest(path: Path, search: bool) -> tuple[str, str | None]:
    digest = hashlib.sha256()
    version = None
    tail = b""
    with files.opened(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            if search and version is None and (found := _NCCL.search(tail + block)):
                version = found[1].decode()
            tail = block[-64:]
    return digest.hexdigest(), version


def _alone(copies: Mapping[str, Mapping[tuple[str, int], tuple[proc.Process, proc.MappedFile]]]) -> Check:
    """Whether one process maps two files of one library."""
    name = "check.one_copy_of_each_library"
    for library, several in copies.items():
        if library == "libcudart":  # several wheels carry one of their own, and each uses its own
            continue
        paths: dict[int, set[str]] = {}
        for process, file in several.values():
            paths.setdefault(process.pid, set()).add(file.path)
        for pid, listed in paths.items():
            if len(listed) > 1:
                detail = f"{library} is mapped twice: {' and '.join(sorted(listed))}"
                fix = "remove the copy that should not be loaded from LD_LIBRARY_PATH or LD_PRELOAD"
                return Check(name, CheckStatus.FAIL, detail, f"/proc/{pid}/maps", fix)
    return Check(name, CheckStatus.PASS, "no library is mapped twice", "/proc/PID/maps")
