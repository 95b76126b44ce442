"""The serving Python environment, read as files: where its interpreter imports from and what is installed there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lockllm.facts.observation import Unobserved
from lockllm.observe.process import proc
from lockllm.observe.python import distributions
from lockllm.observe.python.distributions import Distribution
from lockllm.observe.safe import files

_MOST_TEXT = 1 << 20
_INTERPRETER = re.compile(r"(?:python|pypy)(?:(\d)(?:\.(\d+))?)?t?(?:\.exe)?\Z")


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What one interpreter would import."""

    source: str  # whose it is: `pid 71`, `/opt/venv/bin/python`
    prefix: Path
    python: str | None  # full version of the interpreter
    search: tuple[Path, ...]  # folders in import order, as this process can open them
    distributions: Mapping[str, Distribution]
    torch: Mapping[str, Any] | None = None  # the names of torch/version.py; None: no torch
    problems: tuple[str, ...] = ()
    whole: bool = True  # every folder could be listed: what is not there is absent
    standard: Path | None = None  # the standard library, which an import takes after `front` and before site folders
    front: tuple[
        Path, ...
    ] = ()  # the script's folder or working directory, then PYTHONPATH: before the standard library

    def of_any(self, names: Iterable[str]) -> Distribution | None:
        """The first of these distributions that is installed."""
        return next((one for name in names if (one := self.distributions.get(distributions.normal(name)))), None)

    def module(self, name: str) -> Path | None:
        """The folder or file that `import name` would take."""
        for folder in self.search:
            for path in (folder / name, folder / f"{name}.py"):
                if files.is_file(path if path.suffix == ".py" else path / "__init__.py"):
                    return path
        return None


def of_process(process: proc.Process, sites: tuple[str, ...] = ()) -> Environment | Unobserved:
    """The environment of a running Python server. lockllm starts no process to inspect it.

    `sites`: folders of packages that extensions are mapped from; they count before all others.
    """
    if process.hidden:
        return Unobserved(("packages",), process.hidden, "run lockllm as the user of the server, or as root")
    launcher = _launcher(process.argv, process.env, process.cwd, process.exe)
    if launcher is None and _config_beside(process.exe, process.root) is None and not sites:
        nothing = f"pid {process.pid} runs no Python"
        return Environment(source=nothing, prefix=Path("/"), python=None, search=(), distributions={})
    args = process.argv[1:] if launcher else ()
    found = of_launcher(launcher or process.exe, args, process.env, process.cwd, process.root, f"pid {process.pid}")
    mapped = [proc.inside(process.root, site) for site in sites]
    extra = tuple(
        folder for folder in mapped if folder.is_dir() and files.resolved(folder) not in _resolved(found.search)
    )
    more = build(found.source, found.prefix, found.python, (*extra, *found.search)) if extra else found
    return msgspec.structs.replace(more, standard=found.standard, front=found.front)


def of_command(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> Environment | None:
    """The environment of a command that has not started yet, or None where it is not a Python program."""
    program = which(argv[0], env, cwd) if argv else None
    if program is None:
        return None
    launcher = _launcher(argv, env, cwd, os.path.realpath(program)) or _shebang(program, env, cwd)
    return of_launcher(launcher, argv[1:], env, cwd, Path("/"), launcher) if launcher else None


def of_launcher(
    launcher: str, args: tuple[str, ...], env: Mapping[str, str], cwd: str, root: Path, source: str
) -> Environment:
    """The environment of an interpreter that is started by this path, with these variables."""
    prefix, config = _prefix(launcher, root)
    base = _base(config, launcher, prefix, root)
    version = _minor(config, launcher, prefix, base, root)
    options = _options(args)
    isolated = any(re.fullmatch(r"-[a-zA-Z]*I[a-zA-Z]*", word) for word in options)
    safe = isolated or "PYTHONSAFEPATH" in env or any(re.fullmatch(r"-[a-zA-Z]*P[a-zA-Z]*", word) for word in options)
    first = [] if safe or not args else _first(args[len(options) :], cwd)
    paths = [] if isolated else [_joined(cwd, part) for part in env.get("PYTHONPATH", "").split(":") if part]
    front = [proc.inside(root, path) for path in (*first, *paths)]
    folders = list(front)
    sites = _sites(prefix, version, root)
    systemwide = not config or config.get("include-system-site-packages", "").lower() == "true"
    if systemwide:
        if not isolated and "PYTHONNOUSERSITE" not in env and (home := env.get("HOME")):
            user = env.get("PYTHONUSERBASE") or f"{home}/.local"
            sites.insert(0, f"{user}/lib/python{version}/site-packages")
        if config:
            sites += _sites(base, version, root)
    for site in dict.fromkeys(sites):
        folders += _with_pth(site, root)
    search = tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))
    python = _patch(config, base, version, root) or (version if version.count(".") > 1 else None)
    found = build(source, proc.inside(root, prefix), python, search)
    return msgspec.structs.replace(
        found,
        standard=proc.inside(root, f"{base}/lib/python{'.'.join(version.split('.')[:2])}"),
        front=tuple(dict.fromkeys(front)),
    )


def build(source: str, prefix: Path, python: str | None, search: tuple[Path, ...]) -> Environment:
    """The environment with these folders: what they hold is read now."""
    found, problems = distributions.scan(search)
    torch = next((path for folder in search if files.is_file(path := folder / "torch" / "version.py")), None)
    return Environment(
        source=source,
        prefix=prefix,
        python=python,
        search=search,
        distributions=found,
        torch=distributions.assignments(torch) if torch else None,
        problems=problems,
        whole=bool(search) and not any("cannot be listed" in problem for problem in problems),
    )


def own() -> Environment:
    """The environment that lockllm itself runs in."""
    search = tuple(Path(folder) for folder in dict.fromkeys(sys.path) if folder and os.path.isdir(folder))
    return build(sys.executable, Path(sys.prefix), sys.version.split()[0], search)


def which(name: str, env: Mapping[str, str], cwd: str) -> str | None:
    """The program that a word names, as execvp finds it."""
    if "/" in name:
        path = _joined(cwd, name)
        return path if os.path.isfile(path) else None
    for folder in env.get("PATH", os.defpath).split(":"):
        path = _joined(cwd, os.path.join(folder or ".", name))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _launcher(argv: tuple[str, ...], env: Mapping[str, str], cwd: str, exe: str) -> str | None:
    """The path by which an interpreter was started: its folder decides about the virtual environment."""
    if not _INTERPRETER.match(os.path.basename(exe)):
        return None
    word = argv[0] if argv else ""
    if not _INTERPRETER.match(os.path.basename(word)):
        virtual = env.get("VIRTUAL_ENV")
        return f"{virtual}/bin/python" if virtual and not word else exe
    if "/" in word:
        return _joined(cwd, word)
    for folder in env.get("PATH", "").split(":"):
        if folder and os.path.lexists(os.path.join(folder, word)):
            return os.path.join(folder, word)
    return exe


def _shebang(program: str, env: Mapping[str, str], cwd: str) -> str | None:
    try:
        head = files.start(program, 2048).decode("utf-8", "replace")
    except OSError:
        return None
    line = head.split("\n")[0]
    if line.startswith("#!/bin/sh"):  # uv and pip write this where the path is too long or holds a blank
        found = re.search(r"\'\'\'exec' (?:\"([^\"\n]+)\"|([^\s\"]+))", head)
        line = f"#!{found[1] or found[2]}" if found else ""
    words = line.removeprefix("#!").split() if line.startswith("#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
        words = [which(words[0], env, cwd) or ""] if words else []
    return words[0] if words and _INTERPRETER.match(os.path.basename(words[0])) else None


def _prefix(launcher: str, root: Path) -> tuple[str, dict[str, str]]:
    """The prefix, and `pyvenv.cfg` of a virtual environment, found beside the unresolved launcher."""
    beside = _config_beside(launcher, root)
    if beside is not None:
        return beside
    real = _real(launcher, root)
    place = os.path.dirname(os.path.dirname(real))
    while place not in ("", "/") and not any(files.is_file(each / "os.py") for each in _versions(place, root)):
        place = os.path.dirname(place)
    return place if place not in ("", "/") else os.path.dirname(os.path.dirname(real)), {}


def _config_beside(launcher: str, root: Path) -> tuple[str, dict[str, str]] | None:
    folder = os.path.dirname(launcher)
    for place in (folder, os.path.dirname(folder)):
        config = _config(proc.inside(root, f"{place}/pyvenv.cfg"))
        if config is not None:
            return place, config
    return None


def _resolved(folders: Iterable[Path]) -> frozenset[Path]:
    return frozenset(map(files.resolved, folders))


def _config(path: Path) -> dict[str, str] | None:
    try:
        lines = files.start(path, _MOST_TEXT).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    return {
        name.strip().lower(): value.strip() for name, equals, value in (line.partition("=") for line in lines) if equals
    }


def _base(config: Mapping[str, str], launcher: str, prefix: str, root: Path) -> str:
    if not config:
        return prefix
    home = config.get("home") or os.path.dirname(_real(launcher, root))
    return os.path.dirname(home)


def _minor(config: Mapping[str, str], launcher: str, prefix: str, base: str, root: Path) -> str:
    """`3.11`."""
    said = config.get("version_info") or config.get("version") or ""
    if found := re.match(r"(\d+)\.(\d+)", said):
        return f"{found[1]}.{found[2]}"
    for name in (os.path.basename(_real(launcher, root)), os.path.basename(launcher)):
        if (match := _INTERPRETER.match(name)) and match[2]:
            return f"{match[1]}.{match[2]}"
    for place in (prefix, base):
        there = [path for path in _versions(place, root) if "." in path.name and files.is_folder(path)]
        if there:
            return there[-1].name.removeprefix("python").rstrip("t")
    return "3"


def _versions(place: str, root: Path) -> list[Path]:
    """The folders in the `lib` of a prefix that are named for a version of Python, sorted."""
    folder = proc.inside(root, f"{place}/lib")
    try:
        return [folder / name for name in files.names(folder) if name.startswith("python3")]
    except OSError:
        return []


def _patch(config: Mapping[str, str], base: str, minor: str, root: Path) -> str | None:
    """`3.11.7`: from the headers, the virtual environment's own note, or the program's bytes."""
    header = _text(proc.inside(root, f"{base}/include/python{minor}/patchlevel.h"))
    if found := re.search(r'#define\s+PY_VERSION\s+"([^"]+)"', header):
        return found[1].rstrip("+")
    said = config.get("version_info") or config.get("version") or ""
    if found := re.match(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", said):
        return found[0]
    pattern = re.compile(rb"\0(" + re.escape(minor).encode() + rb"\.\d+(?:(?:a|b|rc)\d+)?)\+?\0")
    for name in (f"lib/libpython{minor}.so.1.0", f"bin/python{minor}"):
        try:
            versions = set(pattern.findall(files.start(proc.inside(root, f"{base}/{name}"), 64 << 20)))
        except OSError:
            continue
        if len(versions) == 1:
            return str(versions.pop().decode())
    return None


def _sites(prefix: str, version: str, root: Path) -> list[str]:
    names = [f"{prefix}/{lib}/python{version}/site-packages" for lib in ("lib", "lib64")]
    if prefix == "/usr":
        names = [f"/usr/local/lib/python{version}/dist-packages", "/usr/lib/python3/dist-packages", *names]
    found: dict[Path, str] = {}
    for name in names:
        folder = proc.inside(root, name)
        if folder.is_dir():
            found.setdefault(folder.resolve() if root == Path("/") else folder, name)
    return list(found.values())


def _with_pth(site: str, root: Path) -> list[Path]:
    """A site folder and the plain paths that its `.pth` files add. Lines of code are not executed."""
    folder = proc.inside(root, site)
    found = [folder]
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pth") and not name.startswith("."))
    except OSError:
        return found
    for name in names:
        for line in _text(folder / name).splitlines():
            line = line.strip()
            if line and not line.startswith(("#", "import ", "import\t")):
                found.append(proc.inside(root, _joined(site, line)))
    return found


def _first(rest: tuple[str, ...], cwd: str) -> list[str]:
    """The folder that comes before all others: the script's own, or the working directory."""
    if not rest or rest[0] in ("-m", "-c", "-"):
        return [cwd] if rest else []
    return [os.path.dirname(_joined(cwd, rest[0]))]


def _options(args: tuple[str, ...]) -> tuple[str, ...]:
    taken = []
    for word in args:
        if not word.startswith("-") or word in ("-m", "-c", "-"):
            break
        taken.append(word)
    return tuple(taken)


def _real(path: str, root: Path) -> str:
    resolved = str(proc.inside(root, path).resolve() if root == Path("/") else proc.inside(root, path))
    return resolved if root == Path("/") else "/" + resolved.removeprefix(str(root)).lstrip("/")


def _joined(cwd: str, name: str) -> str:
    return os.path.normpath(os.path.join(cwd or "/", name))


def _text(path: Path) -> str:
    try:
        return files.start(path, _MOST_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""
