"""Edited packages without reading them: size, time and name of every file against the RECORD of its distribution."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lockllm.checkpoint import links
from lockllm.observe.python import bytecode, distributions
from lockllm.observe.python.distributions import Distribution
from lockllm.observe.safe import files

_MOST_READ = 256 << 20
_OF_INSTALLERS = frozenset({"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"})
_EXTENSION = re.compile(r"(\.[\w-]+)*\.(so|pyd)\Z")


class Differences(NamedTuple):
    """The files of one distribution that differ from RECORD, and those that were too large to read."""

    edited: tuple[str, ...]
    unread: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()  # bytecode that was written later than RECORD and that an import would take


class Budget:
    """How many bytes may still be read of files that only their times make suspicious."""

    def __init__(self, left: int = _MOST_READ) -> None:
        self.left = left

    def takes(self, size: int) -> bool:
        """Whether that many bytes may be read; they are then gone."""
        if size > self.left:
            return False
        self.left -= size
        return True


class _Row(NamedTuple):
    name: str
    digest: str
    size: int | None


def look(distribution: Distribution, budget: Budget, python: str | None = None) -> Differences | None:
    """The files that differ, from one listing of each folder; None where there is no RECORD.

    A file of another size is edited, and so is one that is gone. An installer writes RECORD last: a file whose content or
    inode moved later is read, and its digest decides, so that a copied or re-owned environment is no edit. Beside a module
    that RECORD names, an extension module or package of its name that RECORD does not name is loaded in its place
    (`importlib.machinery.FileFinder`: a package first, then extensions, then source). `python`: the interpreter's version.
    """
    rows = distributions.recorded(distribution)
    if rows is None:
        return None
    written = _written(distribution)
    known = frozenset(name for name, _, _ in rows)
    differ: list[str] = []
    late: list[_Row] = []
    compiled: list[str] = []
    for folder, held in _by_folder(rows).items():
        place = distribution.folder.parent / folder
        there = _listed(str(place))
        for row in held:
            info = there.get(row.name.rpartition("/")[2])
            if info is None or (row.size is not None and info.size != row.size):
                differ.append(row.name)
            elif info.moved >= written:
                late.append(row._replace(size=info.size))
        if folder:
            differ += _in_place(place, folder, held, there, known)
            compiled += _compiled(place, folder, held, written, python) if "__pycache__" in there else ()
    unread = []
    for row in sorted(late, key=lambda each: each.size or 0):
        if not budget.takes(row.size or 0):
            unread.append(row.name)
        elif not distributions.holds(distribution.folder.parent / row.name, row.digest):
            differ.append(row.name)
    return Differences(tuple(sorted(differ)), tuple(sorted(unread)), tuple(sorted(compiled)))


class _File(NamedTuple):
    size: int
    moved: float  # the later of mtime and ctime: the second cannot be set back
    folder: bool


def _written(distribution: Distribution) -> float:
    try:
        info = os.stat(links.inner(str(distribution.folder / "RECORD")))
    except OSError:
        return 0.0
    return info.st_mtime if info.st_mtime > info.st_ctime else info.st_ctime


def _by_folder(rows: list[tuple[str, str, str]]) -> dict[str, list[_Row]]:
    """The rows by folder, without those that installers rewrite: conda puts its own name in INSTALLER."""
    folders: dict[str, list[_Row]] = {}
    for name, digest, size in rows:
        folder, _, file = name.rpartition("/")
        if folder.endswith(".dist-info") and file in _OF_INSTALLERS:
            continue
        row = _Row(name, digest, int(size) if size.isascii() and size.isdigit() and len(size) < 20 else None)
        folders.setdefault(folder, []).append(row)
    return folders


def _listed(folder: str) -> dict[str, _File]:
    found = {}
    try:
        with os.scandir(links.inner(folder)) as entries:
            for entry in entries:
                try:
                    link = entry.is_symlink()
                    info = os.stat(links.inner(f"{folder}/{entry.name}")) if link else entry.stat()
                except OSError:
                    continue
                moved = info.st_mtime if info.st_mtime > info.st_ctime else info.st_ctime
                found[entry.name] = _File(info.st_size, moved, entry.is_dir())
    except (OSError, ValueError):
        return {}
    return found


def _in_place(
    place: Path, folder: str, held: list[_Row], there: Mapping[str, _File], known: frozenset[str]
) -> Iterator[str]:
    """Files that RECORD does not name and that an import would load instead of a module that it names."""
    stems = {name[:-3] for row in held if (name := row.name.rpartition("/")[2]).endswith(".py")}
    for name, file in there.items():
        path = f"{folder}/{name}"
        extension = _EXTENSION.search(name)
        if file.folder and name in stems:
            if _is_package(place / name) and not any(each.startswith(f"{path}/") for each in known):
                yield path
        elif extension is not None and name[: extension.start()] in stems and path not in known:
            yield path


def _compiled(place: Path, folder: str, held: list[_Row], written: float, python: str | None) -> Iterator[str]:
    """Bytecode of these modules that was written later than RECORD, by this interpreter, and that an import would take."""
    tag = "".join(python.split(".")[:2]) if python is not None else r"\d+"
    stems = {name[:-3] for row in held if (name := row.name.rpartition("/")[2]).endswith(".py")}
    for name, file in _listed(str(place / "__pycache__")).items():
        match = re.fullmatch(rf"(.+)\.cpython-{tag}(?:\.opt-[12])?\.pyc", name)
        if match is None or match[1] not in stems or file.moved < written:
            continue
        if bytecode.is_loaded(place / "__pycache__" / name, place / f"{match[1]}.py"):
            yield f"{folder}/__pycache__/{name}"


def _is_package(folder: Path) -> bool:
    try:
        return any(name.startswith("__init__.") for name in files.names(folder))
    except OSError:
        return False


def digest(distribution: Distribution, names: tuple[str, ...]) -> str:
    """One digest over files that differ: two edits of one release are two."""
    import hashlib

    told = hashlib.sha256()
    for name in names:
        told.update(f"{_sha256(distribution, name)}  {name}\n".encode("utf-8", "surrogateescape"))
    return told.hexdigest()[:12]


def _sha256(distribution: Distribution, name: str) -> str:
    import hashlib

    told = hashlib.sha256()
    try:
        with files.opened(distribution.folder.parent / name) as file:
            while block := file.read(1 << 20):
                told.update(block)
    except OSError:
        return "-"
    return told.hexdigest()
