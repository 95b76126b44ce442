"""The Hub: a revision resolved to its commit, every file at that commit, and the few small files whose bytes are wanted.

Two requests for a usual repository, one more for each further 1,000 entries, one for each file that is fetched.
"""

from __future__ import annotations

import json
import os
import re
import urllib.parse
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from lockllm.checkpoint.folder import MOST
from lockllm.checkpoint.listed import Listed, Row, is_safe
from lockllm.errors import ResolveError
from lockllm.resolve.remote.hub_errors import Asked, no_object, told
from lockllm.resolve.remote.hub_http import Answer, Astray, Client, Endless, joined
from lockllm.resolve.remote.web import T, shown

_INFO = 32 * 2**20  # bytes: names alone of 50,000 files
_PAGE = 32 * 2**20
_PAGES = 300  # those of the Hub hold 1,000 entries
_VALUES = 1_200_000  # of a JSON text: an entry has about 17
_LARGEST = 2**53  # bytes of one file
_FILES = 2_000
_BYTES = 512 * 2**20
_AT_ONCE = 6
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NEXT = re.compile(r'<(?P<url>[^<>]{1,4000})>\s*;[^,]*\brel="?next"?')
_POINTER = b"version https://git-lfs"


class _Info(msgspec.Struct):
    sha: str | None = None


class _Lfs(msgspec.Struct):
    oid: str = ""
    sha256: str = ""
    size: int | None = None


class _Entry(msgspec.Struct):
    path: str
    type: str = "file"
    size: int | None = None
    oid: str | None = None
    lfs: _Lfs | None = None


class Hub:
    """One run's view of the Hub: what was asked once is not asked again."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._commits: dict[tuple[str, str], str] = {}
        self._listed: dict[tuple[str, str], Listed] = {}

    @property
    def client(self) -> Client:
        """Made when first used: importing the Hub's client takes a while."""
        if self._client is None:
            self._client = Client()
        return self._client

    def commit(self, asked: Asked) -> str:
        """The commit that a revision is now; without one, that of `main`, as loaders read it. Raises ResolveError."""
        revision = asked.revision or "main"
        if _COMMIT.match(revision):
            return revision
        key = (asked.repo, revision)
        if key not in self._commits:
            path = f"/api/models/{_quoted(asked.repo)}/revision/{urllib.parse.quote(revision, safe='')}"
            try:
                answer = self.client.get(path, limit=_INFO)
            except Exception as error:
                raise told(error, self.client, asked, self.client.endpoint + path) from error
            found = _decoded(answer, _Info, "a JSON object about the model").sha
            if found is None or not _COMMIT.match(found):
                raise no_object(answer, "a model with its commit")
            self._commits[key] = found
        return self._commits[key]

    def listing(self, asked: Asked, commit: str) -> Listed:
        """Every file of a commit. Raises ResolveError."""
        key = (asked.repo, commit)
        if key not in self._listed:
            self._listed[key] = Listed(repo=asked.repo, commit=commit, rows=tuple(self._rows(asked, commit).values()))
        return self._listed[key]

    def fetch(self, asked: Asked, commit: str, rows: Iterable[Row], root: str) -> dict[str, str]:
        """Files of a commit, saved below `root` and held against what the Hub lists of them; path -> sha256."""
        asked = msgspec.structs.replace(asked, revision=commit)
        those = [row for row in rows if is_safe(row.path)]
        if len(those) > _FILES or sum(row.size for row in those) > _BYTES:
            what = (
                f"{len(those):,} small files of {asked.repo} reach inference, {sum(row.size for row in those):,} bytes"
            )
            raise ResolveError(what, where=asked.where, fix="narrow them with checkpoint.include or checkpoint.exclude")
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            jobs = {row.path: pool.submit(self._save, asked, commit, row, root) for row in those}
            try:
                return {path: job.result() for path, job in jobs.items()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _rows(self, asked: Asked, commit: str) -> dict[str, Row]:
        asked = msgspec.structs.replace(asked, revision=commit)
        path = f"/api/models/{_quoted(asked.repo)}/tree/{commit}?recursive=true&expand=false"
        url = self.client.endpoint + path
        rows: dict[str, Row] = {}
        been: set[str] = set()
        pages = 0
        while url:
            pages += 1
            entries, following = self._page(asked, url)
            known = len(been)
            for entry in entries:
                been.add(entry.path)
                if entry.type == "file":
                    _put(rows, _row(entry, url), url)
            if len(been) > MOST or (following and (len(been) == known or pages == _PAGES)):
                what = f"{asked.repo} lists more than {MOST:,} files, or without end"
                raise ResolveError(what, where=f"GET {shown(url)}", fix="name a repository of one model")
            url = following
        return rows

    def _page(self, asked: Asked, url: str) -> tuple[list[_Entry], str]:
        """One page of the listing, and the address of the next."""
        try:
            answer = self.client.get(url, limit=_PAGE)
        except Exception as error:
            raise told(error, self.client, asked, url) from error
        entries = _decoded(answer, list[_Entry], "a list of files")
        found = _NEXT.search(answer.headers.get("link", ""))
        try:
            return entries, joined(answer.url, found["url"]) if found else ""
        except Astray as error:
            raise told(error, self.client, asked, url) from error

    def _save(self, asked: Asked, commit: str, row: Row, root: str) -> str:
        asked = msgspec.structs.replace(asked, file=row.path)
        path = f"/{_quoted(asked.repo)}/resolve/{commit}/{_quoted(row.path)}"
        into = os.path.join(root, row.path)
        os.makedirs(os.path.dirname(into), exist_ok=True)
        for _ in range(2):
            try:
                answer = self.client.save(path, into, row.size)
            except Endless:
                continue
            except Exception as error:
                raise told(error, self.client, asked, self.client.endpoint + path) from error
            same = answer.sha256 == row.sha256 if row.sha256 else row.git in (None, answer.git)
            if answer.size == row.size and same:
                return answer.sha256
        with open(into, "rb") as file:
            pointer = file.read(len(_POINTER)) == _POINTER
        what = "sends a Git LFS pointer in place of it" if pointer else "sends other bytes than it lists"
        where = f"GET {shown(self.client.endpoint + path)}"
        raise ResolveError(f"{row.path} of {asked.repo}: the Hub {what}", where=where, fix="try again later")


def _decoded(answer: Answer, kind: type[T], wanted: str) -> T:
    """An answer's JSON. ResolveError where it is none, holds a key twice, or more values than any repository."""
    if sum(map(answer.body.count, (b",", b"[", b"{", b":"))) > _VALUES:
        raise no_object(answer, wanted)
    try:
        found = msgspec.json.decode(answer.body, type=kind)
        json.loads(answer.body, object_pairs_hook=_once, parse_int=len, parse_float=len)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise no_object(answer, wanted) from error
    return found


def _once(pairs: list[tuple[str, object]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key appears twice")


def is_commit(text: str | None) -> bool:
    """Whether a revision is a full commit already."""
    return text is not None and bool(_COMMIT.match(text))


def _quoted(path: str) -> str:
    return "/".join(urllib.parse.quote(part, safe="") for part in path.split("/"))


def _row(entry: _Entry, url: str) -> Row:
    lfs = entry.lfs
    size = lfs.size if lfs is not None and lfs.size is not None else entry.size
    if size is None or not 0 <= size < _LARGEST:
        raise ResolveError(
            f"the Hub tells no size of {entry.path[:200]}", where=f"GET {shown(url)}", fix="see what HF_ENDPOINT names"
        )
    sha256 = (lfs.oid or lfs.sha256).removeprefix("sha256:") if lfs is not None else ""
    git = entry.oid if lfs is None and entry.oid is not None and _COMMIT.match(entry.oid) else None
    return Row(path=entry.path, size=size, sha256=sha256 if _SHA256.match(sha256) else None, git=git)


def _put(rows: dict[str, Row], row: Row, url: str) -> None:
    if rows.setdefault(row.path, row) != row:
        what = f"the Hub lists {row.path[:200]} twice, and not alike"
        raise ResolveError(what, where=f"GET {shown(url)}", fix="try again later")
