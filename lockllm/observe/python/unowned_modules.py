"""Modules that no distribution installed: Python imports files that were copied by hand, too."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from lockllm.checkpoint import links
from lockllm.observe.python.distributions import Distribution
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files

_IMPORTED = {
    "amd-aiter": "aiter",
    "autoawq": "awq",
    "fla-core": "fla",
    "flashinfer-python": "flashinfer",
    "llama-cpp-python": "llama_cpp",
    "nvidia-cutlass-dsl": "cutlass",
    "nvidia-modelopt": "modelopt",
    "opencv-python": "cv2",
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pillow-simd": "PIL",
    "flash-attn-3": "flash_attn_interface",
    "fbgemm-gpu-genai": "fbgemm_gpu",
}
"""Distributions whose module has another name than theirs."""
_ENDS = ("/__init__.py", ".py", ".abi3.so")
_MOST = 1 << 20
_MOST_RECORD = 32 << 20
_MOST_FILES = 5_000
_MOST_BYTES = 256 << 20


class Module(NamedTuple):
    """A module that would be imported and belongs to no distribution."""

    path: Path
    value: str


def module(environment: Environment, name: str) -> Module | None:
    """What an import loads where a distribution is not installed; None where nothing exists or another distribution owns it."""
    imported = _IMPORTED.get(name, name.replace("-", "_"))
    for folder in environment.search:
        path = next((folder / f"{imported}{end}" for end in _ENDS if files.is_file(folder / f"{imported}{end}")), None)
        if path is None:
            continue
        if any(_brings(one, imported) for one in environment.distributions.values()):
            return None
        found = path.parent if path.name == "__init__.py" else path
        return Module(found, f"of no distribution, {digest(found)}")
    return None


def _brings(one: Distribution, imported: str) -> bool:
    """Whether a distribution says that it installed a module of that name."""
    named = _text(one.folder / "top_level.txt", _MOST)
    if imported in named.split():
        return True
    return any(
        line.startswith((f"{imported}/", f"{imported}."))
        for line in _text(one.folder / "RECORD", _MOST_RECORD).splitlines()
    )


def _text(path: Path, most: int) -> str:
    try:
        return files.start(path, most).decode("utf-8", "replace")
    except OSError:
        return ""


def digest(path: Path) -> str:
    """One digest over the code of a module or package; compiled files in `__pycache__` do not count."""
    told = hashlib.sha256()
    left = _MOST_BYTES
    for name in _code(path):
        try:
            with files.opened(name) as file:
                told.update(
                    f"{os.path.relpath(name, path)} {os.fstat(file.fileno()).st_size}\n".encode("utf-8", "replace")
                )
                while left > 0 and (block := file.read(min(left, 1 << 20))):
                    told.update(block)
                    left -= len(block)
        except OSError:
            told.update(f"{name.name} cannot be read\n".encode("utf-8", "replace"))
    return told.hexdigest()[:12]


def _code(path: Path) -> list[Path]:
    if not files.is_folder(path):
        return [path]
    found: list[Path] = []
    for folder, folders, names in os.walk(links.inner(str(path))):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        found += [
            Path(folder) / name for name in sorted(names) if name.endswith((".py", ".pyc", ".so", ".json", ".jinja"))
        ]
        if len(found) >= _MOST_FILES:
            break
    return found[:_MOST_FILES]
