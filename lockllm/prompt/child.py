"""The bounded child: reads one JSON document, bounds itself, and answers one JSON line a job.

Templates and tokenizers are foreign. Here they meet a limit on processor time and on memory that the kernel keeps, no
secret in the environment, and a parent that reads only so much and ends the process after a while.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

_LONGEST_MESSAGE = 2_000


def main() -> None:
    """Answer every job of the document on standard input."""
    bounds = json.loads(sys.stdin.buffer.readline())
    task = {**json.loads(sys.stdin.buffer.read().decode("utf-8", "surrogatepass")), **bounds}
    answers = _encode if task["kind"] == "encode" else _template
    for each in answers(task):
        sys.stdout.buffer.write(json.dumps(each, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        sys.stdout.buffer.flush()


def _bound(seconds: float, memory: int) -> None:
    try:
        import resource
        import signal
    except ImportError:  # pragma: no cover - only the parent's clock bounds the child there
        return
    signal.setitimer(signal.ITIMER_PROF, seconds)
    hard = int(seconds) + 2
    _limit(resource.RLIMIT_CPU, hard)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    try:
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        used = 0
    _limit(resource.RLIMIT_AS, used + memory)


def _limit(kind: int, value: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (bounded, bounded))
    except (OSError, ValueError):  # a kernel without this limit: the parent's clock still holds
        return


def _guarded(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer, or what was raised instead: whatever a template raises is an answer too."""
    try:
        return make()
    except MemoryError:
        return {"bound": "memory"}
    except RecursionError:
        return {"bound": "depth"}
    except BaseException as error:  # noqa: BLE001 - a panic of the tokenizers library is no Exception
        return {"refused": _words(error), "type": type(error).__name__}


def _words(error: BaseException) -> str:
    message = getattr(error, "message", None)
    text = message if isinstance(message, str) else str(error)
    line = getattr(error, "lineno", None)
    where = f" (line {line} of the template)" if isinstance(line, int) else ""
    return text[:_LONGEST_MESSAGE] + where


def _template(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import pprint
    import textwrap
    import unicodedata

    import jinja2
    import jinja2.debug
    import jinja2.meta
    import jinja2.sandbox

    from lockllm.prompt import analysis, rendering
    from lockllm.prompt.rules import Rules

    del pprint, textwrap, unicodedata  # filters import them on first use, and no file is opened once the bounds hold
    release = tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit())
    if release < (3, 1, 6):
        yield {"stale": f"jinja2 {jinja2.__version__}"}
        return
    applied = Rules(**task["rules"])
    source = task["template"]
    _bound(task["seconds"], task["memory"])
    env = rendering.environment(applied)
    held: dict[str, Any] = {}

    def compile_once() -> dict[str, Any]:
        held["template"] = env.from_string(source)
        return {}

    def rendered(job: dict[str, Any]) -> dict[str, Any]:
        import datetime as dt

        rendering.Clock.now = dt.datetime.fromisoformat(job["now"])
        text = rendering.render(held["template"], source, job["request"], job["tokens"], applied)
        return {"bound": "size"} if len(text) > task["longest"] else {"text": text}

    if task["analyze"]:
        yield _guarded(lambda: analysis.analyze(env, source))
    broken = _guarded(compile_once)
    for job in task["jobs"]:
        yield broken or _guarded(lambda job=job: rendered(job))  # type: ignore[misc]


def _encode(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    from lockllm.prompt import encoding

    try:
        import tokenizers

        yield {"library": tokenizers.__version__}
    except ImportError as error:
        yield {"refused": str(error), "type": "ImportError"}
        return
    _bound(task["seconds"], task["memory"])
    held: dict[str, Any] = {}

    def load_once() -> dict[str, Any]:
        held["tokenizer"] = encoding.load(task["tokenizer"])
        return {}

    broken = _guarded(load_once)
    for text in task["texts"]:
        yield broken or _guarded(lambda text=text: {"ids": encoding.encode(held["tokenizer"], text)})  # type: ignore[misc]
