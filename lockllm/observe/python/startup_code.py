"""Code that starts with the interpreter, read as files: site hooks, `.pth` files, plugins that an engine loads by itself.

Python runs `sitecustomize`, `usercustomize` and every line of a `.pth` file that begins with `import`, before the engine's
first line (CPython `Lib/site.py`). vLLM and SGLang load every installed distribution that names one of their entry point
groups. lockllm runs none of it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from lockllm.engines import Engine
from lockllm.facts.fact import Path as Key
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.python import distributions, shadows, unowned_modules
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files

COMPLETE: frozenset[Key] = frozenset({("startup",), ("serve", "plugins")})
_SITES = ("site-packages", "dist-packages")
_HOOKS = ("sitecustomize", "usercustomize")
_MOST = 1 << 20  # bytes of one file
_MOST_DEPTH = 3  # of code in the text of code
_IMPORT = re.compile(r"import\s+([A-Za-z_]\w*)")


def readings(environment: Environment, engine: Engine | None) -> Iterator[Reading | Unobserved]:
    """What starts with the interpreter of an environment; a hook that is not there is absent."""
    for name in _HOOKS:
        yield _hook(environment, name)
    for folder in environment.search:
        if folder.name in _SITES:  # no other folder's are read (`site.addsitedir`): weights are called .pth too
            yield from _path_files(environment, folder)
    yield from shadows.readings(environment)
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
    """The lines, and the code of the modules that they import. The environment's location does not count."""
    digest = hashlib.sha256()
    for line in lines:
        plain = line.replace(str(folder), "{site}").replace(str(environment.prefix), "{prefix}")
        digest.update(f"{plain}\n".encode())
        for name in _imported(line):
            module = folder / f"{name}.py"
            try:
                digest.update(hashlib.sha256(files.start(module, _MOST)).digest())
            except OSError:
                package = environment.module(name)
                if package is not None and not _is_standard(environment, name):
                    digest.update(unowned_modules.digest(package).encode())
    return digest.hexdigest()


def _imported(line: str, depth: int = 0) -> list[str]:
    """The top-level modules that a line of code imports, in text that it hands to `exec` too.

    Left out are the finder of an editable install, which names its own folder, and the shim of setuptools, which changes
    distutils alone.
    """
    if not line.startswith(("import ", "import\t")) and not depth:
        return []
    try:
        tree = ast.parse(line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        plain = _IMPORT.match(line)
        return [plain[1]] if plain is not None else []
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or ""]
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if isinstance(text, str) and called in ("__import__", "import_module"):
                found.append(text)
            elif isinstance(text, str) and called == "exec" and depth < _MOST_DEPTH:
                found += _imported(text, depth + 1)
    tops = dict.fromkeys(name.partition(".")[0] for name in found)
    return [top for top in tops if top and top != "_distutils_hack" and not top.startswith("__editable__")]


def _is_standard(environment: Environment, name: str) -> bool:
    """Whether the standard library has a module of that name: it comes before every site folder."""
    folders = [folder for folder in environment.search if files.is_file(folder / "os.py")]
    folders += [environment.standard] if environment.standard is not None else []
    return any(files.is_file(each / f"{name}.py") or files.is_file(each / name / "__init__.py") for each in folders)


def _plugins(environment: Environment, groups: frozenset[str], own: frozenset[str]) -> Iterator[Reading]:
    """Every entry point of these groups, with a digest of the code that it names.

    The engine's own have none: its files are compared with its RECORD.
    """
    digests: dict[str, str] = {}
    for _, one in sorted(environment.distributions.items()):
        for group, name, target in distributions.entry_points(one):
            if group not in groups:
                continue
            value = f"{distributions.normal(one.name)} {one.value}"
            if distributions.normal(one.name) not in own:
                module = target.partition(":")[0].partition("[")[0].strip()
                if module not in digests:
                    digests[module] = _code(environment, module)
                value += f", {target}, {digests[module]}"
            yield seen(("serve", "plugins", f"{group}:{name}"), value, f"{one.source}/entry_points.txt", By.PACKAGE)


def _code(environment: Environment, module: str) -> str:
    """A digest of the outermost package or module that an entry point names; of a namespace package the part it names."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        if all(part.isidentifier() for part in parts[:length]):
            found = environment.module("/".join(parts[:length]))
            if found is not None:
                return unowned_modules.digest(found)
    return "its code is not found"
