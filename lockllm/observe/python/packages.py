"""From an environment to readings: packages, the engine's own release, its Python and its CUDA stack."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

import msgspec

from lockllm.engines import Engine
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.python import distributions, edited_files, startup_code, unowned_modules
from lockllm.observe.python.distributions import Distribution
from lockllm.observe.python.environments import Environment
from lockllm.observe.python.installed import Edits
from lockllm.observe.safe import files

_CUDA = {
    "runtime": (
        "nvidia-cuda-runtime",
        "nvidia-cuda-runtime-cu13",
        "nvidia-cuda-runtime-cu12",
        "nvidia-cuda-runtime-cu11",
    ),
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11"),
    "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"),
    "cublas": ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12", "nvidia-cublas-cu11"),
}
"""Fact -> the wheels that carry the library, newest naming first."""


def readings(
    environment: Environment,
    engine: Engine | None,
    wanted: Iterable[str],
    edits: Edits | None = None,
    edition: int = 1,
) -> tuple[list[Reading], list[Unobserved], frozenset[Path]]:
    """What the metadata of an environment says, and which packages were edited, where `edits` says so.

    `edition`: of the lock; for those of edition 1 an edited package is one, whatever was written there.
    """
    found: list[Reading] = []
    unseen: list[Unobserved] = []
    deep = edits or {}
    for name in sorted(named(engine, wanted)):
        one = environment.distributions.get(name)
        if one is not None:
            told = _patched(environment, one, deep, edition)
            found.append(seen(("packages", name), told.value, told.source, By.PACKAGE))
        elif edition > 1 and (loose := unowned_modules.module(environment, name)) is not None:
            found.append(seen(("packages", name), loose.value, str(loose.path), By.PACKAGE))
        elif environment.whole:
            found.append(seen(("packages", name), None, f"no such distribution ({environment.source})", By.PACKAGE))
        else:
            unseen.append(Unobserved(("packages", name), "; ".join(environment.problems) or "no folder to import from"))
    if engine is not None:
        found += _engine(environment, engine, deep, edition)
    if environment.python is not None:
        found.append(seen("host.python", environment.python, environment.source, By.PACKAGE))
    found += _cuda(environment)
    if not environment.whole:
        return found, unseen, frozenset()
    for item in startup_code.readings(environment, engine):
        if isinstance(item, Reading):
            found.append(item)
        else:
            unseen.append(item)
    return found, unseen, frozenset({("packages",), *startup_code.COMPLETE})


def named(engine: Engine | None, wanted: Iterable[str]) -> frozenset[str]:
    """The distributions to look for: those of the engine, and those that the lock names."""
    own = (*engine.packages, *engine.distributions) if engine is not None else ()
    return frozenset(map(distributions.normal, (*wanted, *own)))


def versions(environment: Environment) -> dict[str, str]:
    """Every distribution and its version, for the engines' rules."""
    return {name: one.version for name, one in environment.distributions.items()}


def release(environment: Environment, engine: Engine) -> str | None:
    """The engine's version from its distribution, in the engine's own scheme."""
    one = environment.of_any(engine.distributions)
    if one is None:
        return None
    translate: Any = getattr(engine, "version_of", None)
    version = translate(one.name, one.version) if translate is not None else one.version.partition("+")[0]
    return str(version) if version is not None else None


def _patched(environment: Environment, one: Distribution, edits: Edits, edition: int) -> Distribution:
    """The distribution, with what is unusual about its files."""
    differ = edits.get(one.name)
    if one.how:
        more = f", edited {edited_files.digest(one, differ)}" if differ and edition > 1 else ""
        return msgspec.structs.replace(one, how=f"{one.how}{more}")
    module = environment.module(one.name.replace("-", "_"))
    if module is not None and (
        files.resolved(module.parent) != files.resolved(one.folder.parent) or (edition > 1 and _is_foreign(module, one))
    ):
        more = f", {unowned_modules.digest(module)}" if edition > 1 else ""
        return msgspec.structs.replace(one, how=f"shadowed by another copy{more}")
    if differ:
        return msgspec.structs.replace(
            one, how=f"edited {edited_files.digest(one, differ)}" if edition > 1 else "edited"
        )
    return one


def _is_foreign(module: FilePath, one: Distribution) -> bool:
    """Whether a single-file module, which an import would load, is missing from RECORD."""
    if module.suffix != ".py":
        return False
    rows = distributions.recorded(one)
    return rows is not None and all(name != module.name for name, *_ in rows)


def _engine(environment: Environment, engine: Engine, deep: Edits, edition: int) -> list[Reading]:
    one = environment.of_any(engine.distributions)
    translated = hasattr(engine, "version_of")
    if one is None:
        gone = environment.whole and environment.search and engine.distributions and not translated
        source = f"no distribution of {engine.name} ({environment.source})"
        return [seen("engine.version", None, source, By.PACKAGE)] if gone else []
    one = _patched(environment, one, deep, edition)
    found: list[Reading] = [seen("engine.name", engine.name, one.source, By.PACKAGE)]
    version = release(environment, engine)
    if version is not None:
        found.append(seen("engine.version", version, one.source, By.PACKAGE))
    if not translated:
        found.append(seen("engine.build", _build(one), one.source, By.PACKAGE))
    return found


def _build(one: Distribution) -> str | None:
    """The build below the version: the local label, or how a patched install came to be."""
    local = one.version.partition("+")[2]
    return ", ".join(part for part in (local, one.how) if part) or None


def _cuda(environment: Environment) -> list[Reading]:
    found: list[Reading] = []
    torch = environment.torch
    source = "torch/version.py"
    if torch is not None:
        for path, name in ((("cuda", "runtime"), "cuda"), (("rocm", "version"), "hip")):
            value = torch.get(name)
            found.append(seen(path, value if isinstance(value, str) else None, f"{source}: {name}", By.PACKAGE))
    for fact, names in _CUDA.items():
        one = environment.of_any(names)
        if fact == "runtime" and torch is not None:
            continue
        if one is not None:
            value = ".".join(one.version.split(".")[:2]) if fact == "runtime" else one.version
            found.append(seen(("cuda", fact), value, one.source, By.PACKAGE))
        elif torch is not None and torch.get("cuda") is None and environment.whole:
            found.append(seen(("cuda", fact), None, f"{source}: no CUDA build", By.PACKAGE))
    return found
