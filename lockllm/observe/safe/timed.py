"""Driver calls may hang: each has a timeout, and after one hangs no more are made."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any


def start(pool: ThreadPoolExecutor, function: Callable[..., Any], *args: Any) -> Future[Any]:
    """A call in a thread of the pool; made at once where no thread can start."""
    future: Future[Any] = Future()
    first = iter((True,))

    def run() -> None:
        if not next(first, False):
            return
        try:
            future.set_result(function(*args))
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            future.set_exception(error)

    try:
        pool.submit(copy_context().run, run)
    except RuntimeError:
        run()
    return future


class Hung(Exception):
    """A call did not return in time."""


class Caller:
    """One thread that makes all calls, so that a driver that hangs takes down nothing but itself."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.hung: str = ""
        self._todo: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=copy_context().run, args=(self._work,), daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self.hung = "the system allows no more threads"

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """The function's result, or what it raised. Hung: it did not return in time."""
        if self.hung:
            raise Hung(self.hung)
        self._todo.put((function, args))
        try:
            good, value = self._done.get(timeout=self.seconds)
        except queue.Empty:
            name = getattr(function, "__name__", "a call")
            self.hung = f"{name} did not answer within {self.seconds:g} s"
            raise Hung(self.hung) from None
        if not good:
            raise value
        return value

    def close(self) -> None:
        """End the thread if it still can end."""
        self._todo.put(None)
        if not self.hung and self._thread.ident is not None:
            self._thread.join(self.seconds)

    def _work(self) -> None:
        while (task := self._todo.get()) is not None:
            function, args = task
            try:
                self._done.put((True, function(*args)))
            except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
                self._done.put((False, error))
