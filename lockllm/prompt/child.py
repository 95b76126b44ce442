"""The bounded child: reads three lines of JSON (bounds, task, jobs), bounds itself, and answers one line a job.

Templates and tokenizers are foreign. Here they meet a limit on processor time and on memory that the kernel keeps, no
secret in the environment, and a parent that reads only so much and ends the process after a while. Where the parent is gone,
the child ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_LONGEST_MESSAGE = 2_000
_LONGEST_NAMES = 65_536


def main() -> None:
    """Say that everything is there that is needed, or what is missing; then answer every job on standard input."""
    bounds, task, jobs = (json.loads(sys.stdin.buffer.readline().decode("utf-8", "surrogatepass")) for _ in range(3))
    prepare, answers = (_tokenizers, _encode) if task["kind"] == "encode" else (_jinja, _template)
    _end_with_the_parent(bounds["line"])
    found = prepare()
    _say(found)
    if "ready" not in found:
        return
    _bound(bounds["seconds"], bounds["memory"])
    for each in _fitting(answers(task, jobs), bounds["longest"]):
        _say(each)


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    sys.stdout.buffer.flush()


def _fitting(answers: Iterator[dict[str, Any]], longest: int) -> Iterator[dict[str, Any]]:
    """The answers while they fit into so many characters and token ids; what does not is told instead."""
    left = longest
    for each in answers:
        size = len(each.get("text", "")) + len(each.get("ids", ()))
        left -= size
        yield {"bound": "size"} if left < 0 else each
        left = max(left, 0)


def _end_with_the_parent(line: int) -> None:
    """A signal that ends the parent, or nothing but its end, ends this process too: `line` is a pipe that it holds open."""
    try:
        import fcntl
        import os
        import select
        import signal
    except ImportError:  # pragma: no cover - the bounds alone end the child there
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent waits for signals on a thread, and blocks them
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
        # SIGIO when the other end closes
        fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
        gone = select.poll()
        gone.register(line, 0)
        if gone.poll(0):
            os._exit(1)


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
    """The answer, or what was raised instead: whatever a template raises is an answer too.

    What it cannot raise, since nothing but this machine fails so, is told apart.
    """
    try:
        return make()
    except MemoryError:
        return {"bound": "memory"}
    except RecursionError:
        return {"bound": "depth"}
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of the tokenizers library is no Exception
        lost = isinstance(error, (OSError, ImportError)) and not isinstance(error, LookupError)  # jinja2's are both
        return {"lost" if lost else "refused": _words(error), "type": type(error).__name__}


def _words(error: BaseException) -> str:
    message = getattr(error, "message", None)
    try:
        text = message if isinstance(message, str) else str(error)
    except Exception:  # noqa: BLE001 - a number of 5,000 digits, a list nested too deeply: it has no words
        text = ""
    line = getattr(error, "lineno", None)
    where = f" (line {line} of the template)" if isinstance(line, int) else ""
    return text[:_LONGEST_MESSAGE] + where


def _jinja() -> dict[str, Any]:
    """Everything that a template can make us import: no file is opened once the bounds hold."""
    import pprint
    import textwrap
    import unicodedata

    import jinja2
    import jinja2.constants
    import jinja2.debug
    import jinja2.meta
    import jinja2.sandbox

    from lockllm.prompt import analysis, rendering, rules

    del pprint, textwrap, unicodedata, analysis, rendering, rules
    release = tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit())
    if release < (3, 1, 6):
        return {"missing": f"jinja2 {jinja2.__version__} has known escapes from its sandbox: 3.1.6 is needed"}
    return {"ready": jinja2.__version__}


def _template(task: Mapping[str, Any], jobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """First, where it is asked for, what the syntax says; then an answer for each job of the format that it asks for."""
    import datetime as dt

    from lockllm.prompt import analysis, rendering
    from lockllm.prompt.rules import Rules

    applied = Rules(**task["rules"])
    source = task["template"]
    env = rendering.environment(applied)
    held: dict[str, Any] = {}

    def compile_once() -> dict[str, Any]:
        held["template"] = env.from_string(source)
        return {}

    def analyze() -> dict[str, Any]:
        found = analysis.analyze(env, source)
        names = sum(len(name) for key in ("tokens", "arguments", "arguments_once") for name in found[key])
        return found if names <= _LONGEST_NAMES else {"bound": "names"}

    def rendered(job: dict[str, Any]) -> dict[str, Any]:
        rendering.Clock.now = dt.datetime.fromisoformat(job["now"])
        return {"text": rendering.render(held["template"], source, job["request"], task["tokens"], applied)}

    form = "string"
    if task["analyze"]:
        found = _guarded(analyze)
        form = found.get(task["form_of"], form)
        yield found
    broken = _guarded(compile_once)
    for job in jobs:
        if job["form"] in ("", form):
            yield broken or _guarded(lambda job=job: rendered(job))  # type: ignore[misc]


def _tokenizers() -> dict[str, Any]:
    from lockllm.prompt import encoding

    del encoding
    try:
        import tokenizers
    except ImportError as error:
        return {"missing": str(error)[:_LONGEST_MESSAGE]}
    return {"ready": tokenizers.__version__}


def _encode(task: Mapping[str, Any], texts: list[str]) -> Iterator[dict[str, Any]]:
    from lockllm.prompt import encoding

    held: dict[str, Any] = {}

    def load_once() -> dict[str, Any]:
        held["tokenizer"] = encoding.load(task["tokenizer"])
        return {}

    broken = _guarded(load_once)
    for text in texts:
        yield broken or _guarded(lambda text=text: {"ids": encoding.encode(held["tokenizer"], text)})  # type: ignore[misc]
