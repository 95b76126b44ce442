"""Variables below the engines that change results: CUDA, NCCL, PyTorch, Triton, FlashInfer, CPU math, Hugging Face.

A variable's value is read only if the catalogue or the engine knows its name; a name that looks like a secret never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lockllm.facts import variables
from lockllm.facts.env import is_secret


def is_common(name: str) -> bool:
    """Whether a library below the engines reads that variable and results depend on it."""
    row = variables.find(name, "")
    return row is not None and row.recorded and not is_secret(name)


def counts(name: str, engine: str) -> bool:
    """Whether an engine, or a library below it, reads that variable and results depend on it."""
    row = variables.find(name, engine)
    return ((row is not None and row.recorded) or is_common(name)) and not is_secret(name)


def contents(env: Mapping[str, str], engine: str) -> Iterator[tuple[str, str]]:
    """Set variables that name a file or folder whose content counts, with the path."""
    for name in sorted(env):
        row = variables.find(name, engine)
        if row is not None and row.content and "/" in env[name] and not is_secret(name):
            yield name, env[name]
