"""One look at a checkpoint: readings, findings and the raw texts that the prompt room resolves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from lockllm.facts.fact import Path
from lockllm.facts.observation import Check, Reading, Unobserved

Hashing = Literal["full", "quick", "none"]
"""`full`: every byte (or a cached digest of it); `quick`: small files by their bytes, weights by size and claim; `none`: no digest."""

Cache = Literal["auto", "any", "renew", "off"]
"""`auto`: on local file systems; `any`: on network and FUSE too; `renew`: hash again and keep; `off`: neither read nor kept."""

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all, from any thread."""


class SeenFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that reaches inference. `evidence` says what stands behind `sha256`: computed, cached, claimed, or nothing."""

    path: str  # logical, relative, with `/`
    size: int
    role: str
    sha256: str | None = None
    evidence: str = ""
    hashed_at: str = ""  # for `cached`: when it was computed, RFC 3339
    blake3: str | None = None


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How the files lie: `kind` is snapshot, local_dir, git, modelscope, plain, gguf."""

    kind: str
    root: str  # directory that holds the files
    given: str  # the path as asked for
    files: tuple[str, ...] = ()  # where one file was asked for: it, with the other parts of its split
    repo: str | None = None
    commit: str | None = None
    revision: str | None = None  # the ref that led to the commit
    source: str = ""  # what tells repo and commit


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one look gave. `texts` are the bytes of small files by logical path; `gguf` its metadata, long arrays left out."""

    layout: Layout
    readings: tuple[Reading, ...] = ()
    checks: tuple[Check, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    complete: frozenset[Path] = frozenset()
    files: tuple[SeenFile, ...] = ()
    excluded: Mapping[str, str] = {}  # logical path -> why it does not reach inference
    content_sha256: str | None = None
    format: str = ""
    texts: Mapping[str, bytes] = {}
    gguf: Mapping[str, Any] = {}
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Logical paths of all files that are there, kept or excluded."""
        return tuple(sorted({*(file.path for file in self.files), *self.excluded}))

    def read(self, name: str) -> bytes | None:
        """The bytes of a small file that was read, or None."""
        return self.texts.get(name)


def look(
    path: str,
    *,
    engine: str | None = None,
    engine_version: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    hashing: Hashing = "full",
    cache: Cache = "off",
    blake3: bool = False,
    revision: str | None = None,
    progress: Progress | None = None,
    transformers_major: int = 5,
) -> Look:
    """All that the files at a path say: a directory, an HF cache snapshot or repository folder, or a GGUF file.

    Raises UsageError where nothing lies there. `include` (glob patterns over paths) replaces the engine's own rule of what
    reaches inference, `exclude` takes away. Findings and what cannot be read are data.
    """
    raise NotImplementedError
