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
from lockllm.observe.python import distributions, unowned_modules
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files

COMPLETE: frozenset[Key] = frozenset({("startup",), ("serve", "plugins")})
_SITES = ("site-packages", "dist-packages")
_HOOKS = ("sitecustomize", "usercustomize")
_MOST = 1 << 20  # bytes of one file
_IMPORT = re.compile(r"import\s+([A-Za-z_]\w*)")
_SECTION = re.compile(r"\[\s*([^\]]+?)\s*\]\s*\Z")


def readings(environment: Environment, engine: Engine | None) -> Iterator[Reading | Unobserved]:
    """What starts with the interpreter of an environment; a hook that is not there is absent."""
    for name in _HOOKS:
        yield _hook(environment, name)
    for folder in environment.search:
        if folder.name in _SITES:  # no other folder's are read (`site.addsitedir`): weights are called .pth too
            yield from _path_files(environment, folder)
    groups: tuple[str, ...] = getattr(engine, "plugin_groups", ())
    if groups:
        own = frozenset(map(distributions.normal, engine.distributions)) if engine is not None else frozenset[str]()
        yield from _plugins(environment, frozenset(groups), own)


def _hook(environment: Environment, name: str) -> Reading | Unobserved:
    module = environment.module(name)
    if module is None and environment.standard is not None:  # Debian and Ubuntu have one there
        module = next((path for path in (environment.standard / f"{name}.py",) if files.is_file(path)), None)
    if module is None:
        return seen(("startup", name), None, f"no {name} ({environment.source})", By.PACKAGE)
    file = module if module.suffix == ".py" else module / "__init__.py"
    try:
        digest = hashlib.sha256(files.start(file, _MOST)).hexdigest()
    except OSError as error:
        return Unobserved(("startup", name), f"{file} cannot be read: {error.strerror}", "run lockllm as its owner")
    return seen(("startup", name), digest, str(file), By.PACKAGE)


def _path_files(environment: Environment, folder: Path) -> Iterator[Reading | Unobserved]:
    try:
        names = sorted(name for name in files.names(folder) if name.endswith(".pth") and not name.startswith("."))
    except OSError:
        return  # that the folder cannot be listed is told where its distributions are read
    for name in names:
        key = ("startup", "pth", name)
        try:
            text = files.start(folder / name, _MOST).decode("utf-8", "replace")
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
            digest.update(hashlib.sha256(files.start(folder / f"{module[1]}.py", _MOST)).digest())
        except OSError:
            continue
    return digest.hexdigest()


def _plugins(environment: Environment, groups: frozenset[str], own: frozenset[str]) -> Iterator[Reading]:
    """Every entry point of these groups, with a digest of the code that it names.

    The engine's own carry none: its files are held against its RECORD.
    """
    digests: dict[str, str] = {}
    for _, one in sorted(environment.distributions.items()):
        try:
            text = files.start(one.folder / "entry_points.txt", _MOST).decode("utf-8", "replace")
        except OSError:
            continue
        section = ""
        for line in (raw.strip() for raw in text.splitlines()):
            if (head := _SECTION.match(line)) is not None:
                section = head[1]
            elif section in groups and "=" in line and not line.startswith(("#", ";")):
                name, _, target = (part.strip() for part in line.partition("="))
                value = f"{distributions.normal(one.name)} {one.value}"
                if distributions.normal(one.name) not in own:
                    module = target.partition(":")[0].partition("[")[0].strip()
                    if module not in digests:
                        digests[module] = _code(environment, module)
                    value += f", {target}, {digests[module]}"
                yield seen(
                    ("serve", "plugins", f"{section}:{name}"), value, f"{one.source}/entry_points.txt", By.PACKAGE
                )


def _code(environment: Environment, module: str) -> str:
    """A digest of the outermost package or module that an entry point names; of a namespace package the part it names."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        if all(part.isidentifier() for part in parts[:length]):
            found = environment.module("/".join(parts[:length]))
            if found is not None:
                return unowned_modules.digest(found)
    return "its code is not found"
