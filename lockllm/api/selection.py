"""Which facts an argument names: globs over the keys that are there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lockllm.errors import ArgumentError
from lockllm.facts import keys, registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import Observation


def globs(
    argument: str, texts: Sequence[str], paths: Sequence[Path], *, must_match: bool = True, among: str = "locked"
) -> tuple[str, ...]:
    """Globs over the facts at `paths`. An unquoted file name is taken where it names exactly one fact.

    Raises ArgumentError for a text that is no glob and, with `must_match`, for one that matches nothing.
    """
    chosen = []
    for text in texts:
        try:
            glob = keys.Glob(text)
        except ValueError as cause:
            raise ArgumentError(
                f"{text!r} is not a key or glob", where=argument, fix='write host.* or checkpoint.files."config.json"'
            ) from cause
        if any(glob.matches(path) for path in paths):
            chosen.append(text)
            continue
        named = list(dict.fromkeys(path for path in paths if text in (path[-1], ".".join(path), ".".join(path[-2:]))))
        if len(named) > 1:  # a file stands under its sha256 first
            named = [path for path in named if path[:2] == ("checkpoint", "files")] or named
        if len(named) == 1:
            chosen.append(keys.dotted(named[0]))
            continue
        if must_match:
            raise _no_match(argument, text, named, paths, among)
        chosen.append(text)
    return tuple(chosen)


def narrow(seen: Observation, only: Sequence[str], skip: Sequence[str]) -> Observation:
    """An observation narrowed to the facts that the globs choose."""
    paths = [each.fact.path for each in seen.readings] + [each.path for each in seen.unobserved]
    paths += [(*path, "x") for path in seen.complete] + [tuple(each.name.split(".")) for each in seen.checks]
    paths += [row.path for row in registry.ROWS]
    wanted = globs("only", only, paths, among="observed")
    unwanted = globs("skip", skip, paths, must_match=False)
    if not wanted and not unwanted:
        return seen
    inside, outside = [keys.Glob(text) for text in wanted], [keys.Glob(text) for text in unwanted]

    def chosen(path: Path) -> bool:
        return (not inside or any(glob.matches(path) for glob in inside)) and not any(
            glob.matches(path) for glob in outside
        )

    return msgspec.structs.replace(
        seen,
        readings=tuple(each for each in seen.readings if chosen(each.fact.path)),
        unobserved=tuple(each for each in seen.unobserved if chosen(each.path)),
        checks=tuple(each for each in seen.checks if chosen(tuple(each.name.split(".")))),
        complete=frozenset(path for path in seen.complete if chosen((*path, "x"))),
    )


def _no_match(argument: str, text: str, named: Sequence[Path], paths: Sequence[Path], among: str) -> ArgumentError:
    if named:
        several = [keys.dotted(path) for path in named]
        what = f"{text!r} names {len(several)} facts: {', '.join(several[:3])}"
        return ArgumentError(what, where=argument, fix="write one of them in full")
    known = [keys.dotted(path) for path in paths]
    meant = registry.nearest(text, [*known, *dict.fromkeys(path[0] for path in paths)])
    document = "observation" if among == "observed" else "lock"
    return ArgumentError(
        f"{text!r} matches no {among} fact".replace("no  ", "no "),
        where=argument,
        fix=f"did you mean {meant}?" if meant else f"see the keys in the {document}",
    )
