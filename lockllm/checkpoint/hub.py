"""The layouts that Hub clients leave on disk: cache, `--local-dir`, git clone; and what they claim of each file. No network."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.checkpoint import bounded, links

_SNAPSHOT = re.compile(r"(?P<repo>.*/(?:models|datasets|spaces)--(?P<name>[^/]+))/snapshots/(?P<commit>[0-9a-f]{40})\Z")
_REPO = re.compile(r".*/models--(?P<name>[^/]+)\Z")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_ETAG = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REF = re.compile(r"[A-Za-z0-9._/+@#=-]{1,250}\Z")
_LEFT = re.compile(r".*\.incomplete\Z")


class Claim(msgspec.Struct, frozen=True):
    """What a name or a sidecar says that a file's digest is: sha256, or git's sha1 of a small file."""

    digest: str
    source: str

    @property
    def sha256(self) -> str | None:
        """The sha256, where it is one."""
        return self.digest if len(self.digest) == 64 else None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder's own bookkeeping says of it."""

    kind: str = "plain"
    repo: str | None = None
    commit: str | None = None
    source: str = ""
    cache: str | None = None  # the Hub's cache that it is part of
    allowed: tuple[str, ...] = ()  # folders outside the root that links may lead into
    commits: Mapping[str, str] = {}  # file -> commit, where each file has its own
    claims: Mapping[str, Claim] = {}  # by sidecar; a link's own claim is read from the link
    sizes: Mapping[str, int] = {}  # as the Hub listed them
    incomplete: tuple[str, ...] = ()  # downloads that did not end


def place(root: str) -> Place:
    """Recognises a folder without links. Bookkeeping that cannot be read is as if it were not there."""
    found = _SNAPSHOT.match(root)
    if found:
        return _snapshot(found)
    if os.path.isdir(os.path.join(root, ".cache", "huggingface")):
        return _local_dir(root)
    if os.path.exists(os.path.join(root, ".git")):
        return Place(kind="git", commit=_git_commit(root), source=".git/HEAD")
    if any(os.path.exists(os.path.join(root, name)) for name in (".msc", ".mv")):
        return Place(kind="modelscope")
    return Place()


def snapshot(repo_folder: str, revision: str | None) -> tuple[str | None, str]:
    """The snapshot of a cached repository at a revision (default `main`), and the ref or the reason why there is none."""
    asked = revision or "main"
    if not _REF.match(asked) or ".." in asked:
        return None, f"{asked!r} is no revision"
    commit = asked if _COMMIT.match(asked) else _line(os.path.join(repo_folder, "refs", asked))
    if commit is None or not _COMMIT.match(commit):
        return None, f"the cache has no ref {asked!r} of this repository"
    path = os.path.join(repo_folder, "snapshots", commit)
    if not os.path.isdir(path):
        return None, f"ref {asked!r} names commit {commit}, whose snapshot is not in the cache"
    return path, asked


def is_repo(path: str) -> bool:
    """Whether a path is a repository's folder in the Hub's cache."""
    return bool(_REPO.match(path)) and os.path.isdir(os.path.join(path, "snapshots"))


def repo_folder(cache: str, repo: str) -> str:
    """Where the Hub's cache keeps a repository."""
    return os.path.join(cache, "models--" + repo.replace("/", "--"))


def cache_root(environ: Mapping[str, str], home: str) -> str:
    """The Hub's cache that a process with that environment uses."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(name):
            return _expanded(environ[name], home)
    base = environ.get("HF_HOME") or os.path.join(
        environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "huggingface"
    )
    return os.path.join(_expanded(base, home), "hub")


def link_claim(first_link: str | None) -> Claim | None:
    """The digest that a snapshot's link claims: exactly one level, for a blob may link on into a store named otherwise."""
    if not first_link or "blobs/" not in first_link:
        return None
    name = first_link.rpartition("/")[2]
    return Claim(name, f"blobs/{name[:12]}") if _ETAG.match(name) else None


def _snapshot(found: re.Match[str]) -> Place:
    folder, commit = found["repo"], found["commit"]
    hub = os.path.dirname(folder)
    blobs = os.path.join(folder, "blobs")
    allowed = [links.real(blobs)] if os.path.isdir(blobs) else []
    shared = os.path.join(hub, "blobs")
    if os.path.exists(os.path.join(shared, ".huggingface-shared-blobs")):
        allowed.append(links.real(shared))
    claims, sizes = _tree(os.path.join(folder, "trees", commit + ".json"))
    return Place(
        kind="snapshot", cache=hub, repo=found["name"].replace("--", "/"), commit=commit, source="snapshots/ folder name",
        allowed=tuple(allowed), claims=claims, sizes=sizes, incomplete=_incomplete(blobs),
    )  # fmt: skip


def _local_dir(root: str) -> Place:
    base = os.path.join(root, ".cache", "huggingface")
    commits: dict[str, str] = {}
    claims: dict[str, Claim] = {}
    incomplete = []
    download = os.path.join(base, "download")
    for folder, _, names in os.walk(download):
        for name in names[:20_000]:
            path = os.path.join(folder, name)
            logical = os.path.relpath(path, download).replace(os.sep, "/")
            if _LEFT.match(name):
                incomplete.append(".cache/huggingface/download/" + logical)
            elif name.endswith(".metadata"):
                lines = _lines(path)
                logical = logical.removesuffix(".metadata")
                if len(lines) >= 3 and _COMMIT.match(lines[0]) and _is_current(os.path.join(root, logical), lines[2]):
                    commits[logical] = lines[0]
                    if _ETAG.match(lines[1]):
                        claims[logical] = Claim(lines[1], f"{logical}.metadata")
    several = set(commits.values())
    commit = next(iter(several)) if len(several) == 1 else None
    tree, sizes = _tree(os.path.join(base, "trees", commit + ".json")) if commit else ({}, {})
    return Place(
        kind="local_dir", commit=commit, source=".cache/huggingface", commits=commits, incomplete=tuple(sorted(incomplete)),
        claims={name: tree.get(name, claim) for name, claim in claims.items()},
        sizes={name: size for name, size in sizes.items() if name in claims},
    )  # fmt: skip


def _is_current(path: str, written: str) -> bool:
    """Whether a sidecar still speaks of the file: one changed later than a second after it is another file."""
    try:
        return os.stat(path).st_mtime <= float(written) + 1
    except (OSError, ValueError):
        return False


def _tree(path: str) -> tuple[dict[str, Claim], dict[str, int]]:
    try:
        tree, _ = bounded.parse_object(bounded.read_small(path))
    except bounded.Malformed:
        return {}, {}
    files: Any = tree.get("files")
    claims, sizes = {}, {}
    for name, row in files.items() if isinstance(files, dict) else ():
        if not isinstance(row, dict):
            continue
        digest = row.get("lfs_sha256") or row.get("blob_id")
        if isinstance(digest, str) and _ETAG.match(digest):
            claims[name] = Claim(digest, "the Hub's listing kept in trees/")
        size = row.get("size")
        if isinstance(size, int):
            sizes[name] = size
    return claims, sizes


def _incomplete(blobs: str) -> tuple[str, ...]:
    try:
        with os.scandir(blobs) as found:
            return tuple(sorted("blobs/" + entry.name for entry in found if _LEFT.match(entry.name)))
    except OSError:
        return ()


def _git_commit(root: str) -> str | None:
    git = os.path.join(root, ".git")
    head = _line(os.path.join(git, "HEAD"))
    if head is None:
        return None
    if _COMMIT.match(head):
        return head
    ref = head.removeprefix("ref: ")
    if not _REF.match(ref) or ".." in ref:
        return None
    loose = _line(os.path.join(git, ref))
    if loose and _COMMIT.match(loose):
        return loose
    packed = [line.split(" ") for line in _lines(os.path.join(git, "packed-refs"))]
    return next((line[0] for line in packed if len(line) == 2 and line[1] == ref and _COMMIT.match(line[0])), None)


def _lines(path: str) -> list[str]:
    try:
        return bounded.read_small(path, 2**22).decode("utf-8", "replace").split("\n")
    except bounded.Malformed:
        return []


def _line(path: str) -> str | None:
    lines = _lines(path)
    return lines[0].strip() if lines else None


def _expanded(path: str, home: str) -> str:
    return os.path.join(home, path[2:]) if path.startswith("~/") else home if path == "~" else path
