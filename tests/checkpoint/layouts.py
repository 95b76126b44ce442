"""Builds the layouts that Hub clients leave on disk, from a plain folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

COMMIT = "b3a67e0f9b6f8e2ef411068c6c9e7e2ef9fc3a67"
_LFS = 5_000  # files from this size on have a sha256 as their etag, smaller ones git's sha1


def etag(raw: bytes) -> str:
    """As the Hub names a file's content."""
    if len(raw) >= _LFS:
        return hashlib.sha256(raw).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()


def cache(hub: Path, source: Path, repo: str = "org/tiny", *, shared: bool = False, copied: bool = False) -> Path:
    """A repository in the Hub's cache; gives its snapshot. `shared`: payload in the 2.x store; `copied`: no links."""
    folder = hub / ("models--" + repo.replace("/", "--"))
    snapshot = folder / "snapshots" / COMMIT
    tree = {}
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "blobs").mkdir()
    if shared:
        (hub / "blobs").mkdir(exist_ok=True)
        (hub / "blobs" / ".huggingface-shared-blobs").write_text("1\n")
    for path in sorted(source.rglob("*")):
        if path.is_dir():
            continue
        raw, logical = path.read_bytes(), path.relative_to(source)
        place, name = snapshot / logical, etag(raw)
        place.parent.mkdir(parents=True, exist_ok=True)
        tree[str(logical)] = {
            "size": len(raw),
            "blob_id": etag(raw[:10]),
            **({"lfs_sha256": name} if len(name) == 64 else {"blob_id": name}),
        }
        if copied:
            place.write_bytes(raw)
            continue
        blob = folder / "blobs" / name
        if shared and len(name) == 64:
            xet = hashlib.sha256(b"xet" + raw).hexdigest()
            (hub / "blobs" / xet[:2]).mkdir(exist_ok=True)
            (hub / "blobs" / xet[:2] / xet).write_bytes(raw)
            blob.symlink_to(f"../../blobs/{xet[:2]}/{xet}")
        else:
            blob.write_bytes(raw)
        place.symlink_to(os.path.relpath(blob, place.parent))
    (folder / "trees").mkdir()
    (folder / "trees" / f"{COMMIT}.json").write_text(json.dumps({"format_version": 1, "files": tree}))
    return snapshot


def local_dir(target: Path, source: Path, commits: dict[str, str] | None = None) -> Path:
    """A download with `--local-dir`: real files, and a sidecar each."""
    shutil.copytree(source, target)
    for path in sorted(source.rglob("*")):
        if path.is_file():
            logical = path.relative_to(source)
            sidecar = target / ".cache" / "huggingface" / "download" / f"{logical}.metadata"
            sidecar.parent.mkdir(parents=True, exist_ok=True)
            commit = (commits or {}).get(str(logical), COMMIT)
            written = (target / logical).stat().st_mtime
            sidecar.write_text(f"{commit}\n{etag(path.read_bytes())}\n{written}\n")
    return target
