"""One look at a checkpoint: readings, findings and the raw texts that the prompt room resolves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.checkpoint import cache as digests
from lockllm.checkpoint import links, reading, saying
from lockllm.checkpoint import weights as tensors
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.hashing import Progress
from lockllm.checkpoint.layout import Found, Layout, find
from lockllm.checkpoint.lying import lying
from lockllm.checkpoint.reading import Cache, Hashing, SeenFile
from lockllm.checkpoint.selection import EDITION, ENGINE, OTHER, TOKENIZER, Loader, Selection, role, select
from lockllm.errors import UsageError
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one look gave. `texts`: bytes of small files by logical path; `gguf`: its metadata without long arrays."""

    layout: Layout
    readings: tuple[Reading, ...] = ()
    checks: tuple[Check, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    complete: frozenset[Path] = frozenset()
    files: tuple[SeenFile, ...] = ()
    unread: tuple[str, ...] = ()  # what reaches inference, and is no file that can be read
    excluded: Mapping[str, str] = {}  # logical path -> why it does not reach inference
    content_sha256: str | None = None
    format: str = ""
    texts: Mapping[str, bytes] = {}
    gguf: Mapping[str, Any] = {}
    special_tokens: Mapping[str, str] = {}  # of a GGUF: `bos_token` and the like, as texts
    dtypes: Mapping[str, int] = {}  # dtype or GGUF type of the tensors -> parameters
    warnings: tuple[str, ...] = ()
    kept_now: Callable[[], frozenset[str] | None] | None = None
    """What reaches inference by the same rule at another moment; None: the path points to another folder by then."""

    @property
    def names(self) -> tuple[str, ...]:
        """Logical paths of all that is there, kept or excluded, readable or not."""
        return tuple(sorted({*(file.path for file in self.files), *self.unread, *self.excluded, *self.texts}))

    def place(self, name: str) -> str | None:
        """Where one of the files lies; None for what is no file of the checkpoint (a device, a link that leaves it)."""
        path = links.real(os.path.join(self.layout.root, name))
        return path if any(each.path == name for each in self.files) and os.path.isfile(path) else None

    def read(self, name: str) -> bytes | None:
        """The bytes of a small file that was read, or None."""
        return self.texts.get(name)


Digested = tuple[list[SeenFile], list[Unobserved], str]
"""Files with their digests, those that could not be read, and why no digest is kept (empty where one is)."""


def look(
    path: str, *, engine: str | None = None, engine_version: str | None = None, include: Sequence[str] = (),
    exclude: Sequence[str] = (), hashing: Hashing = "full", cache: Cache = "off", blake3: bool = False,
    pairs: Mapping[str, tuple[str, str]] | None = None, weights: str | None = None, revision: str | None = None,
    progress: Progress | None = None, transformers_major: int = 5, load_format: str | None = None, edition: int = 2,
) -> Look:  # fmt: skip
    """All that the files at a path say: a directory, an HF cache snapshot or repository folder, or a GGUF file.

    Raises UsageError where nothing lies there. `include` (globs over paths) replaces the engine's own rule of what reaches
    inference, `exclude` takes away, `weights` names the format that is loaded where several lie in the folder. `pairs`:
    path -> sha256 and BLAKE3 of the same bytes, as a lock holds them: large files are then read by BLAKE3 alone. `edition`
    is that of the lock: an older one is held against the files that its own rule chose. Findings and what cannot be read
    are data.
    """
    found = find(path, revision)
    files = found.listing.files
    loader = Loader(engine=engine, version=engine_version, load_format=load_format, edition=edition)
    names = [entry.path for entry in found.listing.entries if entry.kind != "folder_link"]
    selection = select(names, include=include, exclude=exclude, weights=weights, loader=loader)
    refuse_others(path, selection)
    memory = reading.memory(found.layout.root, cache)

    def digest(findings: Findings) -> Digested:
        task = reading.Task(
            root=found.layout.root, given=found.layout.given, files=files, roles=selection.kept,
            claims=reading.claims(files, found.place), hashing=hashing, blake3=blake3, pairs=pairs or {},
            memory=memory,
        )  # fmt: skip
        digested = reading.digest(task, progress, findings)
        if memory is not None:
            digests.write(memory)
            memory.kept.clear()  # as much memory as the readings that come next
        return digested

    def kept_now() -> frozenset[str] | None:
        other = find(path, revision)
        entries = [entry.path for entry in other.listing.entries if entry.kind != "folder_link"]
        kept = select(entries, include=include, exclude=exclude, weights=weights, loader=loader).kept
        return frozenset(kept) if other.layout.root == found.layout.root else None

    seen_whole = survey(found, selection, digest, hashing=hashing, transformers_major=transformers_major, memory=memory)
    seen_whole = msgspec.structs.replace(seen_whole, kept_now=kept_now)
    if edition >= EDITION:
        return seen_whole
    newer = select(
        names,
        include=include,
        exclude=exclude,
        weights=weights,
        loader=msgspec.structs.replace(loader, edition=EDITION),
    )
    return msgspec.structs.replace(seen_whole, checks=(*seen_whole.checks, *_not_locked(newer, selection)))


def _not_locked(newer: Selection, selection: Selection) -> Iterator[Check]:
    """Files that the engine may load and that a lock of an older rule does not hold: they are named, and not judged."""
    missing = sorted(newer.kept.keys() - selection.kept.keys())
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        detail = f"an older lockllm left out {', '.join(missing[:3])}{more}, which the engine may load"
        yield Check("check.files_locked", CheckStatus.FAIL, detail, missing[0], "run `lockllm lock` again")


def survey(
    found: Found, selection: Selection, digest: Callable[[Findings], Digested], *, hashing: Hashing = "full",
    transformers_major: int = 5, memory: digests.Cache | None = None,
) -> Look:  # fmt: skip
    """The look at files that are found and sorted already; `digest` gives those that reach inference with their digests."""
    findings = Findings(selection.edition)
    lost = list(lying(found, selection, findings))
    documents = saying.documents(found.listing.files, findings)
    said = saying.say(found, selection, documents, findings, transformers_major, memory)
    held, failed, why_not_kept = digest(findings)
    complete = {("checkpoint", "generation_config"), ("quantization",), ("adapter",)}
    readings = [*_place(found, selection), *said.readings, *(each for each in lost if isinstance(each, Reading))]
    unobserved = [*said.unobserved, *(each for each in lost if isinstance(each, Unobserved)), *failed]
    whole: Reading | None = None
    if hashing != "none":
        readings += reading.readings(held)
        if not unobserved or not any(each.path[:2] == ("checkpoint", "files") for each in unobserved):
            whole = reading.content(held, ("checkpoint", "content_sha256"), "sha256 over all files")
        parts = ((TOKENIZER, ("tokenizer", "content_sha256")), (ENGINE, ("engine", "artifact_sha256")))
        each = [
            reading.content([file for file in held if file.role == of], fact, "sha256 over its files")
            for of, fact in parts
        ]
        readings += [one for one in (whole, *each) if one is not None]
        if whole is None:
            unobserved.append(Unobserved(("checkpoint", "content_sha256"), *_why_no_digest(held, hashing)))
        if not found.listing.cut:
            complete |= {("checkpoint", "files"), ("checkpoint", "blake3")}
    return Look(
        layout=found.layout, readings=tuple(readings), checks=findings.checks(), unobserved=tuple(unobserved),
        complete=frozenset(complete), files=tuple(held), excluded=selection.excluded,
        unread=tuple(sorted(selection.kept.keys() - {file.path for file in held})), texts=documents.texts,
        content_sha256=whole.value if whole else None, format=selection.format, gguf=_gguf(said.weights),
        special_tokens=said.weights.special, dtypes=said.weights.dtypes,
        warnings=(f"no digest is kept: {why_not_kept}",) if why_not_kept else (),
    )  # fmt: skip


def _why_no_digest(held: list[SeenFile], hashing: Hashing) -> tuple[str, str]:
    without = [file.path for file in held if file.sha256 is None]
    if hashing == "quick" and without:
        return f"a quick look hashes no weights, and {without[0]} claims no digest", "look without --quick"
    return "not every file has a digest", "see the files that cannot be read"


def _gguf(held: tensors.Weights) -> dict[str, Any]:
    return {**held.metadata, **{f"tokenizer.ggml.{name}": text for name, text in held.special.items()}}


def refuse_others(path: str, selection: Selection) -> None:
    """Raises UsageError where what lies there is no language model."""
    names = {*selection.kept, *selection.excluded}
    if "model_index.json" in names and "config.json" not in names:
        what = f"{path} is a diffusers pipeline, not a language model"
        raise UsageError(what, where=path, fix="name the folder of a language model")
    if not any(role(name) != OTHER for name in names):
        what = f"no checkpoint in {path}: no config.json, no weights, no tokenizer" if names else f"{path} is empty"
        raise UsageError(what, where=path, fix="name a directory, an HF cache snapshot or a .gguf file")


def _place(found: Found, selection: Selection) -> Iterator[Reading]:
    layout = found.layout
    yield seen("checkpoint.format", selection.format or ABSENT, "names of the files", By.FILE)
    if layout.repo is not None:
        yield seen("checkpoint.repo", layout.repo, layout.source, By.FILE)
    if layout.revision is not None:
        yield seen("checkpoint.revision", layout.revision, "refs/ of the cache", By.FILE)
    if layout.commit is not None:
        yield seen("checkpoint.commit", layout.commit, layout.source, By.FILE)
