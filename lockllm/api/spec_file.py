"""Where the spec stands, read without all that resolving it needs."""

from __future__ import annotations

import os

from lockllm.api import files
from lockllm.documents import spec as specs
from lockllm.documents import toml
from lockllm.documents.spec import Spec
from lockllm.errors import SpecError


def read(given: str | None, cwd: str) -> tuple[str, Spec]:
    """The spec that is named, else llm.toml, else [tool.lockllm] of pyproject.toml."""
    path = given
    if path is None:
        path = next(
            (name for name in ("llm.toml", "pyproject.toml") if os.path.exists(os.path.join(cwd, name))), "llm.toml"
        )
    if os.path.isdir(path):
        path = os.path.join(path, "llm.toml")
    data = files.read_bytes(path, SpecError, "write one with `lockllm init PATH`, or name it: lockllm lock SPEC")
    text = toml.decode(data, path, SpecError)
    table = ("tool", "lockllm") if os.path.basename(path) == "pyproject.toml" else ()
    return path, specs.read(text, path, table=table)
