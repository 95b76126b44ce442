"""What puts a checkpoint right, as a command that can be run: the real repository, commit and file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from lockllm.documents.lock import Lock
from lockllm.facts.checkpoint import AGAIN
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import Reading

_COMMIT: Path = ("checkpoint", "commit")
_OF_A_FILE = (("checkpoint", "files"), ("checkpoint", "blake3"))


def of(fact: Fact[Any], lock: Lock, readings: Mapping[Path, tuple[Reading, ...]]) -> str:
    """The fix of a fact. Without `--force-download` the Hub's client links a damaged blob again (huggingface_hub 2.4, run)."""
    if fact.fix != AGAIN:
        return fact.fix
    repo, commit = lock.get("checkpoint.repo"), lock.get("checkpoint.commit")
    name = fact.path[-1] if fact.path[:-1] in _OF_A_FILE else None
    what = f"the locked {name}" if name is not None else "the locked files"
    if not isinstance(repo, str) or not isinstance(commit, str):
        return f"put {what} back into the model's folder"
    words = ["hf", "download", repo, *([name] if name is not None else []), "--revision", commit, "--force-download"]
    command = shlex.join(words)
    if _COMMIT in readings:
        return f"download {what} again: {command}"
    return f"download {what} into the model's folder: {command} --local-dir FOLDER"
