"""The two sides of a diff: files, or locks as git holds them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import msgspec

from lockllm.api import files
from lockllm.documents import toml
from lockllm.documents.lock import Lock, read
from lockllm.errors import LockError, UsageError

_EMPTY = ("/dev/null", "nul")


class Side(msgspec.Struct, frozen=True):
    """One lock and how it is called."""

    name: str
    lock: Lock


def sides(given: tuple[str, ...], cwd: str) -> tuple[Side, Side]:
    """Both sides as the command line names them. Raises UsageError for too many, LockError for a file that is no lock."""
    if len(given) == 7 or (len(given) == 9 and given[7]):  # path old-file old-hex old-mode new-file new-hex new-mode
        return _side(given[1], cwd, given[0]), _side(given[4], cwd, given[7] if len(given) == 9 else given[0])
    if len(given) > 2:
        raise UsageError(
            f"diff compares two locks, found {len(given)} arguments",
            where="the command line",
            fix="lockllm diff BEFORE AFTER",
        )
    before = given[0] if given else "HEAD"
    after = given[1] if len(given) == 2 else "llm.lock"
    return _side(before, cwd), _side(after, cwd)


def in_conflict(given: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    """Whether git calls its diff driver for an unmerged path: then it passes only that."""
    return len(given) == 1 and "GIT_DIFF_PATH_TOTAL" in environ


def _side(text: str, cwd: str, shown: str = "") -> Side:
    if text in _EMPTY:
        return Side(shown or text, Lock())
    if os.path.exists(text):
        return Side(shown or text, files.read_lock(text))
    revision, colon, path = text.partition(":")
    if not colon:
        path = "./llm.lock"
    return Side(text, read(_show(text, revision, path, cwd), text))


def _show(text: str, revision: str, path: str, cwd: str) -> str:
    """The text of a file at a revision; the revision is never taken for an option."""
    if not revision or revision.startswith("-"):
        raise UsageError(
            f"{text!r} is neither a file nor a git revision",
            where="the command line",
            fix="lockllm diff HEAD~1 llm.lock",
        )
    try:
        done = subprocess.run(
            ["git", "-C", cwd, "show", "--end-of-options", f"{revision}:{path}"],
            capture_output=True,
            timeout=30,
            check=False,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
    except FileNotFoundError as cause:
        raise UsageError(
            f"there is no file {text!r}, and git is not installed", where="the command line", fix="name two files"
        ) from cause
    except subprocess.TimeoutExpired as cause:
        raise UsageError("git did not answer within 30 s", where=text, fix="name two files") from cause
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = lines[-1].removeprefix("fatal: ").rstrip(".") if lines else f"git exits with {done.returncode}"
        raise UsageError(
            f"{text!r} is neither a file nor a lock that git knows: {reason}",
            where="the command line",
            fix="lockllm diff HEAD~1 llm.lock",
        )
    return toml.decode(done.stdout, text, LockError)
