"""The request for one check of a host: the sources, and what the lock or spec names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from lockllm.checkpoint import Look
from lockllm.documents.lock import Lock
from lockllm.engines import Given
from lockllm.facts.fact import Path, Stage

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

Progress = Callable[[int, int], None]
"""Called with bytes hashed and bytes in all, from any thread."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what `observe` looks at."""

    stage: Stage | None = None  # None: all where a server is found, else preflight
    # what is looked for
    engine: str | None = None  # the locked engine: which process counts, which rules apply
    engine_version: str | None = None  # used for rules only where the host does not tell one
    packages: frozenset[str] = frozenset()  # besides those that the engine names
    env: frozenset[str] = frozenset()  # variables besides those that the engine names
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    load_format: str | None = None  # as locked: which set of weights is read where no command says it
    edition: int = 2  # of the lock: files are chosen by the rule that it was made with
    adapters: frozenset[str] = frozenset()  # names of those that are locked by what they are
    weight_version: bool = False  # whether the lock holds that of the served weights
    gpus: int | None = None  # GPUs that the locked server uses
    repo: str | None = None
    revision: str | None = None
    commit: str | None = None
    path: str | None = None  # the checkpoint as the spec names it
    named: str = ""  # the model in the words of spec or lock: engines choose a template by it
    look: Look | None = None  # of the checkpoint, made already
    looks: Mapping[str, Look] = {}  # of what stands beside it, made already, by repository
    # sources
    server: str | None = None
    pid: int | None = None
    python: str | None = None
    checkpoint: str | None = None
    log: str | None = None  # a path, or `-`
    gpu: str = "auto"  # auto, nvidia, rocm, none
    api_key: str | None = None  # already read from the variable that `--api-key-env` names
    headers: tuple[str, ...] = ()
    wait: float = 0.0
    timeout: float = 10.0  # for everything that is asked of one server
    command: tuple[str, ...] = ()  # the planned server
    unread: str = ""  # why the command could not be read whole; nothing of it is claimed then
    planned: Given | None = None  # the planned server where no command was written yet: a spec's facts
    environ: Mapping[str, str] = {}  # its environment; of ourselves where there is none
    cwd: str = "/"
    # depth
    quick: bool = False
    claims: bool = False  # weights that claim a digest are not read
    rehash: bool = False
    deep: bool = False
    probe_generate: bool = False  # whether requests that make a token may be sent
    cache: str = "auto"  # of digests: auto, any, off
    blake3: bool = False
    clock: bool | None = None  # whether the locked template reads it
    pairs: Mapping[str, tuple[str, str]] = {}  # file -> sha256 and BLAKE3 of the same bytes, as locked
    progress: Progress | None = None
    keep_template: Callable[[str], None] | None = None  # is given the text of the template in force

    def of_lock(self, lock: Lock) -> Request:
        """This request, looking for what a lock names."""
        named = {*lock.values, *lock.absent}

        def text(key: FactKey) -> str | None:
            value: Any = lock.get(key)
            return value if isinstance(value, str) else None

        count: Any = lock.get("host.gpu_count")
        return msgspec.structs.replace(
            self,
            engine=self.engine or text("engine.name"),
            engine_version=self.engine_version or text("engine.version"),
            packages=self.packages | members(named, ("packages",)),
            env=self.env | members(named, ("env",)),
            adapters=self.adapters
            | {path[1] for path in named if path[0] == "adapters" and len(path) > 2 and path[2] != "loaded"},
            weight_version=self.weight_version or ("checkpoint", "weight_version") in named,
            include=self.include or lock.include,
            exclude=self.exclude or lock.exclude,
            edition=lock.edition,
            load_format=self.load_format or text("serve.load_format"),
            gpus=self.gpus if self.gpus is not None else count if isinstance(count, int) else None,
            repo=self.repo or text("checkpoint.repo"),
            named=self.named or text("checkpoint.repo") or "",
            revision=self.revision or text("checkpoint.revision"),
            commit=self.commit or text("checkpoint.commit"),
            blake3=self.blake3 or any(path[:2] == ("checkpoint", "blake3") for path in named),
            clock=self.clock if self.clock is not None else _clock(lock),
            pairs=self.pairs or _pairs(lock),
        )


def _clock(lock: Lock) -> bool | None:
    context = lock.get("chat_template.context")
    return bool({"clock", "date_string", "datetime"} & set(context)) if isinstance(context, (list, tuple)) else None


def _pairs(lock: Lock) -> dict[str, tuple[str, str]]:
    """The files for which the lock has both digests."""
    found = {}
    for path, blake3 in lock.values.items():
        held = lock.values.get(("checkpoint", "files", *path[2:])) if path[:2] == ("checkpoint", "blake3") else None
        if isinstance(held, dict) and isinstance(held.get("sha256"), str) and isinstance(blake3, str):
            found[path[-1]] = (held["sha256"], blake3)
    return found


def members(paths: set[Path], family: Path) -> frozenset[str]:
    """The names of a family's members among some paths."""
    return frozenset(
        path[len(family)] for path in paths if len(path) == len(family) + 1 and path[: len(family)] == family
    )
