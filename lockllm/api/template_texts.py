"""Texts of chat templates by sha256, stored when they are locked or verified, so that a diff can show what changed."""

from __future__ import annotations

import contextlib
import hashlib
import os

from lockllm.api import files
from lockllm.documents.lock import Lock

_LONGEST = 2**20


def folder() -> str:
    """The folder of the texts: in LOCKLLM_CACHE, else in the user's cache."""
    base = os.environ.get("LOCKLLM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "lockllm"
    )
    return os.path.join(base, "templates")


def keep(text: str) -> None:
    """Store a template's text. A cache that cannot be written is ignored."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > _LONGEST:
        return
    with contextlib.suppress(Exception):
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        path = os.path.join(folder(), hashlib.sha256(data).hexdigest())
        if not os.path.exists(path):
            files.write_text(path, text)


def find(sha256: str) -> str | None:
    """The text with that digest, if it was stored and is unchanged."""
    if len(sha256) != 64 or not sha256.isalnum():
        return None
    try:
        with open(os.path.join(folder(), sha256), "rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if hashlib.sha256(data).hexdigest() == sha256 else None


def of(lock: Lock) -> str | None:
    """The text of a lock's template: as stored, else from the Hub's cache on this machine at that commit."""
    sha256 = lock.get("chat_template.sha256")
    if not isinstance(sha256, str):
        return None
    return find(sha256) or _cached(lock, sha256)


def _cached(lock: Lock, sha256: str) -> str | None:
    repo, commit = lock.get("checkpoint.repo"), lock.get("checkpoint.commit")
    if not isinstance(repo, str) or not isinstance(commit, str):
        return None
    from lockllm.checkpoint import hub, look
    from lockllm.errors import LockllmError
    from lockllm.prompt import resolve

    place = hub.repo_folder(hub.cache_root(os.environ, os.path.expanduser("~")), repo)
    engine = lock.get("engine.name")
    try:
        looked = look(place, engine=engine, include=lock.include, exclude=lock.exclude, hashing="none", revision=commit)
    except (LockllmError, OSError):
        return None
    templates = {key: text for key, text in looked.gguf.items() if isinstance(text, str)}
    resolution = resolve.resolve(looked.read, looked.names, engine, gguf=templates or None)
    text = next((each.text for each in resolution.candidates if each.text is not None and each.sha256 == sha256), None)
    if text is not None:
        keep(text)
    return text
