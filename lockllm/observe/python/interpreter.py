"""Asks one interpreter where it imports from: only for `--python PATH`, with its owner's rights."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lockllm.errors import UsageError
from lockllm.facts.observation import Unobserved
from lockllm.observe.python import environments
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import child

_PROBE = (
    "import sys, json; told = {'path': [p for p in sys.path if p], 'prefix': sys.prefix,"
    f" 'version': sys.version.split()[0]}}; {child.PRINT}"
)
_SECONDS = 10.0
_MOST_NAMES = 5_000


def ask(path: str) -> Environment | Unobserved:
    """The environment of the interpreter at a path. Raises UsageError for a path that is none."""
    program = find(path)
    if _is_own(program):
        return environments.own()
    if (why := refusal(program)) is not None:
        return Unobserved(("packages",), f"{program} is not run: {why}", "make it writable only by its owner")
    answer = _run(program)
    if isinstance(answer, Unobserved):
        return answer
    search = tuple(Path(folder) for folder in dict.fromkeys(answer["path"]) if os.path.isdir(folder))
    return environments.build(str(program), Path(answer["prefix"]), answer["version"], search)


def find(path: str) -> Path:
    """The interpreter that a path, a folder of a virtual environment or a word on PATH names. UsageError: none."""
    if os.sep not in path and not os.path.exists(path):
        named = environments.which(path, os.environ, os.getcwd())
        program = Path(named) if named else Path(path)
    else:
        program = Path(os.path.abspath(path))
    if program.is_dir():
        program = program / "bin" / "python"
    if not program.is_file():
        raise UsageError(
            f"no interpreter at {path}", where="--python", fix="name the python of the serving environment"
        )
    if not os.access(program, os.X_OK):
        raise UsageError(f"{path} cannot be run", where="--python", fix="name the python of the serving environment")
    return program


def refusal(program: Path) -> str | None:
    """Why lockllm must not run this interpreter: another user could have changed its code.

    Not the program alone: before its first line Python reads `pyvenv.cfg`, and runs what lies in its site folders (`.pth`
    files, `sitecustomize`, what they import; CPython `Lib/site.py`).
    """
    real = program.resolve()
    trusted = {0, os.geteuid(), *([_owner(program).st_uid] if os.geteuid() == 0 else [])}
    for place in dict.fromkeys((program, real, program.parent, real.parent, *_read_at_start(program, real))):
        try:
            info = place.stat()
        except FileNotFoundError:
            continue  # a link that leads nowhere is read by nobody
        except OSError as error:
            return f"{place} cannot be inspected: {error.strerror}"
        if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
            return f"everybody can write {place}"
        if info.st_mode & stat.S_IWGRP and info.st_gid not in (0, os.getegid(), *os.getgroups()):
            return f"its group can write {place}"
        if info.st_uid not in trusted:
            return f"{place} belongs to another user"
    return None


def _read_at_start(program: Path, real: Path) -> Iterator[Path]:
    """Where an interpreter may read code or settings before its first argument: its prefix, libraries, site folders."""
    prefixes = [each.parent.parent for each in (program, real) if each.parent.name in ("bin", "Scripts")]
    for prefix in dict.fromkeys(prefixes):
        yield prefix
        for beside in (prefix / "pyvenv.cfg", program.parent / "pyvenv.cfg"):
            if beside.exists():
                yield beside
        for library in [
            path for name in ("lib", "lib64") for path in (prefix / name).glob("python3*") if path.is_dir()
        ]:
            yield library.parent
            yield library
            for site in (library / "site-packages", library / "dist-packages"):
                yield from _site(site)
            yield from (library / f"{name}.py" for name in ("site", "os", "sitecustomize", "usercustomize"))


def _site(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    yield folder
    yield from (folder / name for name in names[:_MOST_NAMES])


def rights(program: Path) -> dict[str, Any]:
    """Arguments of a child process that give it no more than the owner of the environment may."""
    info = _owner(program)
    return child.rights_of(info.st_uid, info.st_gid)


def _owner(program: Path) -> os.stat_result:
    """Whose code an interpreter runs: that of its environment's owner, where root owns the program that it links to."""
    info = program.resolve().stat()
    prefix = program.parent.parent
    if info.st_uid == 0 and (prefix / "pyvenv.cfg").is_file():
        return prefix.stat()
    return info


def allowed(path: str | None) -> tuple[str, dict[str, Any]] | None:
    """A named interpreter, other than lockllm's own, that lockllm may run, and its rights."""
    program = find(path) if path is not None else None
    if program is None or _is_own(program) or refusal(program) is not None:
        return None
    return str(program), rights(program)


def _is_own(program: Path) -> bool:
    own = Path(sys.executable)
    return program.parent == own.parent and program.resolve() == own.resolve()


def _run(program: Path) -> dict[str, Any] | Unobserved:
    fix = f"run {program} -V to see whether it works"
    answer = child.ask((str(program), "-B", "-W", "ignore"), _PROBE, _SECONDS, rights=rights(program))
    if isinstance(answer, str):
        return Unobserved(("packages",), f"{program} {answer}", fix)
    folders = answer.get("path")
    if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
        return Unobserved(("packages",), f"{program} gave no list of folders", fix)
    return {"path": folders, "prefix": str(answer.get("prefix")), "version": str(answer.get("version"))}
