"""Differences of place alone: a file with other bytes or a template from elsewhere, where every value that counts is as locked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from lockllm.facts.fact import Kind, Path
from lockllm.facts.observation import ABSENT, Reading
from lockllm.judge.report import Result, Status

_FILES = ("checkpoint", "files")
_READ_FROM: Mapping[Path, tuple[tuple[Path, ...], str]] = {
    (*_FILES, "generation_config.json"): (
        (("checkpoint", "generation_config"), ("sampling",), ("checkpoint", "stop_token_ids")),
        "nothing but the file's bytes moved: every value that is read from it is as locked",
    ),
    (*_FILES, "chat_template.jinja"): (
        (("chat_template", "sha256"), ("prompt_probes",)),
        "nothing but the file's bytes moved: the template is as locked",
    ),
    ("chat_template", "source"): (
        (("chat_template", "sha256"), ("prompt_probes",)),
        "nothing but its place moved: the text of the template is as locked",
    ),
    ("serve", "chat_template"): (
        (("chat_template", "sha256"), ("prompt_probes",)),
        "nothing but its place moved: the text of the template is as locked",
    ),
}
"""Fact -> the tables that hold everything it changes, and what a report says if none of that changed."""


def mark_same_content(
    results: Mapping[Path, Result], readings: Mapping[Path, tuple[Reading, ...]]
) -> dict[Path, Result]:
    """The same results; a mismatch that moves nothing is of kind identity, and says so."""
    found = dict(results)
    for path, (bases, effect) in _READ_FROM.items():
        result = results.get(path)
        if result is None or result.status is not Status.MISMATCH or not _as_locked(bases, results, readings):
            continue
        found[path] = msgspec.structs.replace(
            result, fact=msgspec.structs.replace(result.fact, kind=Kind.IDENTITY, effect=effect)
        )
    return found


def _as_locked(
    bases: Iterable[Path], results: Mapping[Path, Result], readings: Mapping[Path, tuple[Reading, ...]]
) -> bool:
    """Whether what is read from a file or place matches, and holds nothing that the lock does not name."""
    bases = tuple(bases)
    below = [each for path, each in results.items() if any(path[: len(base)] == base for base in bases)]
    matching = bool(below) and all(each.status is Status.MATCH for each in below)
    more = (
        path
        for path, seen in readings.items()
        if path not in results and seen[0].value is not ABSENT and any(path[: len(base)] == base for base in bases)
    )
    return matching and next(more, None) is None
