"""Whether a checkpoint can be locked at all: files that are there, whole and readable. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lockllm.documents.spec import Spec
from lockllm.errors import SpecError
from lockllm.facts.observation import CheckStatus, Observation
from lockllm.resolve.checkpoint_place import Place

_BROKEN = (
    "check.files_complete", "check.links_resolve", "check.no_pointer_files", "check.weights_readable", "check.regular_files",
    "check.files_stable", "check.files_listed",
)  # fmt: skip
"""Findings of which any makes a lock that holds for no server."""
_FILES = ("checkpoint", "files")


def refuse_broken(spec: Spec, place: Place, seen: Observation) -> None:
    """Raises SpecError if the files are not a checkpoint, or not a complete one."""
    if place.path is None:
        return
    key, fix = ("checkpoint.path", "name a directory or a .gguf file, relative to the spec")
    name = spec.path or place.path
    if spec.path is None:
        key, fix = "checkpoint.repo", "download it again"
    if not any(each.fact.path[:2] == _FILES for each in seen.readings):
        gap = next((each for each in seen.unobserved if each.path == ("checkpoint",)), None)
        reason = gap.reason.replace(place.path, name) if gap is not None else f"{name} holds no file of a checkpoint"
        raise SpecError(reason, where=spec.where(key), fix=fix)
    for check in seen.checks:
        if check.name in _BROKEN and check.status is CheckStatus.FAIL:
            what = f"{name} is not a complete checkpoint: {check.detail.replace(place.path, name)}"
            raise SpecError(what, where=spec.where(key), fix=check.fix or fix)
    if (gap := next((each for each in seen.unobserved if each.path[:2] == _FILES), None)) is not None:
        what = f"{name} is not a complete checkpoint: {gap.path[-1]!r} {gap.reason.replace(place.path, name)}"
        raise SpecError(what, where=spec.where(key), fix=gap.fix or fix)


def findings(place: Place, seen: Observation) -> Iterable[str]:
    """What the files say against themselves: told, because `verify` will say so too."""
    for check in seen.checks:
        if check.status is CheckStatus.FAIL:
            detail = check.detail.replace(f"{place.path}/", "") if place.path else check.detail
            yield f"{check.name} fails: {detail}"
