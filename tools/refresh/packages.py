"""Where a release is read from: a wheel of the package index, a wheel or a folder of packages on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from lockllm.engines.kernel.releases import order

_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
_AVAILABLE = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
_RELEASE = re.compile(r"\d+(?:\.\d+)*\Z")


class Wheel(Mapping[str, str]):
    """The texts of a wheel by their path inside it."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        self._names = frozenset(self._archive.namelist())

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._archive.read(name).decode(errors="replace")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Folder(Mapping[str, str]):
    """The texts of a folder of packages by their path below it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getitem__(self, name: str) -> str:
        path = self._path / name
        if not path.is_file():
            raise KeyError(name)
        return path.read_text(errors="replace")

    def __iter__(self) -> Iterator[str]:
        return (str(path.relative_to(self._path)) for path in self._path.rglob("*") if path.is_file())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def open_release(distribution: str, asked: str) -> tuple[str, Mapping[str, str]]:
    """The release and the texts of what was asked for: a path, else a release of the package index."""
    path = Path(asked)
    if not path.exists():
        path = _downloaded(distribution, asked)
    texts: Mapping[str, str] = Folder(path) if path.is_dir() else Wheel(path)
    stem = distribution.replace("-", "_")
    about = next((name for name in texts if re.fullmatch(rf"{stem}-[^/]*\.dist-info/METADATA", name)), None)
    found = _VERSION.search(texts[about]) if about is not None else None
    if found is None:
        raise SystemExit(f"{path} holds no metadata of {distribution}: name a wheel or a folder of installed packages")
    return found.group(1).partition("+")[0], texts


def newest_releases(distribution: str, count: int) -> list[str]:
    """The newest releases of a distribution on the package index, oldest first; candidates and post-releases left out."""
    told = _pip("index", "versions", distribution)
    found = _AVAILABLE.search(told)
    if found is None:
        raise SystemExit(f"the package index shows no versions of {distribution}")
    releases = [each for each in found.group(1).split(", ") if _RELEASE.match(each)]
    return sorted(releases, key=order)[-count:]


def _downloaded(distribution: str, release: str) -> Path:
    folder = Path(tempfile.gettempdir()) / "lockllm-refresh" / f"{distribution}-{release}"
    held = sorted(folder.glob("*.whl"))
    if not held:
        _pip(
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--quiet",
            "--dest",
            str(folder),
            f"{distribution}=={release}",
        )
        held = sorted(folder.glob("*.whl"))
    if not held:
        raise SystemExit(f"the package index gave no wheel of {distribution} {release}: name a path instead")
    return held[-1]


def _pip(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise SystemExit(f"pip {words[0]}: {lines[-1] if lines else 'no answer'}")
    return done.stdout
