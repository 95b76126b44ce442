"""Whether packages that are built for each other have fitting versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lockllm.facts.observation import Check, CheckStatus

_NAME = "check.packages_fit"
_BUILT_FOR = re.compile(r"torch(\d+\.\d+)")
"""In a wheel's local label: flash-attn 2.8.3+cu12torch2.7."""
_COMPANIONS = {"flashinfer-python": ("flashinfer-cubin", "flashinfer-jit-cache")}
"""Distribution -> those that must be of its release, whatever their labels: FlashInfer itself refuses others at import."""


def check(versions: Mapping[str, str]) -> Check | None:
    """The finding, or None where nothing is installed that is built for another package's version."""
    pairs = [*_wheels(versions), *_companions(versions)]
    if not pairs:
        return None
    odd = [text for fits, text in pairs if not fits]
    if not odd:
        return Check(_NAME, CheckStatus.PASS, "; ".join(text for _, text in pairs))
    return Check(_NAME, CheckStatus.FAIL, "; ".join(odd), "package metadata", "install the builds that belong together")


def _wheels(versions: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    torch = versions.get("torch")
    for name, version in sorted(versions.items()):
        built = _BUILT_FOR.search(version.partition("+")[2])
        if built is not None and torch is not None:
            fits = torch.split("+")[0].split(".")[:2] == built.group(1).split(".")
            yield fits, f"{name} {version} is built for torch {built.group(1)}, and torch {torch} is installed"


def _companions(versions: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    for main, others in _COMPANIONS.items():
        for name in others:
            if main in versions and name in versions:
                fits = versions[main].partition("+")[0] == versions[name].partition("+")[0]
                yield fits, f"{main} {versions[main]} is installed with {name} {versions[name]}"
