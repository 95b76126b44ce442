"""From the options of `verify` and `observe` to one look at the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from lockllm.cli import _options
from lockllm.documents.lock import Lock
from lockllm.facts.observation import Observation


def observe(
    lock: Lock | None, stage: str | None, sources: dict[str, Any], *, skip: Sequence[str] = (), only: Sequence[str] = (),
    command: tuple[str, ...] = (), lock_file: str = "",
) -> tuple[Observation, str]:  # fmt: skip
    """The observation, and how what was looked at is called."""
    from lockllm import observe as room
    from lockllm.cli._progress import hashing
    from lockllm.observe.request import Request

    with hashing(enabled=not sources.get("quick")) as progress:
        request = Request(
            stage=_options.stage(stage),
            server=sources.get("server"),
            pid=sources.get("pid"),
            python=_interpreter(sources.get("python")),
            checkpoint=sources.get("checkpoint"),
            path=_spec_path(lock, lock_file),
            log=sources.get("log"),
            gpu=sources.get("gpu") or "auto",
            api_key=_options.api_key(sources.get("api_key_env"), os.environ),
            headers=tuple(sources.get("headers") or ()),
            wait=sources.get("wait") or 0.0,
            timeout=sources.get("timeout") or 10.0,
            quick=bool(sources.get("quick")),
            rehash=bool(sources.get("rehash")),
            deep=bool(sources.get("deep")),
            cache="any" if sources.get("cached") else "auto",
            command=command,
            environ=dict(os.environ),
            cwd=os.getcwd(),
            progress=progress,
        )
        request = request.of_lock(lock) if lock is not None else request
        seen = room.observe(request)
    return seen, room.subject(request, seen)


def _spec_path(lock: Lock | None, lock_file: str) -> str | None:
    """The checkpoint's path as the spec beside the lock names it; None: there is no such spec, or it names none."""
    if lock is None or lock_file in ("", "-"):
        return None
    from lockllm.cli._locking import read_spec
    from lockllm.errors import LockllmError

    beside = os.path.join(os.path.dirname(os.path.abspath(lock_file)), lock.spec)
    if not os.path.isfile(beside):
        return None
    try:
        _, spec = read_spec(beside, os.getcwd())
    except LockllmError:
        return None
    path = spec.path
    return os.path.join(os.path.dirname(beside), os.path.expanduser(path)) if path is not None else None


def _interpreter(python: str | None) -> str | None:
    if python is None or os.sep in python:
        return python
    return shutil.which(python) or python
