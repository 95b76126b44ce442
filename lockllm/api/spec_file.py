"""Where the spec stands, read without all that resolving it needs."""

from __future__ import annotations

import os

from lockllm import engines
from lockllm.api import files
from lockllm.documents import spec as specs
from lockllm.documents import toml
from lockllm.documents.spec import Spec
from lockllm.errors import SpecError

_NAMES = ("llm.toml", "pyproject.toml")


def find(folder: str = "") -> str:
    """The path of a folder's spec: llm.toml, else pyproject.toml."""
    paths = [os.path.join(folder, name) for name in _NAMES]
    return next((path for path in paths if os.path.exists(path)), paths[0])


def read(path: str) -> Spec:
    """The spec in a file. A folder stands for the spec in it."""
    if os.path.isdir(path):
        path = find(path)
    return parse(text(path), path)


def parse(text: str, path: str) -> Spec:
    """The spec in the text of a file."""
    return specs.read(text, path, table=table(path), engines=engines)


def text(path: str) -> str:
    """The text of a spec's file."""
    data = files.read_bytes(path, SpecError, "write one with `lockllm init PATH`, or name it: lockllm lock SPEC")
    return toml.decode(data, path, SpecError)


def table(path: str) -> tuple[str, ...]:
    """Where the spec is in its file: all of llm.toml, or [tool.lockllm] of a pyproject.toml."""
    return ("tool", "lockllm") if os.path.basename(path) == "pyproject.toml" else ()
