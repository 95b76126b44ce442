"""Hypothesis strategies for locks and observations over the registry's own rows."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from lockllm.documents.lock import Lock
from lockllm.documents.terms import Waiver
from lockllm.facts import registry
from lockllm.facts.fact import Fact, Path, Policy
from lockllm.facts.observation import ABSENT, By, Observation, Reading
from lockllm.facts.types import (
    ANY,
    BOOL,
    COMMIT,
    COUNT,
    COUNTS,
    DTYPE,
    FILE,
    GPU,
    INT,
    KV_DTYPE,
    MEMORY,
    NUMBER,
    PACKAGE,
    SHA256,
    TEXT,
    TEXT_SET,
    TEXTS,
    VERSION,
)  # fmt: skip

HEX = "0123456789abcdef"
texts = st.text(max_size=12)
digests = st.text(alphabet=HEX, min_size=64, max_size=64)
versions = st.from_regex(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,2})?(\+cu12[0-9])?", fullmatch=True)
numbers = st.one_of(
    st.integers(0, 10**6), st.floats(allow_nan=False, allow_infinity=False, width=32).filter(lambda x: abs(x) < 1e30)
)
names = st.text(min_size=1, max_size=10).filter(
    lambda text: not set(text) & set("\x00/\\") and not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text)
)
file_names = names.filter(
    lambda name: name not in (".", "..") and name[1:2] != ":" and not any(0xD800 <= ord(c) <= 0xDFFF for c in name)
)

OF_TYPE: dict[int, st.SearchStrategy[Any]] = {
    id(TEXT): texts, id(BOOL): st.booleans(), id(INT): st.integers(-5, 10**6), id(COUNT): st.integers(0, 10**6), id(NUMBER): numbers,
    id(SHA256): digests, id(COMMIT): st.text(alphabet=HEX, min_size=40, max_size=40), id(VERSION): versions, id(PACKAGE): versions,
    id(DTYPE): st.sampled_from(["bfloat16", "torch.float16", "bf16", "float32", "half"]),
    id(KV_DTYPE): st.sampled_from(["fp8", "bfloat16", "q8_0"]), id(TEXTS): st.lists(texts, max_size=3),
    id(TEXT_SET): st.lists(texts, max_size=3), id(COUNTS): st.lists(st.integers(0, 10**5), max_size=3),
    id(MEMORY): st.integers(1, 200).map(lambda n: f"{n} GiB"),
    id(GPU): st.sampled_from(["NVIDIA H100 80GB HBM3", "NVIDIA A10", "Tesla T4"]),
    id(FILE): st.builds(lambda size, sha: {"size": size, "sha256": sha}, st.integers(0, 10**12), digests),
    id(ANY): st.one_of(texts, st.booleans(), numbers),
}  # fmt: skip


def values(row: Fact[Any]) -> st.SearchStrategy[Any]:
    """Parsed values of one fact."""
    return OF_TYPE.get(id(row.type), texts).map(lambda raw: registry.read(row, raw))


_fixed = [row for row in registry.ROWS if row.lockable]
_families = [family for family in registry.FAMILIES if family.row.lockable]


@st.composite
def paths(draw: st.DrawFn) -> Path:
    """The path of a lockable fact: its own row, or a family's member."""
    if draw(st.booleans()):
        return draw(st.sampled_from(_fixed)).path
    family = draw(st.sampled_from(_families))
    count = family.depth or draw(st.integers(1, 3))
    return (*family.path, *(draw(file_names if family.row.type is FILE else names) for _ in range(count)))


def _no_prefix(chosen: list[Path]) -> list[Path]:
    held = set(chosen)
    return [path for path in chosen if not any(path[:length] in held for length in range(1, len(path)))]


_policies = st.dictionaries(
    st.sampled_from(["host.*", "packages.*", "serve.dtype", "engine.version"]), st.sampled_from(Policy), max_size=2
)
_WAIVER = Waiver(fact="host.gpu_product", found="x", reason="why", until="2027-01-31")


@st.composite
def locks(draw: st.DrawFn, *, absent: bool = True, policies: bool = True) -> Lock:
    """Locks of any facts."""
    chosen = _no_prefix(draw(st.lists(paths(), max_size=8, unique=True)))
    gone = {path for path in chosen if absent and registry.find(path).type is not FILE and draw(st.integers(0, 4)) == 0}
    lock = Lock(
        values={path: draw(values(registry.find(path))) for path in chosen if path not in gone},
        absent=frozenset(gone),
        unpinned={("kernels",): draw(texts)} if draw(st.booleans()) else {},
    )
    if not policies:
        return lock
    return msgspec.structs.replace(
        lock,
        policy=draw(_policies),
        waive=(_WAIVER,) if draw(st.booleans()) else (),
        requires={("host", "driver"): ">=1"} if draw(st.booleans()) else {},
    )


def agreeing(lock: Lock) -> Observation:
    """What a host shows on which everything is as locked."""
    readings = [Reading(registry.find(path), value, "seen", By.ENDPOINT) for path, value in lock.values.items()]
    readings += [Reading(registry.find(path), ABSENT, "seen", By.ENDPOINT) for path in lock.absent]
    return Observation(readings=tuple(readings), observed_at="2026-01-01T00:00:00Z")


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """What hosts show: any values, several witnesses, gaps."""
    readings = []
    for path in draw(st.lists(paths(), max_size=8)):
        row = registry.find(path)
        value = ABSENT if draw(st.integers(0, 4)) == 0 else draw(values(row))
        readings.append(Reading(row, value, draw(texts), draw(st.sampled_from(By))))
    return Observation(readings=tuple(readings), observed_at="2026-01-01T00:00:00Z")
