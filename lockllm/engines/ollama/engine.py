"""Ollama: server, runners and Modelfiles; endpoints; log; defaults from 0.5 to 0.33."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockllm.engines import Form
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.ollama.command import command, where
from lockllm.engines.ollama.given import given
from lockllm.engines.ollama.given import wants_files as _wants_files
from lockllm.engines.ollama.rules import NEWEST, checks, effective, of_model, omitted
from lockllm.engines.ollama.shown import PROBES, detect, from_http, from_log

__all__ = [
    "checks", "command", "detect", "distributions", "effective", "from_http", "from_log", "given", "name", "newest", "of_model",
    "omitted", "packages", "probes", "recognise", "wants_files", "where",
]  # fmt: skip

name = "ollama"
newest = NEWEST
probes = PROBES
distributions: tuple[str, ...] = ()
packages: tuple[str, ...] = ()


def recognise(argv: Sequence[str]) -> Form | None:
    """The launch form that an unwrapped command line is, or None."""
    return _recognise(argv, name)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """Config files that the command names, as it spells them."""
    return _wants_files(form)
