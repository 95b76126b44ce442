"""All rows in lock order, and how a key finds its row."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lockllm.facts import chat_template, checkpoint, engine, host, keys, sampling, serve
from lockllm.facts.fact import Fact, Family, Group, Kind, Path
from lockllm.facts.observation import ABSENT, By, Raw, Reading
from lockllm.facts.types import ANY, holdable, same_any

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

GROUPS: tuple[Group, ...] = (
    checkpoint.CHECKPOINT, checkpoint.TOKENIZER, chat_template.CHAT_TEMPLATE, checkpoint.QUANTIZATION, checkpoint.ADAPTERS,
    checkpoint.DRAFT, engine.ENGINE, serve.SERVE, sampling.SAMPLING, engine.KERNELS, engine.PACKAGES, engine.STARTUP, engine.LIBRARIES,
    engine.CUDA, engine.ROCM, host.HOST, engine.ENV, chat_template.PROMPT_PROBES, checkpoint.ADAPTER_FOLDER,
)  # fmt: skip
"""The lock's tables, in order."""


def _rows(*modules: ModuleType) -> tuple[list[Fact[Any]], list[Family[Any]]]:
    facts: list[Fact[Any]] = []
    families: list[Family[Any]] = []
    for module in modules:
        for value in vars(module).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Fact):
                    facts.append(each)
                elif isinstance(each, Family):
                    families.append(each)
    order = {group.name: number for number, group in enumerate(GROUPS)}
    facts.sort(key=lambda row: order[row.group])
    families.sort(key=lambda row: order[row.path[0]])
    return facts, families


_FACTS, _FAMILIES = _rows(checkpoint, chat_template, engine, serve, sampling, host)
ROWS: tuple[Fact[Any], ...] = tuple(_FACTS)
"""Every fact that has a row of its own."""
FAMILIES: tuple[Family[Any], ...] = tuple(_FAMILIES)
"""Every family; the first that holds a path has it."""
GROUP = {group.name: group for group in GROUPS}
_BY_PATH = {row.path: row for row in ROWS}
_GROUP_ORDER = {group.name: number for number, group in enumerate(GROUPS)}
_ORDER = {row.path: number for number, row in enumerate((*ROWS, *(each.row for each in FAMILIES)))}
_FAMILIES_AT: dict[Path, list[tuple[int, Family[Any]]]] = {}
for _number, _family in enumerate(FAMILIES):
    _FAMILIES_AT.setdefault(_family.path, []).append((_number, _family))
_DEPTHS = sorted({len(path) for path in _FAMILIES_AT})
FORMER: dict[Path, tuple[Path, ...]] = {row.path: tuple(map(keys.parse, row.formerly)) for row in ROWS if row.formerly}
"""Fact -> the paths under which older documents hold it."""
_RENAMED = {former: path for path, formers in FORMER.items() for former in formers}
_LAST = (("checkpoint", "files"), ("checkpoint", "blake3"), ("prompt_probes",))


# More than the files of a checkpoint that are listed: a smaller cache would forget each one before its next turn.
@lru_cache(maxsize=2**18)
def find(path: Path) -> Fact[Any]:
    """The row of that path: its own, a family's member, or one made up for a fact that this release does not know."""
    row = _BY_PATH.get(path)
    if row is not None:
        return row
    held = family(path)
    if held is not None:
        return held.of(*path[len(held.path) :])
    return Fact(
        path, ANY, Kind.STEP, "what it moves is not known to this release", "see the release notes of a newer lockllm",
        "A fact that this release of lockllm does not know: compared by plain equality.", known=False,
    )  # fmt: skip


def current(path: Path) -> Path:
    """The path that a fact of an older document has today."""
    return _RENAMED.get(path, path) if _RENAMED else path


def names(path: Path) -> tuple[Path, ...]:
    """Every path that a document may hold a fact under: today's first, then the former ones."""
    return (path, *FORMER.get(path, ()))


def fact(key: FactKey) -> Fact[Any]:
    """The row of that key."""
    return row_of(key)


def row_of(text: str) -> Fact[Any]:
    """What a text of a user or document names, also by a former key. Raises ValueError for text that spells no key."""
    return find(current(keys.parse(text)))


def family(path: Path) -> Family[Any] | None:
    """The family that a path is a member of."""
    return None if path in _BY_PATH else _family_below(path[:-1])


@lru_cache(maxsize=50_000)
def _family_below(above: Path) -> Family[Any] | None:
    """The family whose members stand right below a path: the thousands of files ask once."""
    path = (*above, "")
    near = [held for depth in _DEPTHS for held in _FAMILIES_AT.get(path[:depth], ()) if held[1].holds(path)]
    return min(near)[1] if len(near) > 1 else near[0][1] if near else None


def read(row: Fact[Any], raw: object) -> Any:
    """A value parsed by its fact's type; Raw where the type cannot parse it; ABSENT for None."""
    if raw is None or raw is ABSENT:
        return ABSENT
    try:
        return row.type.parse(raw)
    except (ValueError, TypeError, RecursionError):
        return Raw(holdable(raw))


def dump(row: Fact[Any], value: Any) -> Any:
    """A parsed value as documents hold it; None for ABSENT."""
    if value is ABSENT:
        return None
    return value.value if isinstance(value, Raw) else row.type.dump(value)


def same(row: Fact[Any], one: Any, other: Any) -> bool:
    """Whether two values of a fact are one: by its type, or by plain equality where either could not be parsed."""
    if one is ABSENT or other is ABSENT:
        return one is other
    if isinstance(one, Raw) or isinstance(other, Raw):
        return same_any(dump(row, one), dump(row, other))
    return row.type.same(one, other)


def seen(key: FactKey | Path, raw: object, source: str, by: By, evidence: str = "computed") -> Reading:
    """A reading of a raw value; None is ABSENT."""
    row = fact(key) if isinstance(key, str) else find(key)
    return Reading(row, read(row, raw), source, by, evidence)


@lru_cache(maxsize=50_000)
def position(path: Path) -> tuple[Any, ...]:
    """Where a fact stands in the lock: groups in order, rows in order, members by name, long tables last."""
    row = _ORDER.get(path)
    return (*(_place(path, row) if row is not None or len(path) < 2 else _place_below(path[:-1])), path)


def ordered(paths: Iterable[Path]) -> list[Path]:
    """The same paths by `position`; those of one place, such as thousands of files, are sorted among themselves."""
    places: dict[tuple[Any, ...], list[Path]] = {}
    for path in paths:
        row = _ORDER.get(path)
        place = _place(path, row) if row is not None or len(path) < 2 else _place_below(path[:-1])
        places.setdefault(place, []).append(path)
    return [path for place in sorted(places) for path in sorted(places[place])]


@lru_cache(maxsize=50_000)
def _place_below(above: Path) -> tuple[Any, ...]:
    held = _family_below(above)
    return _place(above, _ORDER.get(held.path, len(_ORDER)) if held else None)


def _place(path: Path, row: int | None) -> tuple[Any, ...]:
    last = next((number for number, long in enumerate(_LAST, 1) if path[: len(long)] == long), 0)
    return last, _GROUP_ORDER.get(path[0], len(GROUPS)), path[0], len(_ORDER) + 1 if row is None else row


def is_given(path: Path) -> bool:
    """Whether a fact is named only where a host has it: a variable, an option."""
    held = family(path)
    return held is not None and held.given


def waits(row: Fact[Any]) -> bool:
    """Whether only a running server may show a fact."""
    group = GROUP.get(row.group)
    return group is None or group.waits


def nearest(name: str, names: list[str]) -> str | None:
    """The name that was likely meant."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return close[0] if close else None
