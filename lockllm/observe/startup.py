"""Code that starts with the interpreter, read as files: site hooks, `.pth` files, plugins that an engine loads by itself.

Python runs `sitecustomize`, `usercustomize` and every line of a `.pth` file that begins with `import`, before the engine's
first line (CPython `Lib/site.py`). vLLM and SGLang load every installed distribution that names one of their entry point
groups. Nothing of it is run here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from lockllm.engines import Engine
from lockllm.facts.fact import Path as Key
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe import distributions, opening
from lockllm.observe.python import Environment

COMPLETE: frozenset[Key] = frozenset({("startup",), ("serve", "plugins")})
_HOOKS = ("sitecustomize", "usercustomize")
_MOST = 1 << 20  # bytes of one file
_IMPORT = re.compile(r"import\s+([A-Za-z_]\w*)")
_SECTION = re.compile(r"\[\s*([^\]]+?)\s*\]\s*\Z")


def readings(environment: Environment, engine: Engine | None) -> Iterator[Reading | Unobserved]:
    """What starts with the interpreter of an environment; a hook that is not there is absent."""
    for name in _HOOKS:
        yield _hook(environment, name)
    for folder in environment.search:
        yield from _path_files(environment, folder)
    groups: tuple[str, ...] = getattr(engine, "plugin_groups", ())
    if groups:
        yield from _plugins(environment, frozenset(groups))


def _hook(environment: Environment, name: str) -> Reading | Unobserved:
    module = environment.module(name)
    if module is None:
        return seen(("startup", name), None, f"no {name} ({environment.source})", By.PACKAGE)
    file = module if module.suffix == ".py" else module / "__init__.py"
    try:
        digest = hashlib.sha256(opening.start(file, _MOST)).hexdigest()
    except OSError as error:
        return Unobserved(("startup", name), f"{file} cannot be read: {error.strerror}", "run lockllm as its owner")
    return seen(("startup", name), digest, str(file), By.PACKAGE)


def _path_files(environment: Environment, folder: Path) -> Iterator[Reading | Unobserved]:
    try:
        names = sorted(name for name in opening.names(folder) if name.endswith(".pth") and not name.startswith("."))
    except OSError:
        return  # that the folder cannot be listed is told where its distributions are read
    for name in names:
        key = ("startup", "pth", name)
        try:
            text = opening.start(folder / name, _MOST).decode("utf-8", "replace")
        except OSError as error:
            yield Unobserved(key, f"{folder / name} cannot be read: {error.strerror}", "run lockllm as its owner")
            continue
        lines = [line.strip() for line in text.splitlines()]
        acting = [line for line in lines if line and not line.startswith("#")]
        if acting:
            yield seen(key, _digest(environment, folder, acting), str(folder / name), By.PACKAGE)


def _digest(environment: Environment, folder: Path, lines: list[str]) -> str:
    """The lines, and the modules beside the file that they import. Where the environment lies does not count."""
    digest = hashlib.sha256()
    for line in lines:
        plain = line.replace(str(folder), "{site}").replace(str(environment.prefix), "{prefix}")
        digest.update(f"{plain}\n".encode())
        module = _IMPORT.match(line)
        if module is None or module[1].startswith("__editable__"):  # an editable install's finder names its own folder
            continue
        try:
            digest.update(hashlib.sha256(opening.start(folder / f"{module[1]}.py", _MOST)).digest())
        except OSError:
            continue
    return digest.hexdigest()


def _plugins(environment: Environment, groups: frozenset[str]) -> Iterator[Reading]:
    for _, one in sorted(environment.distributions.items()):
        try:
            text = opening.start(one.folder / "entry_points.txt", _MOST).decode("utf-8", "replace")
        except OSError:
            continue
        section = ""
        for line in (raw.strip() for raw in text.splitlines()):
            if (head := _SECTION.match(line)) is not None:
                section = head[1]
            elif section in groups and "=" in line and not line.startswith(("#", ";")):
                name = line.partition("=")[0].strip()
                value = f"{distributions.normal(one.name)} {one.value}"
                yield seen(
                    ("serve", "plugins", f"{section}:{name}"), value, f"{one.source}/entry_points.txt", By.PACKAGE
                )
