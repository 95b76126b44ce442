"""Which file the loader would use for each CUDA library: LD_PRELOAD, RPATH, LD_LIBRARY_PATH, RUNPATH, configuration."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from lockllm.observe.cuda import elf
from lockllm.observe.cuda.elf import Dynamic
from lockllm.observe.cuda.mapped_libraries import release
from lockllm.observe.process import proc
from lockllm.observe.python import distributions
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files

_NAMES = re.compile(r"(libcuda|libcudart|libnccl|libcudnn|libcublas)\.so\.\d+\Z")
_ROOTS = ("libtorch_global_deps.so", "libtorch_cuda.so", "libc10_cuda.so", "libtorch_python.so")
"""Parts of torch that need libraries of CUDA, in the order that an import loads them."""
_SYSTEM = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)
_DRIVER = "libcuda.so.1"
_MOST_CONF = 1 << 16
_VERSION = re.compile(r"\.so\.(\d+(?:\.\d+)+)\Z")


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """One library as it would be loaded."""

    name: str  # libnccl
    path: str  # as the server sees it
    why: str  # what made the loader take it: `LD_LIBRARY_PATH`
    version: str | None
    origin: str  # wheel, system, compat
    shadows: str = ""  # another copy that lies behind it


def libraries(environment: Environment | None, env: Mapping[str, str], cwd: str, root: Path) -> tuple[Library, ...]:
    """The CUDA libraries that a server with this environment would load. lockllm loads none of them."""
    wanted: dict[str, list[tuple[str, Dynamic | None, Path | None]]] = {}
    for folder, part in _parts(environment):
        needs = elf.dynamic(part)
        for name in needs.needed if needs else ():
            if found := _NAMES.fullmatch(name):
                wanted.setdefault(found[1], []).append((name, needs, folder))
    wanted.setdefault("libcuda", []).append((_DRIVER, None, None))
    env = _with_compat(env, environment)
    installed = environment.distributions if environment else {}
    found_all = []
    for stem, several in sorted(wanted.items()):
        name, asked, origin = several[0]
        places = list(dict.fromkeys(_places(stem, name, asked, origin, env, cwd, root)))
        if places:
            (path, why), *rest = places
            found_all.append(_library(stem, path, why, rest, installed, root))
    return tuple(found_all)


def toolkit(env: Mapping[str, str], root: Path) -> tuple[str | None, str]:
    """The release of the system's CUDA toolkit, `12.8`, and the file that names it."""
    places = [env.get("CUDA_HOME"), env.get("CUDA_PATH"), "/usr/local/cuda"]
    for place in dict.fromkeys(each for each in places if each):
        for name, pattern in (
            ("version.json", r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"(\d+\.\d+)'),
            ("version.txt", r"CUDA Version (\d+\.\d+)"),
            ("include/cuda.h", r"#define\s+CUDA_VERSION\s+(\d{1,9})"),
        ):
            text = _text(proc.inside(root, f"{place}/{name}"))
            if found := re.search(pattern, text):
                number = found[1]
                version = number if "." in number else f"{int(number) // 1000}.{int(number) % 1000 // 10}"
                return version, f"{place}/{name}"
        real = os.path.realpath(proc.inside(root, place)) if root == Path("/") else str(proc.inside(root, place))
        if (found := re.search(r"/cuda-(\d+\.\d+)\Z", real)) and os.path.isdir(real):
            return found[1], place
    return None, "/usr/local/cuda"


def _parts(environment: Environment | None) -> Iterator[tuple[Path, Path]]:
    """The parts of torch, each with the folder that `$ORIGIN` stands for."""
    for site in environment.search if environment else ():
        folder = site / "torch" / "lib"
        if files.is_folder(folder):
            yield from ((folder, folder / name) for name in _ROOTS if files.is_file(folder / name))
            return


def _with_compat(env: Mapping[str, str], environment: Environment | None) -> Mapping[str, str]:
    """vLLM 0.17.0 and newer puts a cuda-compat folder first where a variable asks for it (`vllm/env_override.py`)."""
    if env.get("VLLM_ENABLE_CUDA_COMPATIBILITY", "").strip().lower() not in ("1", "true"):
        return env
    folder = env.get("VLLM_CUDA_COMPATIBILITY_PATH") or ""
    if not folder and env.get("CONDA_PREFIX"):
        folder = f"{env['CONDA_PREFIX']}/cuda-compat"
    torch = (environment.torch or {}).get("cuda") if environment else None
    if not folder and torch:
        folder = f"/usr/local/cuda-{torch}/compat"
    return {**env, "LD_LIBRARY_PATH": f"{folder}:{env.get('LD_LIBRARY_PATH', '')}"} if folder else env


def _places(
    stem: str, name: str, needs: Dynamic | None, origin: Path | None, env: Mapping[str, str], cwd: str, root: Path
) -> Iterator[tuple[str, str]]:
    """Every file of that name on the search path in order, and the rule that leads to it."""
    for path in re.split(r"[: ]+", env.get("LD_PRELOAD", "")):
        if os.path.basename(path).startswith(f"{stem}.so"):
            yield from _there(os.path.dirname(path) or "/", os.path.basename(path), "LD_PRELOAD", root)
    if stem == "libnccl" and (own := env.get("VLLM_NCCL_SO_PATH")):
        yield from _there(os.path.dirname(own), os.path.basename(own), "VLLM_NCCL_SO_PATH", root)
    for folder in _own(needs.rpath if needs else (), origin):
        yield from _there(folder, name, "RPATH of torch", Path("/"))
    for folder in env.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            yield from _there(os.path.join(cwd or "/", folder), name, "LD_LIBRARY_PATH", root)
    for folder in _own(needs.runpath if needs else (), origin):
        yield from _there(folder, name, "RUNPATH of torch", Path("/"))
    for folder, why in _configured(root):
        yield from _there(folder, name, why, root)
    for folder in _SYSTEM:
        yield from _there(folder, name, "the loader's own folders", root)


def _own(paths: Sequence[str], origin: Path | None) -> Iterator[str]:
    for path in paths:
        if origin is not None:
            yield os.path.normpath(path.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(origin)))


def _there(folder: str, name: str, why: str, root: Path) -> Iterator[tuple[str, str]]:
    path = os.path.normpath(os.path.join(folder, name))
    if proc.inside(root, path).is_file():
        yield path, why


def _configured(root: Path, conf: str = "/etc/ld.so.conf", depth: int = 0) -> Iterator[tuple[str, str]]:
    """The folders of `ld.so.conf` and what it includes, in order."""
    for line in _text(proc.inside(root, conf)).splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and depth < 4:
            for pattern in words[1:]:
                where = str(proc.inside(root, os.path.join("/etc", pattern)))
                prefix = "" if root == Path("/") else str(root)
                for path in sorted(glob.glob(where)):
                    yield from _configured(root, path.removeprefix(prefix), depth + 1)
        elif words and words[0].startswith("/"):
            yield words[0], os.path.basename(conf)


def _library(
    stem: str,
    path: str,
    why: str,
    rest: Sequence[tuple[str, str]],
    installed: Mapping[str, distributions.Distribution],
    root: Path,
) -> Library:
    real = _real(path, why, root)
    wheel = distributions.owner(Path(real), installed)
    named = _VERSION.search(os.path.basename(real))
    version = release(stem, named[1] if named else None, wheel)
    origin = "compat" if "/compat/" in real else "wheel" if "-packages/" in real else "system"
    behind = next((each for each, _ in rest if _real(each, why, root) != real), "")
    return Library(name=stem, path=real, why=why, version=version, origin=origin, shadows=behind)


def _real(path: str, why: str, root: Path) -> str:
    """The file behind a name: the file's own name contains the release."""
    if root == Path("/") or "torch" in why:
        return os.path.realpath(path)
    return "/" + str(proc.inside(root, path)).removeprefix(str(root)).lstrip("/")


def _text(path: Path) -> str:
    try:
        return files.start(path, _MOST_CONF).decode("utf-8", "replace")
    except OSError:
        return ""
