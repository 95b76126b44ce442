"""Finds what is meant by a path: a folder, a snapshot of the Hub's cache, a cached repository, or one GGUF file."""

from __future__ import annotations

import os
import stat

import msgspec

from lockllm.checkpoint import bounded, gguf, hub, links, stamps
from lockllm.checkpoint.folder import Entry, Listing, listing, one
from lockllm.errors import UsageError

_FIX = "name a directory, an HF cache snapshot or a .gguf file"


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How the files lie: `kind` is snapshot, local_dir, git, modelscope or plain."""

    kind: str
    root: str  # directory that holds the files, without links
    given: str  # the directory as asked for
    file: str | None = None  # where one GGUF was asked for: its name
    repo: str | None = None
    commit: str | None = None
    revision: str | None = None  # the ref that led to the commit
    source: str = ""  # what tells repo and commit


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A layout with all that lies in it."""

    layout: Layout
    listing: Listing
    place: hub.Place


def find(path: str, revision: str | None) -> Found:
    """What lies at a path. Raises UsageError where it is nothing that can be looked at."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        reason = bounded.why(error) if isinstance(error, OSError) else "it is no path"
        raise UsageError(f"no checkpoint at {path}: {reason}", where=path, fix=_FIX) from error
    if stat.S_ISREG(status.st_mode):
        return _of_file(path)
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path} is {bounded.kind(status.st_mode)}, not a checkpoint", where=path, fix=_FIX)
    given, ref = path, None
    if hub.is_repo(links.real(path)):
        inside, found = hub.snapshot(path, revision)
        if inside is None:
            raise UsageError(found, where=path, fix="download it with `hf download`, or name a snapshot")
        given, ref = inside, found
    root = links.real(given)
    place = hub.place(root)
    layout = Layout(
        kind=place.kind, root=root, given=given, repo=place.repo, commit=place.commit, revision=ref, source=place.source
    )
    try:
        return Found(layout=layout, listing=listing(root, place.allowed), place=place)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be listed: {bounded.why(error)}", where=path, fix="give lockllm read access"
        ) from error


def _of_file(path: str) -> Found:
    folder, name = os.path.split(path)
    folder = folder or "."
    if not name.endswith(".gguf"):
        if _is_gguf(path):
            return _of_blob(path, folder, name)
        raise UsageError(f"{path} is a file, not a checkpoint", where=path, fix=_FIX)
    root = links.real(folder)
    place = hub.place(root)
    layout = Layout(
        kind=place.kind, root=root, given=folder, file=name, repo=place.repo, commit=place.commit, source=place.source
    )
    allowed = (root, *place.allowed)
    entries: list[Entry] = []
    for part in gguf.parts(name):
        entry = one(root, part, allowed if part != name else ("/",))
        if entry is not None:
            entries.append(entry)
    return Found(layout=layout, listing=Listing(entries=tuple(entries)), place=place)


def _of_blob(path: str, folder: str, name: str) -> Found:
    """A GGUF under another name, as in Ollama's store, where `sha256-…` claims the digest. Its logical name gets the suffix."""
    logical = name + ".gguf"
    digest = name.removeprefix("sha256-")
    claims = {logical: hub.Claim(digest, name)} if name.startswith("sha256-") and len(digest) == 64 else {}
    place = hub.Place(claims=claims)
    real = links.real(path)
    status = os.stat(real)
    entry = Entry(path=logical, real=real, size=status.st_size, stamp=stamps.stamp(status), atime_ns=status.st_atime_ns)
    layout = Layout(kind=place.kind, root=links.real(folder), given=folder, file=logical)
    return Found(layout=layout, listing=Listing(entries=(entry,)), place=place)


def _is_gguf(path: str) -> bool:
    try:
        descriptor = bounded.open_regular(path)
    except (OSError, bounded.Malformed):
        return False
    try:
        return os.read(descriptor, 4) == b"GGUF"
    except OSError:
        return False
    finally:
        os.close(descriptor)
