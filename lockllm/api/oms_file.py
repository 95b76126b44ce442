"""`--oms`: the per-file table written as an OMS statement, and one taken as the expected digests."""

from __future__ import annotations

import os

import msgspec

from lockllm.api import files
from lockllm.checkpoint.selection import select
from lockllm.documents import oms
from lockllm.documents.lock import Lock
from lockllm.errors import UsageError


def write(path: str, lock: Lock, spec_path: str | None) -> None:
    """The statement of a lock's files, unsigned."""
    repo = lock.get("checkpoint.repo")
    model = repo if isinstance(repo, str) else os.path.basename(os.path.normpath(spec_path or "")) or "checkpoint"
    files.write_text(path, oms.write(model, lock))


def locks(statement_file: str, named: tuple[str, ...]) -> list[Lock]:
    """The locks with their files proven by the statement; without any lock, one of the statement alone."""
    data = files.read_bytes(statement_file, UsageError, "write one with `lockllm lock --oms FILE`")
    statement = oms.read(data, statement_file)
    if named or os.path.exists("llm.lock"):
        names = named or ("llm.lock",)
        return [oms.agreed(files.read_lock(name), statement, name, statement_file) for name in names]
    read = select(statement.files, include=("*",)).kept
    unread = sorted(set(statement.files) - set(read))
    kept = msgspec.structs.replace(statement, files={name: statement.files[name] for name in sorted(read)})
    lock = msgspec.structs.replace(oms.expected(kept, statement_file), name=statement_file)
    if unread:
        more = f" and {len(unread) - 3} more" if len(unread) > 3 else ""
        warning = f"not compared, because no engine reads them: {', '.join(unread[:3])}{more}"
        lock = msgspec.structs.replace(lock, warnings=(*lock.warnings, warning))
    return [lock]
