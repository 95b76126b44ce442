"""What `init` looks at: a checkpoint, a command line or a running server, and the spec that each begins with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lockllm import engines
from lockllm.api import host
from lockllm.api.host import Sources
from lockllm.api.inspection import known
from lockllm.documents.spec_text import Start
from lockllm.engines.kernel.collect import is_path
from lockllm.engines.kernel.values import unresolved
from lockllm.errors import UsageError
from lockllm.facts.fact import Path
from lockllm.facts.observation import Absent, Raw, Reading, values

_OWN_COMMAND = "the engine's own command line"


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
    from lockllm.api.world import World
    from lockllm.observe.server.command_line import place, plan

    first = plan(argv, environ, cwd)
    if first.given is None:
        told = first.unwrapped.warnings[-1:] if first.unwrapped.opaque else first.warnings[:1]
        why, _, fix = (told[0] if told else "it starts no engine known to lockllm").partition("; give ")
        raise UsageError(
            f"the command cannot be read as a server's: {why}",
            where=os.path.basename(argv[0]) if argv else "",  # the other words may hold a key
            fix=f"give {fix or _OWN_COMMAND}",
        )
    world = World()
    version = world.installed(first.given.engine)
    own = world.options(first.given.engine, version) if version is not None else None
    planned = plan(argv, environ, cwd, version, installed=own)
    given = planned.given or first.given
    repo = path = revision = None
    notes = list(planned.warnings)
    if given.model is not None and not unresolved(given.model.text):
        located = place(planned, given.model.text)
        if (located is not None and os.path.exists(located)) or given.model.text.startswith(("/", "./", "../", "~")):
            path = _relative(located or given.model.text, folder)
        else:
            repo, revision = given.model.text, given.model.revision
    paths, missing = _named(given, lambda name: place(planned, name), folder)
    return Start(
        engine=given.engine,
        version=version,
        repo=repo,
        path=path,
        revision=revision,
        readings=(*given.readings, *given.env, *planned.readings),
        auto=given.auto,
        paths=paths,
        notes=(*notes, *missing),
    )


def _named(given: engines.Given, locate: Callable[[str], str | None], folder: str) -> tuple[dict[Path, Any], list[str]]:
    """The files and folders that a command names besides its checkpoint, as a spec names them; and notes on missing ones."""
    named: dict[Path, Any] = {}
    notes: list[str] = []

    def spelled(text: str, *, or_name: bool) -> str:
        place = locate(text)
        if place is not None and os.path.exists(place):
            return _relative(place, folder)
        if not or_name:
            notes.append(f"{text} is not here: lock on the host that has it, or with --observation")
        return text

    for one in given.paths:
        value = one.form.format(spelled(one.path, or_name=one.or_name))
        former = named.get(one.fact.path)
        several = former if isinstance(former, list) else [former]
        named[one.fact.path] = value if former is None else [*several, value]
    for path, text in given.read_from.items():
        named[path] = spelled(text, or_name=False)
    models: dict[Path, engines.Model | None] = {("tokenizer",): given.tokenizer, ("draft",): given.draft}
    models |= {("adapters", name): model for name, model in given.adapters.items()}
    for prefix, model in models.items():
        if model is None or unresolved(model.text) or model == given.model:
            continue
        place = locate(model.text)
        if (place is not None and os.path.exists(place)) or is_path(model.text):
            key: Path = (*prefix, "path")
            named[key] = spelled(model.text, or_name=False)
    return named, notes


def of_server(sources: Sources, folder: str) -> Start:
    """A spec for what a running server shows; values equal to its engine's defaults are omitted."""
    from lockllm.observe.server import locate

    request = host.request([], None, {**sources, "quick": True})
    seen, subject = host.look([], None, {**sources, "quick": True})
    shown = {path: value for path, value in values(seen.readings).items() if not isinstance(value, (Absent, Raw))}
    engine = shown.get(("engine", "name"))
    if not isinstance(engine, str):
        raise UsageError(
            "no engine was recognized",
            where=subject,
            fix="name its process with --pid, or give its command: init -- CMD",
        )
    version, repo, commit = (
        shown.get(path) for path in (("engine", "version"), ("checkpoint", "repo"), ("checkpoint", "commit"))
    )
    if engines.identity(engine).own_registry:
        commit = shown.get(("checkpoint", "revision"))
    server = locate.locate(request)
    given = server.plan.given if server.plan is not None else None
    place = locate.checkpoint(request, server) if repo is None or _is_local(given, server.place) else None
    local = _relative(place[0], folder) if isinstance(place, tuple) and place[1] is None else None
    paths, notes = _named(given, server.place, folder) if given is not None else ({}, [])
    return Start(
        engine=engine,
        version=version if isinstance(version, str) else None,
        repo=repo if isinstance(repo, str) and local is None else None,
        revision=commit if isinstance(commit, str) and isinstance(repo, str) and local is None else None,
        path=local,
        readings=(*seen.readings, *_defaults(engine, shown)),
        paths={path: text for path, text in paths.items() if not str(text).startswith("/proc/")},
        notes=tuple(notes),
    )


def _is_local(given: engines.Given | None, locate: Callable[[str], str | None]) -> bool:
    """Whether the server's own command names an existing folder or file, whatever its endpoints call it."""
    if given is None or given.model is None or unresolved(given.model.text):
        return False
    place = locate(given.model.text)
    return place is not None and os.path.exists(place)


def _defaults(engine: str, shown: Mapping[Path, Any]) -> Iterator[Reading]:
    """What the engine's rules and defaults determine if nobody sets anything."""
    if not engines.known(engine):
        return
    context = engines.Context(
        version=str(shown.get(("engine", "version")) or "") or None,
        checkpoint={
            path: value for path, value in shown.items() if path[0] in ("checkpoint", "quantization", "tokenizer")
        },
        host={path: value for path, value in shown.items() if path[0] == "host"},
        packages={path[1]: str(value) for path, value in shown.items() if path[0] == "packages" and len(path) == 2},
    )
    for each in engines.load(engine).effective(engines.Given(engine=engine), context):
        if isinstance(each, Reading):
            yield each


def _relative(path: str, folder: str) -> str:
    """A path as the spec names it: relative where it lies beside or below the spec, else whole."""
    inside = os.path.relpath(path, folder)
    return os.path.abspath(path) if inside.startswith("..") else inside.replace(os.sep, "/")
