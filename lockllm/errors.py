"""What lockllm raises: one sentence, where it is, how to fix it, and the exit code it ends with."""

from __future__ import annotations


class LockllmError(Exception):
    """A problem told to the user: what happened with the value, where, and what to do about it.

    `what` is present tense, lower case, without a full stop. `where` is a file with line or key, a pid or a URL. `fix` is a
    command or an edit. `also` holds further problems of the same document: all are told in one go.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", fix: str = "", also: tuple[LockllmError, ...] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
        self.also = also


class SpecError(LockllmError):
    """llm.toml says something that cannot be."""


class LockError(LockllmError):
    """llm.lock cannot be read as a lock."""


class ObservationError(LockllmError):
    """A file given as an observation is none."""


class UsageError(LockllmError):
    """The command line asks for something that cannot be."""


class ArgumentError(UsageError):
    """An argument is impossible: `where` is its name. The command line spells it as the option of that name."""


class ResolveError(LockllmError):
    """The spec cannot be resolved: the Hub, the package index or a local source does not answer."""

    exit_code = 4


class WorldError(LockllmError):
    """Our own reading or writing failed: no permission, no space, no such device."""

    exit_code = 4
