"""The program that starts: whose code it hands over to, or its digest."""

from __future__ import annotations

import hashlib
import os

from lockllm import engines
from lockllm.engines.launch.forms import is_python, python_module, python_script
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.python import console_scripts, environments
from lockllm.observe.request import Request
from lockllm.observe.safe import files
from lockllm.observe.server.locate import Target

_MOST = 1 << 30


def reading(request: Request, target: Target) -> Reading | Unobserved | None:
    """Whose program starts or runs; None where its place is unknown."""
    if request.unread or target.elsewhere is not None or target.engine_name is None:
        return None
    taken = target.plan.unwrapped if target.plan else None
    if taken is not None and taken.reach == "container":
        return None
    by = By.PROCESS if target.server else By.PLAN if request.command else By.FILE
    argv = taken.argv if taken is not None and target.plan is not None and target.plan.form is not None else ()
    module = python_module(argv)
    if module is not None:
        return seen("engine.program", module[0].partition(".")[0], f"python -m {module[0]}", by)
    path = _path(argv, request, target)
    if path is None:
        return None
    try:
        with files.opened(path) as file:
            raw = file.read(_MOST)
    except OSError as why:
        reason = f"{path} cannot be read: {(why.strerror or str(why)).lower()}"
        return Unobserved(("engine", "program"), reason, "run lockllm as a user who may read it")
    return seen("engine.program", value(raw), path, by)


def value(raw: bytes) -> str:
    """The package that a plain script of an installer hands over to, else a digest: of a script below its first line."""
    if not raw.startswith(b"#!"):
        return f"sha256:{hashlib.sha256(raw).hexdigest()}"
    _, _, rest = raw.partition(b"\n")
    entry = console_scripts.entry_point(raw)
    return entry.partition(".")[0] if entry is not None else f"sha256:{hashlib.sha256(rest).hexdigest()}"


def _path(argv: tuple[str, ...], request: Request, target: Target) -> str | None:
    """The path of the program, as this process can open it."""
    if argv and is_python(argv[0]):
        name, start = python_script(argv)
        return None if name == os.path.basename(argv[0]) else target.place(argv[start - 1])
    if target.server is not None and argv and not is_python(target.server.process.exe):
        return str(target.server.process.path(target.server.process.exe))
    if argv and target.server is None:
        return environments.which(argv[0], request.environ, request.cwd)
    word = next(iter(engines.identity(target.engine_name).starts), "")
    if not word or is_python(word):
        return None
    held = target.environment
    inside = str(held.prefix / "bin" / word) if held is not None and held.search else None
    if inside is not None and os.path.isfile(inside):
        return inside
    return environments.which(word, request.environ, request.cwd) if target.server is None else None
