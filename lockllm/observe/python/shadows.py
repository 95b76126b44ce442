"""Modules before the standard library and the site folders, imported in place of those that an engine means.

Python searches the script's folder or the working directory first, then PYTHONPATH, then the standard library, then the
site folders (CPython `Lib/site.py`, `Modules/getpath.py`). A `json.py` in the directory that a server starts in is every
package's `json`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.python import unowned_modules
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files

_MODULE = re.compile(r"([A-Za-z_]\w*)(?:\.py|\.pyc|(?:\.(?:cpython-\w+(?:-[\w-]+)?|abi3))?\.so)\Z", re.ASCII)
"""A module of one file: source, bytecode without a source, or an extension (CPython `importlib.machinery.all_suffixes`)."""
_NEVER_IMPORTED = frozenset(
    {
        "__phello__",
        "antigravity",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "test",
        "this",
        "tkinter",
        "turtle",
        "turtledemo",
    }
)
"""Modules of the standard library that no engine imports: a folder `test` beside a server is not a difference."""


def readings(environment: Environment) -> Iterator[Reading | Unobserved]:
    """Every module of a front folder that shadows another, with a digest of its code; an archive with its digest."""
    names: set[str] | None = None
    own = [] if environment.standard is None else [files.resolved(environment.standard)]
    for folder in environment.front:
        if files.resolved(folder) in own:
            continue  # PYTHONPATH names the standard library itself
        if not files.is_folder(folder):
            yield from _archive(folder)
            continue
        here = _modules(folder)
        if here and names is None:
            names = _behind(environment)
        for name in sorted(here.keys() & (names or set())):
            path = here.pop(name)
            yield seen(("startup", "shadows", name), unowned_modules.digest(path), str(path), By.PACKAGE)


def _archive(path: Path) -> Iterator[Reading | Unobserved]:
    """A zip file on PYTHONPATH: an import looks into it (`zipimport`)."""
    if not files.is_file(path):
        return
    key = ("startup", "shadows", path.name)
    digest = hashlib.sha256()
    try:
        with files.opened(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        yield Unobserved(key, f"{path} cannot be read: {error.strerror}", "run lockllm as its owner")
        return
    yield seen(key, digest.hexdigest()[:12], str(path), By.PACKAGE)


def _behind(environment: Environment) -> set[str]:
    """The modules that an import would load if nothing came before them."""
    behind = [folder for folder in environment.search if folder not in environment.front]
    if environment.standard is not None:
        behind += [environment.standard, environment.standard / "lib-dynload"]
    return {name for folder in behind for name in _modules(folder)} - _NEVER_IMPORTED


def _modules(folder: Path) -> dict[str, Path]:
    """The top-level modules of a folder: a package before an extension, and that before a source of the same name."""
    found: dict[str, Path] = {}
    try:
        names = files.names(folder)
    except OSError:
        return {}
    for name in sorted(names, key=lambda each: (not each.endswith(".so"), each)):
        if (module := _MODULE.match(name)) is not None:
            found.setdefault(module[1], folder / name)
        elif name.isidentifier() and _is_package(folder / name):
            found[name] = folder / name
    return found


def _is_package(folder: Path) -> bool:
    """A folder without `__init__` is a namespace, which any module of its name behind it outranks."""
    if files.is_file(folder / "__init__.py"):
        return True
    try:
        return any(_MODULE.match(name) and name.startswith("__init__.") for name in os.listdir(folder))
    except OSError:
        return False
