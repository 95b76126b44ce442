"""Whether the files that a server loaded are still the files on disk."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from lockllm import engines
from lockllm.checkpoint import Look, SeenFile, links, stamps
from lockllm.facts.observation import Check, CheckStatus
from lockllm.observe.process import proc
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files
from lockllm.observe.server import workers
from lockllm.observe.server.find import RunningServer

_MOST_TOLD = 3
_KEPT = (".gguf", ".safetensors", ".bin", ".pt", ".pth")
_SLACK_NS = 10_000_000
"""The start of a process is counted in hundredths of a second, and files bear the time of the last tick of the clock."""
_NAME = "check.server_current"
_NO_FILES: Mapping[str, str] = MappingProxyType({})
_MOST_BELOW = 1_000


def current(
    server: RunningServer,
    environment: Environment | None,
    looks: Iterable[Look],
    packages: frozenset[str],
    files: Mapping[str, str] = _NO_FILES,
) -> Check:
    """Whether a mapped file, a package or a file of a checkpoint was changed or replaced since the server started.

    A time of modification can be put back (`cp -p`, `rsync -a`, `tar`), the time of change cannot: it decides. It also moves
    where no byte does (a hard link, a mode), and what the server loaded at its start is then known only where an earlier
    look, made since that start, saw the same bytes, or where the file was plainly touched. `files` are others that the
    command names, by the names that it gives them.
    """
    where = proc.owned(server.process)
    since = proc.started_at(server.process, _loaded_from(server))
    started = None if since is None else int(since * 10**9)
    told = list(dict.fromkeys(_replaced(server)))
    downloads = []
    if started is not None:
        told += _newer_packages(environment, packages, started)
        for look in looks:
            moved = list(_moved(look, started))
            if moved and _is_downloaded_since(look, started):
                downloads.append(look.layout.repo or look.layout.root)
            else:
                told += moved
        told += [name for name, path in files.items() if _is_newer(path, started)]
    told = list(dict.fromkeys(told))
    if told:
        rest = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        detail = f"changed or replaced since the server started: {', '.join(told[:_MOST_TOLD])}{rest}"
        fix = "restart the server, so that it runs what is on disk"
        return Check(_NAME, CheckStatus.FAIL, detail, where, fix)
    if downloads:
        detail = (
            f"downloaded since the process began: {', '.join(downloads[:_MOST_TOLD])}; what it loaded is not proven"
        )
        return Check(_NAME, CheckStatus.UNKNOWN, detail, where, "download the model before the server starts")
    return Check(_NAME, CheckStatus.PASS, "nothing that it loaded was replaced since it started", where)


def _replaced(server: RunningServer) -> Iterator[str]:
    for _, file in server.mappings.files:
        library = ".so" in file.path and "-packages/" in file.path
        if file.deleted and (library or file.path.lower().endswith(_KEPT)):
            yield file.path


def _newer_packages(environment: Environment | None, packages: frozenset[str], started: int) -> Iterator[str]:
    for name, one in environment.distributions.items() if environment is not None else ():
        if name not in packages:
            continue
        try:
            status = files.resolved(one.folder).stat()
        except OSError:
            continue
        if _last(status.st_ctime_ns, status.st_mtime_ns) > started + _SLACK_NS:
            yield f"{name} {one.version}"


def _moved(look: Look, started: int) -> Iterator[str]:
    """The files that may hold other bytes than when the server started, and the links that lead elsewhere since."""
    yield from (file.path for file in look.files if _has_moved(file, started))
    try:
        crossed = links.crossed(look.layout.given)
    except OSError:
        return
    for link in crossed:
        try:
            if os.lstat(link).st_ctime_ns > started + _SLACK_NS:
                yield f"the link {link[len(links.view(link)) :]}"
        except OSError:
            continue


def _has_moved(file: SeenFile, started: int) -> bool:
    entry = file.entry
    if entry is None or entry.stamp is None:
        return False
    last = max(_last(entry.stamp.ctime_ns, entry.stamp.mtime_ns), entry.link_ns)
    if last <= started + _SLACK_NS:
        return False
    return not any(since <= started + _SLACK_NS and started <= until for since, until in file.known)


def _is_newer(path: str, started: int) -> bool:
    """Whether a file, or one below a folder, may hold other bytes than when the server started."""
    try:
        link = max((os.lstat(each).st_ctime_ns for each in links.crossed(path)), default=0)
        path = links.real(path)
        if os.path.isdir(path):
            below = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
            return any(_is_newer(each, started) for each in itertools.islice(below, _MOST_BELOW))
        status = os.stat(path)
    except OSError:
        return False
    at = stamps.stamp(status)
    if max(_last(at.ctime_ns, at.mtime_ns), link) <= started + _SLACK_NS:
        return False
    born = stamps.born_ns(path)
    touched = stamps.only_touched(path, at, status.st_atime_ns) and link <= started + _SLACK_NS
    return not (touched and born is not None and born <= started + _SLACK_NS)


def _last(ctime_ns: int, mtime_ns: int) -> int:
    """When something was last changed; a time of modification in the future says nothing."""
    return max(ctime_ns, mtime_ns if mtime_ns <= time.time_ns() else 0)


def _is_downloaded_since(look: Look, started: int) -> bool:
    """Whether the whole snapshot of the Hub's cache is newer than the process: a server that is given a repository downloads
    it itself, and what it downloads it loads."""
    if look.layout.kind != "snapshot":
        return False
    born = stamps.born_ns(look.layout.root)
    return born is not None and born > started + _SLACK_NS


def _loaded_from(server: RunningServer) -> int:
    """The clock tick from which the model was loaded: of a server that loads in a worker it is that worker's start."""
    if engines.identity(server.engine).log_load:
        runners = {pid for pid, _ in workers.given(server)}
        return min((each.started for each in server.tree if each.pid in runners), default=server.process.started)
    return max(server.program_tick, server.process.started)
