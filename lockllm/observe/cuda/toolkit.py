"""The CUDA stack of a planned server: the library files that it would load, and the system's toolkit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lockllm.facts.observation import ABSENT, By, Reading
from lockllm.facts.registry import dump, seen
from lockllm.observe.cuda import loader_search
from lockllm.observe.cuda.mapped_libraries import CUDA, fact_value
from lockllm.observe.python.environments import Environment


class PlannedLibraries(msgspec.Struct, frozen=True, kw_only=True):
    """The libraries that would be loaded. `instead`: facts for which another file comes before the wheel's, so metadata does not count."""

    readings: tuple[Reading, ...] = ()
    instead: frozenset[tuple[str, ...]] = frozenset()
    warnings: tuple[str, ...] = ()
    driver: bool = False  # a libcuda was found


def planned(
    environment: Environment | None, env: Mapping[str, str], cwd: str, held: Sequence[Reading], root: Path = Path("/")
) -> PlannedLibraries:
    """The CUDA libraries in the loader's order. `held`: readings so far, whose wheels an earlier file may shadow."""
    found: list[Reading] = []
    instead: set[tuple[str, ...]] = set()
    warnings = []
    driver = False
    for one in loader_search.libraries(environment, env, cwd, root):
        driver = driver or one.name == "libcuda"
        source = f"{one.why}: {one.path}"
        found.append(seen(("libraries", one.name, "origin"), one.origin, source, By.FILE))
        if one.version is None:
            continue
        found.append(seen(("libraries", one.name, "version"), one.version, source, By.FILE))
        path = ("cuda", CUDA[one.name])
        value = fact_value(one.name, one.version)
        if one.origin == "wheel":
            continue
        wheel = next((each for each in held if each.fact.path == path and each.value is not ABSENT), None)
        if wheel is not None and dump(wheel.fact, wheel.value) != value:
            instead.add(path)
            warnings.append(
                f"{one.name} {one.version} would be loaded from {one.path} ({one.why}), "
                f"not {dump(wheel.fact, wheel.value)} from {wheel.source}"
            )
        if wheel is None or path in instead:
            found.append(seen(path, value, source, By.FILE))
        if one.origin == "compat":
            warnings.append(f"cuda-compat {one.version} comes before the driver's own libcuda ({one.why})")
    return PlannedLibraries(readings=tuple(found), instead=frozenset(instead), warnings=tuple(warnings), driver=driver)


def toolkit(env: Mapping[str, str], root: Path) -> Reading:
    """The CUDA toolkit of the system, which compiles kernels at run time; absent where none is installed."""
    version, source = loader_search.toolkit(env, root)
    return seen("cuda.toolkit", version, source if version else f"no toolkit at {source}", By.FILE)
