"""Whether what is installed is what was released: files against RECORD, versions against the exact requirements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from lockllm.facts.observation import Check, CheckStatus
from lockllm.observe import distributions, opening
from lockllm.observe.distributions import Distribution
from lockllm.observe.python import Environment

_PIN = re.compile(r"Requires-Dist:\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?==\s*([^\s;,)*]+)\)?\s*(?:;(.*))?\Z")
_MOST_TOLD = 3
_MOST_METADATA = 1 << 20

Edits = Mapping[str, tuple[str, ...]]
"""Distribution -> its files that differ from RECORD; empty where none does."""


def edits(environment: Environment, wanted: Iterable[str]) -> Edits:
    """Every file of these distributions, read and compared. One without a RECORD is left out."""
    found = {}
    for name in sorted(set(map(distributions.normal, wanted))):
        one = environment.distributions.get(name)
        differ = distributions.edited(one) if one is not None and not one.how else None
        if differ is not None:
            found[name] = differ
    return found


def unedited(found: Edits) -> Check | None:
    """The finding on edited files, with the names of some."""
    if not found:
        return None
    told = []
    for name, files in found.items():
        if files:
            rest = f" and {len(files) - _MOST_TOLD} more" if len(files) > _MOST_TOLD else ""
            told.append(f"{name}: {', '.join(files[:_MOST_TOLD])}{rest}")
    if not told:
        return Check(
            "check.packages_unedited", CheckStatus.PASS, f"the files of {len(found)} packages are as RECORD says"
        )
    detail = f"differ from RECORD: {'; '.join(told)}"
    mend = f"install {'it' if len(told) == 1 else 'them'} again: pip install --force-reinstall --no-deps"
    return Check("check.packages_unedited", CheckStatus.FAIL, detail, "RECORD", mend)


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
                odd.append(f"{name} asks for {wanted} {version}, installed is {held.version}")
    if odd:
        rest = f" and {len(odd) - _MOST_TOLD} more" if len(odd) > _MOST_TOLD else ""
        mend = "install the versions that the package was built and tested with"
        detail = f"{'; '.join(odd[:_MOST_TOLD])}{rest}"
        return Check("check.requirements_met", CheckStatus.FAIL, detail, "METADATA", mend)
    return (
        Check("check.requirements_met", CheckStatus.PASS, f"{seen} exact requirements are met", "METADATA")
        if seen
        else None
    )


def _pins(one: Distribution, python: str | None) -> dict[str, str]:
    try:
        text = opening.start(one.folder / "METADATA", _MOST_METADATA).decode("utf-8", "replace")
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
    """`==2.8.0` takes any local label; `==2.8.0+cu128` takes that one alone (PEP 440)."""
    from lockllm.facts.types import normal_version

    held = installed if "+" in wanted else installed.partition("+")[0]
    return normal_version(wanted) == normal_version(held)
