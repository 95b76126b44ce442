"""lockllm pins everything that turns a model's weights into tokens, and says what moved.

Its names are imported on first use: `import lockllm` itself costs nothing.
"""

# No `from __future__` or `typing` here: both are real imports, in which an interrupt would print a traceback.
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from lockllm.api import (
        Rendering,
        diff,
        dump,
        explain,
        fingerprint,
        inspect,
        load_lock,
        load_observation,
        load_spec,
        lock,
        observe,
        render,
        save,
        stale,
        verify,
    )
    from lockllm.api.host import Sources
    from lockllm.api.inspection import Inspection
    from lockllm.documents.lock import Lock
    from lockllm.documents.spec import Spec
    from lockllm.errors import (
        ArgumentError,
        LockError,
        LockllmError,
        ObservationError,
        ResolveError,
        SpecError,
        UsageError,
        WorldError,
    )
    from lockllm.facts.fact import Fact, Kind, Policy, Stage
    from lockllm.facts.observation import ABSENT, Check, CheckStatus, Observation, Reading, Unobserved
    from lockllm.judge.explain import Explanation
    from lockllm.judge.report import Change, Diff, Report, Result, Status

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "ArgumentError",
    "Change",
    "Check",
    "CheckStatus",
    "Diff",
    "Explanation",
    "Fact",
    "Inspection",
    "Kind",
    "Lock",
    "LockError",
    "LockllmError",
    "Observation",
    "ObservationError",
    "Policy",
    "Reading",
    "Rendering",
    "Report",
    "ResolveError",
    "Result",
    "Sources",
    "Spec",
    "SpecError",
    "Stage",
    "Status",
    "Unobserved",
    "UsageError",
    "WorldError",
    "__version__",
    "diff",
    "dump",
    "explain",
    "fingerprint",
    "inspect",
    "load_lock",
    "load_observation",
    "load_spec",
    "lock",
    "observe",
    "render",
    "save",
    "stale",
    "verify",
]

_ROOMS = {
    "api": "Rendering diff dump explain fingerprint inspect load_lock load_observation load_spec lock observe render save stale verify",
    "api.host": "Sources",
    "api.inspection": "Inspection",
    "documents.lock": "Lock",
    "documents.spec": "Spec",
    "errors": "ArgumentError LockError LockllmError ObservationError ResolveError SpecError UsageError WorldError",
    "facts.fact": "Fact Kind Policy Stage",
    "facts.observation": "ABSENT Check CheckStatus Observation Reading Unobserved",
    "judge.explain": "Explanation",
    "judge.report": "Change Diff Report Result Status",
}
"""Room -> the public names that it defines."""
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> "Any":
    """A public name, imported from the room that defines it."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'lockllm' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"lockllm.{home}"), name)


def __dir__() -> "list[str]":
    return sorted({*globals(), *_HOME})


class _Package(type(sys)):  # type: ignore[misc]
    """This module, in which `observe` is the function and never the room of that name, which Python would put in its place."""

    @property
    def observe(self) -> "Any":
        """`lockllm.api.observe`."""
        return __getattr__("observe")

    @observe.setter
    def observe(self, room: "ModuleType") -> None:
        """Python names a package that it imported; `sys.modules` holds the room all the same."""


sys.modules[__name__].__class__ = _Package
