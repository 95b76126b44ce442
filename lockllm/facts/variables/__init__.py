"""The catalogue of environment variables: who reads each, since and until when, its class, and what it moves.

A value is read out of a process only where the catalogue, or the engine, names its variable; all others are told by name.
"""

from __future__ import annotations

import enum
import pkgutil
import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

_SPAN = re.compile(r"([@~]?)([A-Z][A-Z0-9_]*\*?)(?:>=([\d.]+))?(?:<=([\d.]+))?")
NAMES_OF_NOISE = re.compile(
    r"CACHE_DIR|LOG|DEBUG|TRACE|COMPILE_THREADS|FILENAME|VERBOSE|DUMP|DEVICES|PATH|(?:^|_)DIR\Z|REMOTE|REDIS|HOST|PORT|URL"
)
NAMES_OF_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP).*)?\Z")
"""What Kubernetes sets for a service that is named after the engine."""
PREFIXES = {
    "vllm": ("VLLM_",), "sglang": ("SGLANG_", "SGL_"), "tensorrt-llm": ("TRTLLM_", "TLLM_"), "lmdeploy": ("LMDEPLOY_",),
}  # fmt: skip
"""Engine -> the prefixes of its own variables, where the engine itself tells no unknown ones."""
BELOW = ("FLASHINFER_", "TORCHINDUCTOR_", "TRITON_", "NCCL_", "AITER_")


class Class(enum.Enum):
    """What a variable does, so whether it is locked."""

    NUMERICS = "numerics"  # other kernels, precision or order of sums
    PROMPT = "prompt"  # other tokens go in
    SAMPLING = "sampling"  # tokens are drawn otherwise
    SCHEDULING = "scheduling"  # batches, caches, threads, room
    IDENTITY = "identity"  # where things come from
    CODE = "code"  # other code or libraries run in the server
    FORBIDDEN = "forbidden"  # falsifies results: a finding wherever it is set
    PLACEMENT = "placement"  # which devices: resolved into host.*
    SECRET = "secret"  # nobody's business
    NOISE = "noise"  # moves nothing
    OPEN = "open"  # read by the engine, and nobody has said what it moves: compared, for it may move output


_RECORDED = frozenset(Class) - {Class.PLACEMENT, Class.SECRET, Class.NOISE}


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One row. A name that ends in `*` stands for all that begin so."""

    name: str
    engine: str  # empty: a library below the engines reads it
    kind: Class
    effect: str = ""
    since: str = ""
    until: str = ""  # the last release that reads it; empty: still there
    content: bool = False  # it names a file or folder: what is locked is its content
    resolved: bool = False  # resolved into other facts, never read into a value
    edition: int = 2  # of the rules, in which the row came: locks of an older one do not deny the variable

    @property
    def recorded(self) -> bool:
        """Whether its value belongs to a lock as it stands."""
        return self.kind in _RECORDED and not self.content and not self.resolved


def find(name: str, engine: str | None = None) -> Variable | None:
    """The row of a variable as an engine reads it: its own, else a library's. Without an engine, anybody's."""
    exact, families = _tables()
    owners = ("",) if engine == "" else (engine, "") if engine is not None else tuple(exact)
    for owner in owners:
        if (row := exact.get(owner, {}).get(name)) is not None:
            return row
    for owner in owners:
        for row in families.get(owner, ()):
            if name.startswith(row.name[:-1]) and len(name) >= len(row.name):
                return msgspec.structs.replace(row, kind=Class.NOISE) if NAMES_OF_NOISE.search(name) else row
    return None


def readers(name: str) -> tuple[Variable, ...]:
    """Every row that a variable has: its engines, then the libraries."""
    exact, families = _tables()
    owners = sorted({*exact, *families}, key=lambda owner: (not owner, owner))
    return tuple(row for owner in owners if (row := find(name, owner)) is not None and row.engine == owner)


def rows(engine: str) -> tuple[Variable, ...]:
    """Every row of one engine, or of the libraries below (empty)."""
    exact, families = _tables()
    return (*exact.get(engine, {}).values(), *families.get(engine, ()))


def recorded(engine: str) -> frozenset[str]:
    """The names of an engine's own variables whose values are locked."""
    return frozenset(row.name for row in rows(engine) if row.recorded and not row.name.endswith("*"))


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, dict[str, Variable]], dict[str, list[Variable]]]:
    exact: dict[str, dict[str, Variable]] = {}
    families: dict[str, list[Variable]] = {}
    for row in _all():
        if row.name.endswith("*"):
            families.setdefault(row.engine, []).append(row)
        else:
            exact.setdefault(row.engine, {}).setdefault(row.name, row)
    return exact, families


def _all() -> Iterator[Variable]:
    from lockllm.facts.variables import below, engines

    spans = vllm_spans()
    rows = [*(("vllm", *row) for row in vllm_rows()), *engines.ROWS, *(("", *row) for row in below.ROWS)]
    for engine, kind, effect, names in rows:
        for word in names.split():
            found = _SPAN.fullmatch(word)
            assert found is not None, word
            since, until = spans.pop(found[2], ("", "")) if engine == "vllm" else (found[3] or "", found[4] or "")
            yield Variable(
                name=found[2], engine=engine, kind=Class(kind), effect=effect, since=since, until=until,
                content=found[1] == "@", resolved=found[1] == "~",
            )  # fmt: skip
    for name, (since, until) in spans.items():
        yield Variable(name=name, engine="vllm", kind=Class.OPEN, since=since, until=until)


def vllm_rows() -> tuple[tuple[str, str, str], ...]:
    """What a person says of vLLM's variables: class, what they move, names."""
    from lockllm.facts.variables import vllm

    return vllm.ROWS


def vllm_spans() -> dict[str, tuple[str, str]]:
    """Variable of vLLM -> first and last release that reads it, from the data file of `tools.refresh`."""
    raw = pkgutil.get_data("lockllm.facts.variables", "vllm.json")
    return msgspec.json.decode(raw or b"", type=dict[str, tuple[str, str]])
