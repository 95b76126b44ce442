"""Installed distributions, read as files: `*.dist-info`, `*.egg-info` and `*.egg-link` of given folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lockllm.checkpoint import links
from lockllm.observe.safe import files

_MOST_METADATA = 1 << 20
_MOST_RECORD = 32 << 20
_SECTION = re.compile(r"\[\s*([^\]]+?)\s*\]\s*\Z")
_HEADER = re.compile(rb"^(Name|Version):[ \t]*(.+?)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """One installed distribution. `how` says why it is not a plain release: `editable`, `git 4ba787ec9abc`, `edited`."""

    name: str  # PEP 503
    version: str
    folder: Path  # its metadata, as this process can open it
    how: str = ""

    @property
    def value(self) -> str:
        """The version as a lock holds it: a patched 0.33.0 is not 0.33.0."""
        if not self.how:
            return self.version
        public, _, local = self.version.partition("+")
        return f"{public} ({self.how}{', +' + local if local else ''})"

    @property
    def source(self) -> str:
        """What a person would look for: `vllm-0.10.1.dist-info`."""
        return self.folder.name


def normal(name: str) -> str:
    """The PEP 503 form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def scan(folders: Iterable[Path]) -> tuple[dict[str, Distribution], tuple[str, ...]]:
    """The distributions that an import would find, first folder first, and what is wrong with them."""
    found: dict[str, Distribution] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            names = [name for name in files.names(folder) if name.endswith((".dist-info", ".egg-info", ".egg-link"))]
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            continue
        except OSError as error:
            problems.append(f"{folder} cannot be listed: {error.strerror}")
            continue
        here: dict[str, Distribution] = {}
        for name in names:
            one = _read(folder, name)
            if one is None:
                problems.append(f"{name} has no name and version")
                continue
            other = here.get(one.name)
            if other is not None and other.version != one.version:
                problems.append(f"{one.name} is installed twice: {other.version} and {one.version}")
                one = max(other, one, key=lambda each: (_when(each.folder), each.version))
            here[one.name] = one
        for name, one in here.items():
            found.setdefault(name, one)
    return found, tuple(problems)


def edited(distribution: Distribution) -> tuple[str, ...] | None:
    """The files that differ from RECORD, or None where there is no RECORD. Reads every file."""
    rows = recorded(distribution)
    if rows is None:
        return None
    base = distribution.folder.parent
    return tuple(name for name, digest, size in rows if not holds(base / name, digest, size))


def recorded(distribution: Distribution) -> list[tuple[str, str, str]] | None:
    """Name, digest, and size of every file with a digest in RECORD, below the folder that the distribution is in."""
    rows = _record(distribution)
    if rows is None:
        return None
    return [row for row in rows if not row[0].startswith("/") and ".." not in row[0].split("/")]


def entry_points(distribution: Distribution) -> list[tuple[str, str, str]]:
    """Group, name and `module:function` of every entry point that a distribution declares."""
    try:
        text = files.start(distribution.folder / "entry_points.txt", _MOST_METADATA).decode("utf-8", "replace")
    except OSError:
        return []
    group = ""
    declared = []
    for line in (raw.strip() for raw in text.splitlines()):
        if (head := _SECTION.match(line)) is not None:
            group = head[1]
        elif group and "=" in line and not line.startswith(("#", ";")):
            name, _, target = (part.strip() for part in line.partition("="))
            declared.append((group, name, target))
    return declared


def recorded_scripts(distribution: Distribution) -> list[tuple[str, str]]:
    """Name and digest of every program that RECORD names above the site folder: `../../../bin/vllm`."""
    rows = _record(distribution) or []
    return [(name, digest) for name, digest, _ in rows if re.fullmatch(r"(?:\.\./)+(?:bin|Scripts)/[^/]+", name)]


def _record(distribution: Distribution) -> list[tuple[str, str, str]] | None:
    """The rows of RECORD that hold a digest."""
    if distribution.folder.suffix != ".dist-info":
        return None
    try:
        text = files.start(distribution.folder / "RECORD", _MOST_RECORD).decode("utf-8", "replace")
    except OSError:
        return None
    rows = [(row[0], row[1], row[2] if len(row) > 2 else "") for row in _rows(text) if len(row) > 1]
    return [row for row in rows if row[1].startswith("sha256=")]


def holds(path: Path, named: str, size: str = "") -> bool:
    """Whether a file has the size and the digest that RECORD names."""
    import base64
    import hashlib

    digest = hashlib.sha256()
    try:
        with files.opened(path) as file:
            if size and str(os.fstat(file.fileno()).st_size) != size:
                return False
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return False
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode() == named.removeprefix("sha256=").rstrip("=")


def _rows(text: str) -> Iterator[list[str]]:
    """The lines of a RECORD. A line that is not CSV ends it and counts as a file that differs."""
    import csv

    try:
        yield from csv.reader(text.splitlines())
    except csv.Error:
        yield ["RECORD", "sha256=", ""]


def owner(path: Path, distributions: Mapping[str, Distribution]) -> Distribution | None:
    """The wheel that a library file belongs to: one of NVIDIA's below `nvidia/PART/lib`, else by its folder's name."""
    parts = path.parts
    site = next((at for at, part in enumerate(parts) if part.endswith("-packages")), None)
    if "nvidia" not in parts:
        return distributions.get(normal(parts[site + 1])) if site is not None and len(parts) > site + 2 else None
    part = parts[parts.index("nvidia") + 1].replace("_", "-")
    stem = path.name.partition(".so")[0].removeprefix("lib").rstrip("0123456789")
    tried = [part, {"cublaslt": "cublas", "cudart": "cuda-runtime"}.get(stem.lower(), stem.lower())]
    for name in tried:
        for suffix in ("-cu13", "-cu12", "-cu11", ""):
            if (one := distributions.get(f"nvidia-{name}{suffix}")) is not None:
                return one
    return None


def assignments(path: Path) -> dict[str, Any] | None:
    """The plain assignments of a Python file, parsed but never run. None where it cannot be read."""
    import ast

    try:
        tree = ast.parse(files.start(path, _MOST_METADATA))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: dict[str, Any] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant):
            found.update({target.id: value.value for target in targets if isinstance(target, ast.Name)})
    return found


def _read(folder: Path, name: str) -> Distribution | None:
    path = folder / name
    if name.endswith(".egg-link"):
        return _linked(path)
    is_egg = name.endswith(".egg-info")
    for metadata in (path / "PKG-INFO", path) if is_egg else (path / "METADATA",):
        try:
            fields = _fields(files.start(metadata, 8192))
            if len(fields) < 2:
                fields = _fields(files.start(metadata, _MOST_METADATA))
        except OSError:
            continue
        if "name" in fields and "version" in fields:
            development = is_egg and folder.name not in ("site-packages", "dist-packages")
            how = "editable" if development else "" if is_egg else _direct(path)
            return Distribution(name=normal(fields["name"]), version=fields["version"], folder=path, how=how)
    return None


def _linked(path: Path) -> Distribution | None:
    try:
        line = files.start(path, 4096).decode("utf-8", "replace").split("\n")[0].strip()
        target = Path(f"{links.view(os.path.abspath(path))}{line}" if line.startswith("/") else line)
        names = [name for name in files.names(target) if name.endswith(".egg-info")]
    except (OSError, ValueError):
        return None
    one = _read(target, names[0]) if names else None
    return msgspec.structs.replace(one, how="editable") if one else None


def _fields(raw: bytes) -> dict[str, str]:
    head = raw.partition(b"\n\n")[0]
    return {name.decode().lower(): value.decode("utf-8", "replace") for name, value in reversed(_HEADER.findall(head))}


def _direct(folder: Path) -> str:
    """What `direct_url.json` says of an install that came from no index."""
    try:
        said = msgspec.json.decode(files.start(folder / "direct_url.json", _MOST_METADATA))
    except (OSError, msgspec.DecodeError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    if isinstance(directory := said.get("dir_info"), dict):
        return "editable" if directory.get("editable") is True else "built from a directory"
    if isinstance(vcs := said.get("vcs_info"), dict):
        commit = str(vcs.get("commit_id", ""))
        return f"{vcs.get('vcs', 'vcs')} {commit[:12]}".strip()
    return ""


def _when(folder: Path) -> float:
    try:
        return files.resolved(folder).stat().st_mtime
    except OSError:
        return 0.0
