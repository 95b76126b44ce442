"""What a person must decide after a release was read, and what is only good to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from lockllm.engines.kernel.release_data import NOTHING, ReleaseData, at, words
from tools.refresh.snapshot import Snapshot


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine with a data file: where it comes from, and what a person says of its options."""

    room: str
    distribution: str
    read: Callable[[str, Mapping[str, str]], Snapshot]
    classes: Mapping[str, frozenset[str]]  # class -> options
    variables: Callable[[Snapshot, Sequence[str]], Iterator[str]]  # what a person must decide of them


def decisions(engine: Engine, before: ReleaseData, after: ReleaseData, told: Snapshot) -> Iterator[str]:
    """One line for each thing that a person must look at, changed rules apart. Defaults are news only once."""
    classed = frozenset().union(*engine.classes.values())
    for name in sorted(set(told.options) - classed):
        default = repr(told.defaults[name]) if name in told.defaults else "no constant"
        yield f"option     --{name.replace('_', '-')}: nobody has classed it (takes {told.options[name]}, default {default})"
    if told.release not in before.releases:
        yield from _defaults(engine, after, told)
    yield from (f"variable   {line}" for line in engine.variables(told, after.releases))
    for doubt in told.doubts:
        yield f"doubt      {doubt}"


def _defaults(engine: Engine, after: ReleaseData, told: Snapshot) -> Iterator[str]:
    """Constant defaults of the release before that are others now."""
    number = after.releases.index(told.release)
    earlier = after.releases[max(0, number - 1)]
    for path, steps in after.defaults.items():
        was, now = at(steps, earlier), at(steps, told.release)
        if path.partition(".")[0] in engine.classes["operational"] or was is NOTHING or repr(was) == repr(now):
            continue
        if after.has(path, earlier) and _there(after, path, told.release):
            said = "no constant" if now is NOTHING else repr(now)
            yield f"default    {path}: {was!r} in {earlier}, {said} in {told.release}"


def _there(data: ReleaseData, path: str, release: str) -> bool:
    """Whether a release has an option, or a key inside its JSON."""
    parent, _, key = path.rpartition(".")
    keys = words(data.keys.get(parent, ()), release)
    return data.has(path, release) and (not parent or keys is None or key in keys)


def news(before: ReleaseData, after: ReleaseData, told: Snapshot) -> Iterator[str]:
    """What the data file says now that it did not say before."""
    for section in ("options", "values", "keys", "registered", "defaults"):
        was, now = getattr(before, section), getattr(after, section)
        moved = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
        if moved:
            shown = ", ".join(moved[:12]) + (f" and {len(moved) - 12} more" if len(moved) > 12 else "")
            yield f"{section:<10} {len(moved)} moved: {shown}"
    if told.release not in before.releases:
        yield f"release    {told.release} is new"
