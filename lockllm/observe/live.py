"""Whether what a server loaded is still what lies on disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from lockllm.checkpoint import Look
from lockllm.facts.observation import Check, CheckStatus
from lockllm.observe.python import Environment
from lockllm.observe.servers import Found

_MOST_TOLD = 3
_KEPT = (".gguf", ".safetensors", ".bin", ".pt", ".pth")
_SLACK = 2.0  # seconds: a boot time is a whole number, and copies keep coarse times


def current(found: Found, environment: Environment | None, look: Look | None, packages: frozenset[str]) -> Check:
    """Whether a mapped file, a package or a file of the checkpoint was replaced since the server started."""
    name = "check.server_current"
    where = f"pid {found.process.pid}"
    told = list(dict.fromkeys([*_replaced(found), *_newer(found, environment, look, packages)]))
    if not told:
        return Check(name, CheckStatus.PASS, "nothing that it loaded was replaced since it started", where)
    rest = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    detail = f"replaced since the server started: {', '.join(told[:_MOST_TOLD])}{rest}"
    return Check(name, CheckStatus.FAIL, detail, where, "restart the server, so that what runs is what lies on disk")


def _replaced(found: Found) -> Iterator[str]:
    for _, file in found.loaded.files:
        library = ".so" in file.path and "-packages/" in file.path
        if file.deleted and (library or file.path.lower().endswith(_KEPT)):
            yield file.path


def _newer(found: Found, environment: Environment | None, look: Look | None, packages: frozenset[str]) -> Iterator[str]:
    started = _started(found.process.started)
    if started is None:
        return
    if environment is not None:
        for name, one in environment.distributions.items():
            if name in packages and _touched(str(one.folder), started):
                yield f"{name} {one.version}"
    if look is not None:
        for file in look.files:
            if _touched(os.path.join(look.layout.root, file.path), started):
                yield file.path


def _touched(path: str, since: float) -> bool:
    try:
        return os.stat(path).st_mtime > since + _SLACK
    except OSError:
        return False


def _started(ticks: int) -> float | None:
    """When a process started, in seconds since the epoch."""
    try:
        with open("/proc/uptime") as file:
            uptime = float(file.read().split()[0])
        return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
