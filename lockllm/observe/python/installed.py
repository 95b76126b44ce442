"""Whether installed packages are the released ones: files match RECORD, versions match exact requirements."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lockllm.facts.observation import Check, CheckStatus
from lockllm.observe.python import console_scripts, distributions, edited_files
from lockllm.observe.python.distributions import Distribution
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files

_PIN = re.compile(r"Requires-Dist:\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?==\s*([^\s;,)*]+)\)?\s*(?:;(.*))?\Z")
_MOST_TOLD = 3
_MOST_METADATA = 1 << 20

Edits = Mapping[str, tuple[str, ...]]
"""Distribution -> its files that differ from RECORD; empty where none does."""


def edits(environment: Environment, wanted: Iterable[str]) -> Edits:
    """Every file of these distributions, read and compared. One without a RECORD is left out."""
    found = {}
    for one in _recorded(environment, wanted):
        differ = distributions.edited(one)
        if differ is not None:
            found[one.name] = (*differ, *console_scripts.edited(one))
    return found


class Touched(NamedTuple):
    """Edits by size, time, and name; files too large to read; bytecode that no installer wrote."""

    edits: Edits
    unread: tuple[str, ...]
    compiled: tuple[str, ...]


def touched(environment: Environment, wanted: Iterable[str]) -> Touched:
    """The same by size, time, and name only."""
    found: dict[str, tuple[str, ...]] = {}
    unread: list[str] = []
    compiled: list[str] = []
    budget = edited_files.Budget()
    for one in _recorded(environment, wanted):
        looked = edited_files.look(one, budget, environment.python)
        if looked is not None:
            found[one.name] = (*looked.edited, *console_scripts.edited(one))
            unread += looked.unread
            compiled += looked.compiled
    return Touched(found, tuple(unread), tuple(compiled))


def _recorded(environment: Environment, wanted: Iterable[str]) -> Iterator[Distribution]:
    for name in sorted(set(map(distributions.normal, wanted))):
        one = environment.distributions.get(name)
        if one is not None and one.how != "editable":
            yield one


def unedited(environment: Environment, found: Edits, unread: Sequence[str] | None = None) -> Check | None:
    """The finding on edited files, with the names of some. `unread`: files that were not read, where not all were.

    The fix names the installed versions: without them pip installs the newest.
    """
    if not found:
        return None
    name = "check.packages_unedited"
    told = {each: files for each, files in found.items() if files}
    if told:
        detail = "; ".join(f"{each}: {_some(files)}" for each, files in told.items())
        again = shlex.join(f"{each}=={environment.distributions[each].version}" for each in sorted(told))
        fix = f"reinstall {'it' if len(told) == 1 else 'them'}: pip install --force-reinstall --no-deps {again}"
        return Check(name, CheckStatus.FAIL, f"differ from RECORD: {detail}", "RECORD", fix)
    if unread:
        detail = f"{len(unread)} files changed after installation and are too large to read here: {_some(unread)}"
        return Check(name, CheckStatus.UNKNOWN, detail, "RECORD", "run lockllm verify --deep, which reads every file")
    what = "the files of" if unread is None else "size and time of every file of"
    return Check(name, CheckStatus.PASS, f"{what} {len(found)} packages match RECORD")


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"{', '.join(names[:_MOST_TOLD])}{rest}"


def pinned(environment: Environment, names: Sequence[str]) -> Check | None:
    """Whether the exact requirements of these distributions are what is installed: people override NCCL and cuDNN."""
    odd, seen = [], 0
    for name in names:
        one = environment.distributions.get(distributions.normal(name))
        for wanted, version in _pins(one, environment.python).items() if one is not None else ():
            held = environment.distributions.get(wanted)
            if held is None:
                continue
            seen += 1
            if not _same(version, held.version):
                odd.append(f"{name} requires {wanted} {version}, but {held.version} is installed")
    if odd:
        rest = f" and {len(odd) - _MOST_TOLD} more" if len(odd) > _MOST_TOLD else ""
        fix = "install the versions that the package was built and tested with"
        detail = f"{'; '.join(odd[:_MOST_TOLD])}{rest}"
        return Check("check.requirements_met", CheckStatus.FAIL, detail, "METADATA", fix)
    return (
        Check("check.requirements_met", CheckStatus.PASS, f"{seen} exact requirements are met", "METADATA")
        if seen
        else None
    )


def _pins(one: Distribution, python: str | None) -> dict[str, str]:
    try:
        text = files.start(one.folder / "METADATA", _MOST_METADATA).decode("utf-8", "replace")
    except OSError:
        return {}
    found = {}
    head = text.replace("\r\n", "\n").partition("\n\n")[0]
    for line in head.splitlines():
        if (pin := _PIN.match(line)) and _holds(pin[3], python):
            found[distributions.normal(pin[1])] = pin[2]
    return found


def _holds(marker: str | None, python: str | None) -> bool:
    """Whether a requirement is one of this interpreter's, and of no extra."""
    if not (marker or "").strip():
        return True
    from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName

    release = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python} if python else {}
    try:
        return Marker(str(marker)).evaluate({**release, "extra": ""})
    except (InvalidMarker, UndefinedEnvironmentName, ValueError):
        return False


def _same(wanted: str, installed: str) -> bool:
    """`==2.8.0` accepts any local label; `==2.8.0+cu128` accepts only that one (PEP 440)."""
    from lockllm.facts.types import normal_version

    held = installed if "+" in wanted else installed.partition("+")[0]
    return normal_version(wanted) == normal_version(held)
