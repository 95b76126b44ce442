"""From the options of `verify`, `observe` and `exec` to one look at the host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.api import template_texts
from lockllm.cli import _options
from lockllm.documents.lock import Lock
from lockllm.facts.observation import Observation

if TYPE_CHECKING:
    from lockllm.documents.spec import Spec
    from lockllm.observe.request import Request


def observe(
    locks: Sequence[Lock],
    stage: str | None,
    sources: Mapping[str, Any],
    *,
    command: tuple[str, ...] = (),
    lock_file: str = "",
    cache: str = "auto",
) -> tuple[Observation, str]:
    """One look for what all locks name, and how what was looked at is called.

    `lock_file` is the first one's: the spec beside it may name the checkpoint.
    """
    from lockllm import observe as room
    from lockllm.cli._progress import hashing

    with hashing(enabled=not sources.get("quick") and not sources.get("silent")) as progress:
        asked = request(locks, lock_file, stage, sources, command=command, cache=cache, progress=progress)
        seen = room.observe(asked)
    return seen, room.subject(asked, seen)


def request(
    locks: Sequence[Lock],
    lock_file: str,
    stage: str | None,
    sources: Mapping[str, Any],
    *,
    command: tuple[str, ...] = (),
    cache: str = "auto",
    progress: Any = None,
) -> Request:
    """What the options ask for."""
    from lockllm.observe.request import Request
    from lockllm.observe.server import launch

    started = launch.read(command, dict(os.environ), os.getcwd()) if command else None
    asked = Request(
        stage=_options.stage(stage),
        server=sources.get("server"),
        pid=sources.get("pid"),
        python=_interpreter(sources.get("python")),
        checkpoint=sources.get("checkpoint"),
        path=spec_path(locks[0], lock_file) if locks else None,
        named=_named(locks[0], lock_file) if locks else "",
        log=sources.get("log"),
        gpu=sources.get("gpu") or "auto",
        api_key=_options.api_key(sources.get("api_key_env"), os.environ),
        headers=tuple(sources.get("headers") or ()),
        wait=sources.get("wait") or 0.0,
        timeout=sources.get("timeout") or 10.0,
        quick=bool(sources.get("quick")),
        rehash=bool(sources.get("rehash")),
        deep=bool(sources.get("deep")),
        cache="any" if sources.get("cached") else cache,
        command=started.argv if started else (),
        unread=started.unread if started else "",
        environ=started.env if started else dict(os.environ),
        cwd=started.cwd if started else os.getcwd(),
        progress=progress,
        keep_template=template_texts.keep,
    )
    for lock in locks:
        asked = asked.of_lock(lock)
    return asked


def spec_path(lock: Lock, lock_file: str) -> str | None:
    """The checkpoint's path as the spec beside the lock names it; None: there is no such spec, or it names none."""
    spec = spec_of(lock, lock_file)
    if spec is None or spec.path is None:
        return None
    return os.path.join(os.path.dirname(os.path.abspath(spec.name)), os.path.expanduser(spec.path))


def _named(lock: Lock, lock_file: str) -> str:
    """The model in the spec's own words."""
    spec = spec_of(lock, lock_file)
    return (spec.repo or spec.path or "") if spec is not None else ""


def spec_of(lock: Lock, lock_file: str) -> Spec | None:
    """The spec beside the lock, as it stands there; None where there is none that can be read."""
    if lock_file in ("", "-"):
        return None
    from lockllm.api import spec_file
    from lockllm.errors import LockllmError

    beside = os.path.join(os.path.dirname(os.path.abspath(lock_file)), lock.spec)
    if not os.path.isfile(beside):
        return None
    try:
        return spec_file.read(beside, os.getcwd())[1]
    except LockllmError:
        return None


def _interpreter(python: str | None) -> str | None:
    if python is None or os.sep in python:
        return python
    return shutil.which(python) or python
