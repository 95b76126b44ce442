"""A checkpoint as the Hub lists it: the same look as at its files, from names, sizes, digests and the few files fetched. No network."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from lockllm.checkpoint import hub
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry, Listing, plain, twins
from lockllm.checkpoint.layout import Found, Layout
from lockllm.checkpoint.reading import SeenFile
from lockllm.checkpoint.saying import is_read
from lockllm.checkpoint.selection import Loader, Selection, select
from lockllm.checkpoint.survey import Digested, Look, refuse_others, survey
from lockllm.facts.observation import Unobserved

LARGEST = 64 * 2**20
"""The largest file that is fetched: what the Hub holds without a sha256 is smaller, but for a mistake."""
_TOKENS = "tokenizer.json"
_DOWNLOAD = "download the checkpoint, then lock it with checkpoint.path"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a listing: `sha256` where it is stored by LFS or Xet, else git's id of its bytes."""

    path: str
    size: int
    sha256: str | None = None
    git: str | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """All files of a repository at one commit."""

    repo: str
    commit: str
    rows: tuple[Row, ...]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which files of the listing count, as in `checkpoint.look`."""

    engine: str | None = None
    version: str | None = None  # of the engine, where it is known
    load_format: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tokenizer: bool = False  # whether tokenizer.json is wanted even where its digest is known: to make token ids


def wanted(listed: Listed, wish: Wish) -> tuple[Row, ...]:
    """The files to fetch: those that reach inference and have no sha256, and those whose content says something."""
    kept = _selection(listed.rows, wish).kept
    return tuple(
        row
        for row in listed.rows
        if row.path in kept
        and row.size <= LARGEST
        and (row.sha256 is None or is_read(row.path) or (wish.tokenizer and row.path == _TOKENS))
    )


def look(listed: Listed, wish: Wish, root: str, fetched: Mapping[str, str], source: str = "the Hub") -> Look:
    """What `checkpoint.look` would say of the files. `fetched`: path -> sha256 of those that lie below `root`.
    `source`: how the commit is known.

    Raises UsageError where the repository holds no language model. What only the headers of the weights show is unobserved.
    """
    selection = _selection(listed.rows, wish)
    refuse_others(listed.repo, selection)
    entries = [_entry(row, root, fetched) for row in sorted(listed.rows, key=lambda row: row.path)]
    layout = Layout(kind="hub", root=root, given=root, repo=listed.repo, commit=listed.commit, source=source)
    place = hub.Place(kind="hub", repo=listed.repo, commit=listed.commit, source=source)
    found = Found(layout=layout, listing=Listing(entries=tuple(entries), twins=twins(entries)), place=place)

    def digest(_: Findings) -> Digested:
        files, gaps = [], []
        for row in sorted(listed.rows, key=lambda row: row.path):
            if row.path not in selection.kept or not plain(row.path):
                continue
            held = fetched.get(row.path)
            sha256 = held or row.sha256
            if sha256 is None:
                reason = f"the Hub tells no sha256 of it, and {row.size:,} bytes are not fetched"
                gaps.append(Unobserved(("checkpoint", "files", row.path), reason, _DOWNLOAD))
                continue
            files.append(
                SeenFile(
                    path=row.path,
                    size=row.size,
                    role=selection.kept[row.path],
                    sha256=sha256,
                    evidence="computed" if held else "claimed",
                    source=f"{listed.repo}/{row.path} on the Hub",
                )
            )
        return files, gaps, ""

    return survey(found, selection, digest)


def is_safe(path: str) -> bool:
    """Whether a listed path may become a file below a folder of ours."""
    parts = path.split("/")
    return (
        plain(path) and not path.startswith("/") and "\\" not in path and all(p not in ("", ".", "..") for p in parts)
    )


def missing(root: str, rows: Iterable[tuple[str, int | None]], wish: Wish) -> tuple[str, ...]:
    """Which files that reach inference are missing below `root`, or are of another size."""
    held = dict(rows)
    kept = _selection_of(held, wish).kept
    return tuple(path for path in kept if not _is_there(os.path.join(root, path), held[path]))


def cached(folder: str, commit: str) -> tuple[tuple[str, int | None], ...] | None:
    """Paths and sizes of the listing of a commit that a repository's folder in the Hub's cache holds, if it holds one."""
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        return None
    sizes = hub.place(os.path.join(folder, "snapshots", commit)).sizes
    return tuple(sizes.items()) if sizes else None


def _selection(rows: Sequence[Row], wish: Wish) -> Selection:
    return _selection_of((row.path for row in rows), wish)


def _selection_of(names: Iterable[str], wish: Wish) -> Selection:
    loader = Loader(engine=wish.engine, version=wish.version, load_format=wish.load_format)
    return select(names, include=wish.include, exclude=wish.exclude, loader=loader)


def _entry(row: Row, root: str, fetched: Mapping[str, str]) -> Entry:
    if not is_safe(row.path):
        return Entry(path=row.path, real="", size=row.size, kind="name", problem="is no plain path")
    return Entry(path=row.path, real=os.path.join(root, row.path) if row.path in fetched else "", size=row.size)


def _is_there(path: str, size: int | None) -> bool:
    try:
        found = os.stat(path).st_size
    except OSError:
        return False
    return size is None or found == size
