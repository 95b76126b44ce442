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
    paths, unsaid = _named(given, lambda name: place(planned, name), folder)
    return Start(
        engine=given.engine,
        version=version,
        repo=repo,
        path=path,
        revision=revision,
        readings=(*given.readings, *given.env, *planned.readings),
        auto=given.auto,
        paths=paths,
        notes=(*notes, *unsaid),
    )


def _named(
    given: engines.Given, located: Callable[[str], str | None], folder: str
) -> tuple[dict[Path, Any], list[str]]:
    """The files and folders that a command names beside its checkpoint, as a spec names them; and those that are not here."""
    found: dict[Path, Any] = {}
    missing: list[str] = []

    def told(text: str, *, or_name: bool) -> str:
        where = located(text)
        if where is not None and os.path.exists(where):
            return _relative(where, folder)
        if not or_name:
            missing.append(f"{text} is not here: lock on the host that has it, or with --observation")
        return text

    for one in given.paths:
        value = one.form.format(told(one.path, or_name=one.or_name))
        held = found.get(one.fact.path)
        found[one.fact.path] = value if held is None else [*(held if isinstance(held, list) else [held]), value]
    for path, text in given.read_from.items():
        found[path] = told(text, or_name=False)
    beside: dict[Path, engines.Model | None] = {("tokenizer",): given.tokenizer, ("draft",): given.draft}
    beside |= {("adapters", name): model for name, model in given.adapters.items()}
    for prefix, model in beside.items():
        if model is None or unresolved(model.text) or model == given.model:
            continue
        where = located(model.text)
        if (where is not None and os.path.exists(where)) or is_path(model.text):
            key: Path = (*prefix, "path")
            found[key] = told(model.text, or_name=False)
    return found, missing


def of_server(sources: Sources, folder: str) -> Start:
    """A spec for what a running server shows: what its engine's defaults would give anyway is left out."""
    from lockllm.observe.server import locate

    request = host.request([], None, {**sources, "quick": True})
    seen, subject = host.look([], None, {**sources, "quick": True})
    held = {path: value for path, value in values(seen.readings).items() if not isinstance(value, (Absent, Raw))}
    engine = held.get(("engine", "name"))
    if not isinstance(engine, str):
        raise UsageError(
            "no engine was recognized",
            where=subject,
            fix="name its process with --pid, or give its command: init -- CMD",
        )
    version, repo, commit = (
        held.get(path) for path in (("engine", "version"), ("checkpoint", "repo"), ("checkpoint", "commit"))
    )
    if engines.identity(engine).own_registry:
        commit = held.get(("checkpoint", "revision"))
    found = locate.locate(request)
    given = found.plan.given if found.plan is not None else None
    lies = locate.checkpoint(request, found) if repo is None or _is_local(given, found.place) else None
    local = _relative(lies[0], folder) if isinstance(lies, tuple) and lies[1] is None else None
    paths, unsaid = _named(given, found.place, folder) if given is not None else ({}, [])
    return Start(
        engine=engine,
        version=version if isinstance(version, str) else None,
        repo=repo if isinstance(repo, str) and local is None else None,
        revision=commit if isinstance(commit, str) and isinstance(repo, str) and local is None else None,
        path=local,
        readings=(*seen.readings, *_by_themselves(engine, held)),
        paths={path: text for path, text in paths.items() if not str(text).startswith("/proc/")},
        notes=tuple(unsaid),
    )


def _is_local(given: engines.Given | None, located: Callable[[str], str | None]) -> bool:
    """Whether the server's own command names a folder or file that is there, whatever its endpoints call it."""
    if given is None or given.model is None or unresolved(given.model.text):
        return False
    where = located(given.model.text)
    return where is not None and os.path.exists(where)


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
    told = engines.load(engine).effective(engines.Given(engine=engine), context) if engines.known(engine) else ()
    return (each for each in told if isinstance(each, Reading))


def _relative(path: str, folder: str) -> str:
    """A path as the spec names it: relative where it lies beside or below the spec, else whole."""
    inside = os.path.relpath(path, folder)
    return os.path.abspath(path) if inside.startswith("..") else inside.replace(os.sep, "/")
