"""Where the checkpoint of a spec is looked at: a complete snapshot in the Hub's cache, or the Hub's own listing of the commit."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable

import msgspec

from lockllm.checkpoint import Look, listed
from lockllm.checkpoint import hub as layouts
from lockllm.checkpoint.bounded import Malformed, read_small
from lockllm.checkpoint.listed import Listed, Row, Wish
from lockllm.errors import LockllmError, ResolveError
from lockllm.prompt.templates import CONFIG, FOLDER, JINJA, LEGACY, PROCESSOR
from lockllm.resolve.remote.hub import Hub, is_commit
from lockllm.resolve.remote.hub_errors import Asked, offline

_TEMPLATES = (JINJA, LEGACY, CONFIG, PROCESSOR)
_LONGEST = 16 * 2**20


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the checkpoint lies: at `path`, or as the Hub lists it. Neither: only the old lock knows it."""

    path: str | None = None
    listed: Listed | None = None
    asked: Asked | None = None
    commit: str | None = None
    commit_via: str = ""
    notes: tuple[str, ...] = ()  # what a person should know of how it was found

    @property
    def is_seen(self) -> bool:
        """Whether there is anything to look at."""
        return self.path is not None or self.listed is not None


class Finder:
    """Finds places for one run. `offline`: why the Hub must not be asked, or nothing."""

    def __init__(self, offline: str = "") -> None:
        self.offline = offline
        self._hub = Hub()
        self._fetched: dict[tuple[str, str], tuple[tempfile.TemporaryDirectory[str], dict[str, str]]] = {}

    def close(self) -> None:
        """Removes what was fetched."""
        while self._fetched:
            self._fetched.popitem()[1][0].cleanup()

    def commit(self, asked: Asked) -> tuple[str, str]:
        """The commit of a revision now, and how that is known. Raises ResolveError."""
        if is_commit(asked.revision):
            return str(asked.revision), ""
        if not self.offline:
            return self._hub.commit(asked), f"Hub: {asked.revision or 'main'}"
        snapshot, ref = layouts.snapshot(_folder(asked.repo), asked.revision)
        if snapshot is None:
            raise offline(asked.repo, ref, self.offline, asked.where)
        return os.path.basename(snapshot), f"cache ref: {ref}"

    def place(self, asked: Asked, held: str | None, wish: Wish) -> Place:
        """Where to look at a repository. `held`: the commit of the old lock, where it is to stay. Raises ResolveError."""
        commit, via = (held, "") if held is not None else self.commit(asked)
        snapshot, reason = layouts.snapshot(_folder(asked.repo), commit)
        missing: tuple[str, ...] = ()
        if snapshot is not None:
            rows = listed.cached(_folder(asked.repo), commit)
            missing = listed.missing(snapshot, rows, wish) if rows is not None else ()
            if not missing and (rows is not None or self.offline):
                return Place(path=snapshot, asked=asked, commit=commit, commit_via=via)
            reason = f"{len(missing)} files are missing in the cache: {missing[0]}" if missing else ""
        if self.offline:
            if held is not None:
                return Place(commit=held, asked=asked, notes=(f"the checkpoint is kept as locked: {reason}",))
            raise offline(asked.repo, reason, self.offline, asked.where)
        try:
            found = self._hub.listing(asked, commit)
        except ResolveError as error:
            if held is None:
                raise
            return Place(commit=held, asked=asked, notes=(f"the checkpoint is kept as locked: {error.what}",))
        if snapshot is not None and not missing:  # older clients keep no listing beside a snapshot
            rows = tuple((row.path, row.size) for row in found.rows)
            if not listed.missing(snapshot, rows, wish):
                return Place(path=snapshot, asked=asked, commit=commit, commit_via=via)
        return Place(listed=found, asked=asked, commit=commit, commit_via=via)

    def look(self, place: Place, wish: Wish, source: str = "the Hub") -> Look:
        """The look at what the Hub lists; the small files that say something are fetched first. Raises LockllmError.

        `source`: how the commit is known.
        """
        assert place.listed is not None
        assert place.asked is not None
        folder, fetched = self._fetch(place.asked, place.listed.commit, listed.wanted(place.listed, wish))
        try:
            return listed.look(place.listed, wish, folder, fetched, source)
        except LockllmError as error:
            fix = "name the repository of a language model"
            raise type(error)(error.what, where=place.asked.where, fix=fix) from error

    def texts(self, asked: Asked, commit: str) -> dict[str, bytes]:
        """The files of a commit that may hold a chat template, from the cache or the Hub; empty where neither gives them."""
        snapshot, _ = layouts.snapshot(_folder(asked.repo), commit)
        if snapshot is not None:
            return _texts(snapshot)
        if self.offline:
            return {}
        try:
            rows = self._hub.listing(asked, commit).rows
            folder, _ = self._fetch(asked, commit, (row for row in rows if _may_hold_template(row.path)))
        except LockllmError:
            return {}
        return _texts(folder)

    def _fetch(self, asked: Asked, commit: str, rows: Iterable[Row]) -> tuple[str, dict[str, str]]:
        """The folder of a commit's files, and path -> sha256 of those that are there: what was fetched once stays for the run."""
        key = (asked.repo, commit)
        if key not in self._fetched:
            self._fetched[key] = (tempfile.TemporaryDirectory(prefix="lockllm-"), {})
        folder, held = self._fetched[key]
        held |= self._hub.fetch(asked, commit, [row for row in rows if row.path not in held], folder.name)
        return folder.name, held


def why_offline(option: bool) -> str:
    """What says that the Hub must not be asked, or nothing."""
    if option:
        return "--offline"
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}:
            return name
    return ""


def _folder(repo: str) -> str:
    return layouts.repo_folder(layouts.cache_root(os.environ, os.path.expanduser("~")), repo)


def _may_hold_template(path: str) -> bool:
    return path in _TEMPLATES or (path.startswith(FOLDER) and path.endswith(".jinja") and path.count("/") == 1)


def _texts(root: str) -> dict[str, bytes]:
    found = {}
    more = os.path.join(root, FOLDER)
    names = [*_TEMPLATES, *(FOLDER + name for name in (os.listdir(more) if os.path.isdir(more) else ()))]
    for name in filter(_may_hold_template, names):
        with contextlib.suppress(Malformed):
            found[name] = read_small(os.path.join(root, name), _LONGEST)
    return found
