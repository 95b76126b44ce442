"""What `init` looks at: a checkpoint, a command line or a running server, and the spec that each begins with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from lockllm import engines
from lockllm.cli._inspecting import known
from lockllm.documents.spec_text import Start
from lockllm.errors import UsageError
from lockllm.facts.fact import Path
from lockllm.facts.observation import Absent, Raw, Reading, values


def of_checkpoint(path: str, engine: str | None, folder: str) -> Start:
    """A spec for the files at a path: by repository where they lie in the Hub's cache, else by path."""
    from lockllm.checkpoint import look

    known(engine)
    layout = look(path, engine=engine, hashing="none").layout
    if layout.repo is not None and layout.kind == "snapshot":
        return Start(engine=engine, repo=layout.repo, revision=layout.revision or layout.commit)
    return Start(engine=engine or ("llama.cpp" if path.endswith(".gguf") else None), path=_relative(path, folder))


def of_command(argv: tuple[str, ...], environ: Mapping[str, str], cwd: str, folder: str) -> Start:
    """A spec for what a command line gives, no default filled in."""
    from lockllm.cli._world import World
    from lockllm.observe.plan import plan

    first = plan(argv, environ, cwd)
    if first.given is None:
        why = first.warnings[0] if first.warnings else "it starts no engine that lockllm knows"
        raise UsageError(
            f"the command cannot be read as a server's: {why}",
            where=os.path.basename(argv[0]) if argv else "",  # the other words may hold a key
            mend="give the engine's own command line",
        )
    world = World()
    version = world.installed(first.given.engine)
    own = world.options(first.given.engine, version) if version is not None else None
    given = plan(argv, environ, cwd, version, installed=own).given or first.given
    model = given.model
    repo = path = revision = None
    if model is not None:
        place = os.path.join(cwd, os.path.expanduser(model.text))
        if os.path.exists(place) or model.text.startswith(("/", "./", "../", "~")):
            path = _relative(place, folder)
        else:
            repo, revision = model.text, model.revision
    return Start(
        engine=given.engine, version=version, repo=repo, path=path, revision=revision,
        readings=(*given.readings, *given.env), auto=given.auto,
    )  # fmt: skip


def of_server(sources: Mapping[str, Any], folder: str) -> Start:
    """A spec for what a running server shows: what its engine's defaults would give anyway is left out."""
    from lockllm.cli import _observing
    from lockllm.observe import serving

    request = _observing.request([], "", None, {**sources, "quick": True})
    seen, subject = _observing.observe([], None, {**sources, "quick": True})
    held = {path: value for path, value in values(seen.readings).items() if not isinstance(value, (Absent, Raw))}
    engine = held.get(("engine", "name"))
    if not isinstance(engine, str):
        raise UsageError(
            "no engine was recognized",
            where=subject,
            mend="name its process with --pid, or give its command: init -- CMD",
        )
    version, repo, commit = (
        held.get(path) for path in (("engine", "version"), ("checkpoint", "repo"), ("checkpoint", "commit"))
    )
    place = serving.checkpoint(request, serving.locate(request)) if repo is None else None
    return Start(
        engine=engine,
        version=version if isinstance(version, str) else None,
        repo=repo if isinstance(repo, str) else None,
        revision=commit if isinstance(commit, str) and isinstance(repo, str) else None,
        path=_relative(place[0], folder) if isinstance(place, tuple) else None,
        readings=(*seen.readings, *_by_themselves(engine, held)),
    )


def _by_themselves(engine: str, held: Mapping[Path, Any]) -> Iterator[Reading]:
    """What the engine's rules and defaults give where nobody sets anything."""
    context = engines.Context(
        version=str(held.get(("engine", "version")) or "") or None,
        checkpoint={
            path: value for path, value in held.items() if path[0] in ("checkpoint", "quantization", "tokenizer")
        },
        host={path: value for path, value in held.items() if path[0] == "host"},
        packages={path[1]: str(value) for path, value in held.items() if path[0] == "packages" and len(path) == 2},
    )
    told = (
        engines.load(engine).effective(engines.Given(engine=engine), context) if engine in engines.available() else ()
    )
    return (each for each in told if isinstance(each, Reading))


def _relative(path: str, folder: str) -> str:
    """A path as the spec names it: relative where it lies beside or below the spec, else whole."""
    inside = os.path.relpath(path, folder)
    return os.path.abspath(path) if inside.startswith("..") else inside.replace(os.sep, "/")
