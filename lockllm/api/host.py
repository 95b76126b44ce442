"""One look at a host, for what some locks name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from lockllm.api import spec_file, template_texts
from lockllm.documents.lock import Lock
from lockllm.errors import ArgumentError, LockllmError
from lockllm.facts.fact import Stage
from lockllm.facts.observation import Observation

if TYPE_CHECKING:
    from lockllm.documents.spec import Spec
    from lockllm.observe.request import Request

StrPath = str | os.PathLike[str]
Progress = Callable[[int, int], None]
"""Called with bytes hashed and bytes in all, from any thread."""
Cache = Literal["auto", "any", "off"]
"""The digest cache: `auto` uses it where the file system can be trusted, `any` on network file systems too."""
Gpu = Literal["auto", "nvidia", "rocm", "none"]


class Sources(TypedDict, total=False):
    """What an observation may look at, and how deeply. All that is left out is found on this host."""

    server: str | None  # URL of a running server
    pid: int | None  # process of a running server
    python: StrPath | None  # interpreter of the serving environment; it is run once
    checkpoint: StrPath | None  # the checkpoint, where the server does not say which one it loads
    log: StrPath | None  # the server's start log
    gpu: Gpu  # what to ask for GPUs; auto asks where there is a sign of one
    api_key: str | None  # the server's API key
    headers: Sequence[str]  # headers for the server: "NAME: VALUE"
    wait: float  # seconds to wait for a server that is still loading
    timeout: float  # seconds for all requests to one server
    quick: bool  # compare sizes and claimed digests; hash no weights
    rehash: bool  # hash again what the digest cache holds
    deep: bool  # look for edited packages too, and ask what only an import can tell
    probe_generate: bool  # send the requests that make a token each, where they show more than the others
    cache: Cache
    command: Sequence[str]  # a server that is about to be started, in place of a running one
    environ: Mapping[str, str]  # its environment; default: this process's
    cwd: StrPath  # its working directory; default: this process's
    progress: Progress | None


def look(locks: Sequence[Lock], stage: Stage | None, sources: Sources) -> tuple[Observation, str]:
    """What the host shows of all that the locks name, and how what was looked at is called."""
    from lockllm.observe import observe, subject

    asked = request(locks, stage, sources)
    seen = observe(asked)
    return seen, subject(asked, seen)


def request(locks: Sequence[Lock], stage: Stage | None, sources: Sources) -> Request:
    """The look that the sources describe. The spec beside the first lock may name the checkpoint."""
    from lockllm.observe.request import Request
    from lockllm.observe.server import launch

    _refuse_unknown(sources)
    environ = dict(sources.get("environ", os.environ))
    cwd = os.path.abspath(sources.get("cwd", "."))
    command = tuple(sources.get("command", ()))
    started = launch.read(command, environ, cwd) if command else None
    spec = spec_beside(locks[0]) if locks else None
    asked = Request(
        stage=stage,
        server=sources.get("server"),
        pid=sources.get("pid"),
        python=_interpreter(_text(sources.get("python"))),
        checkpoint=_text(sources.get("checkpoint")),
        path=checkpoint_path(spec) if spec is not None else None,
        named=(spec.repo or spec.path or "") if spec is not None else "",
        log=_text(sources.get("log")),
        gpu=sources.get("gpu", "auto"),
        api_key=sources.get("api_key"),
        headers=tuple(sources.get("headers", ())),
        wait=sources.get("wait", 0.0),
        timeout=sources.get("timeout", 10.0),
        quick=sources.get("quick", False),
        rehash=sources.get("rehash", False),
        deep=sources.get("deep", False),
        probe_generate=sources.get("probe_generate", False),
        cache=sources.get("cache", "auto"),
        command=started.argv if started else (),
        unread=started.unread if started else "",
        environ=started.env if started else environ,
        cwd=started.cwd if started else cwd,
        progress=sources.get("progress"),
        keep_template=template_texts.keep,
    )
    for lock in locks:
        asked = asked.of_lock(lock)
    return asked


def spec_beside(lock: Lock) -> Spec | None:
    """The spec that a lock was made from, in the lock's folder; None where there is none that can be read."""
    if lock.name in ("", "-"):
        return None
    path = os.path.join(os.path.dirname(lock.name), lock.spec)
    if not os.path.isfile(path):
        return None
    try:
        return spec_file.read(path)
    except LockllmError:
        return None


def checkpoint_path(spec: Spec) -> str | None:
    """The folder or file of a spec's checkpoint; None where the spec names a repository."""
    if spec.path is None:
        return None
    return os.path.join(os.path.dirname(os.path.abspath(spec.name)), os.path.expanduser(spec.path))


def _refuse_unknown(sources: Sources) -> None:
    unknown = sorted(set(sources) - set(Sources.__annotations__))
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no source of an observation")
    for argument, value, choices in (
        ("gpu", sources.get("gpu", "auto"), Gpu),
        ("cache", sources.get("cache", "auto"), Cache),
    ):
        allowed: tuple[str, ...] = get_args(choices)
        if value not in allowed:
            raise ArgumentError(f"{value!r} is not one of {', '.join(allowed)}", where=argument, fix="name one of them")


def _text(path: StrPath | None) -> str | None:
    return None if path is None else os.fspath(path)


def _interpreter(python: str | None) -> str | None:
    if python is None or os.sep in python:
        return python
    return shutil.which(python) or python
