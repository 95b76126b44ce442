"""What one thing shows by itself: a checkpoint with its prompt, a command line, a start log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from lockllm.api import template_texts
from lockllm.api.host import Cache, Progress
from lockllm.errors import ArgumentError
from lockllm.facts.observation import Check, Reading, Unobserved

if TYPE_CHECKING:
    from lockllm.prompt.command import Material


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What one thing shows by itself, without a lock or a server."""

    subject: str
    readings: tuple[Reading, ...]
    checks: tuple[Check, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    warnings: tuple[str, ...] = ()


def checkpoint(
    path: str,
    engine: str | None,
    version: str | None,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    quick: bool = False,
    cache: Cache = "off",
    progress: Progress | None = None,
) -> Inspection:
    """The files at a path, and the prompt that they make."""
    from lockllm.checkpoint import look
    from lockllm.prompt import readings

    known(engine)
    looked = look(
        path,
        engine=engine,
        engine_version=version,
        include=include,
        exclude=exclude,
        progress=progress,
        hashing="quick" if quick else "full",
        cache=cache,
    )
    prompt = readings.observe(
        looked.read,
        looked.names,
        readings.Setup(engine=engine, version=version, model=path),
        gguf=looked.gguf or None,
        gguf_tokens=dict(looked.special_tokens) or None,
        tokenizer_json=looked.place("tokenizer.json"),
    )
    winner = prompt.resolution.winner
    if winner is not None and winner.text is not None:
        template_texts.keep(winner.text)
    return Inspection(
        subject=path,
        readings=(*looked.readings, *prompt.readings),
        checks=(*looked.checks, *prompt.checks),
        unobserved=(*looked.unobserved, *prompt.unobserved),
        warnings=looked.warnings,
    )


def command(argv: Sequence[str], environ: Mapping[str, str], cwd: str, version: str | None) -> Inspection:
    """A command line, in this environment and directory; defaults only where the engine's release is known."""
    from lockllm.observe.server.command_line import contents_of, places_of, plan
    from lockllm.observe.server.locate import own_options

    if not argv:
        raise ArgumentError("the command is empty", where="command", fix="give the command that starts a server")
    own = own_options(tuple(argv), environ, cwd, version)
    found = plan(argv, environ, cwd, version or (own.version if own is not None else None), installed=own)
    named = tuple(contents_of(found))
    return Inspection(
        subject=argv[0],
        readings=(*found.readings, *places_of(found), *(each for each in named if isinstance(each, Reading))),
        checks=found.checks,
        warnings=found.warnings,
        unobserved=(
            *(found.given.unread if found.given is not None else ()),
            *(each for each in named if isinstance(each, Unobserved)),
        ),
    )


def log(path: str, engine: str | None, version: str | None) -> Inspection:
    """A start log, as its engine reads it."""
    from lockllm import engines
    from lockllm.engines.shown import redaction
    from lockllm.observe.server import start_log

    known(engine)
    if engine is None:
        raise ArgumentError(
            "a start log requires the engine's name",
            where="engine",
            fix=f"name one of {', '.join(engines.names())}",
        )
    read = start_log.read(path, engine)
    shown = list(engines.load(engine).from_log(read.lines)) if not read.gap else []
    if read.gap:
        shown.append(Unobserved(("kernels",), read.gap, read.fix))
    return Inspection(
        subject=path,
        readings=redaction.readings(each for each in shown if isinstance(each, Reading)),
        unobserved=tuple(redaction.gap(each) for each in shown if isinstance(each, Unobserved)),
        warnings=(read.note,) if read.note else (),
    )


def prompt_material(path: str, engine: str | None, version: str | None) -> Material:
    """What the files at a path hold of the prompt. Only headers of weights are read."""
    from lockllm.checkpoint import look
    from lockllm.prompt.command import Material

    looked = look(path, engine=engine, engine_version=version, hashing="none")
    templates = {key: text for key, text in looked.gguf.items() if isinstance(text, str)}
    return Material(
        path=path,
        read=looked.read,
        names=looked.names,
        gguf=templates if looked.gguf else None,
        gguf_tokens=looked.special_tokens,
    )


def known(engine: str | None) -> None:
    """Raises ArgumentError for a name that is no engine's."""
    if engine is None:
        return
    from lockllm import engines
    from lockllm.facts.registry import nearest

    if not engines.known(engine):
        names = engines.names()
        meant = nearest(engine, list(names))
        fix = f"did you mean {meant}?" if meant else f"name one of {', '.join(names)}"
        raise ArgumentError(f"there is no engine {engine!r}", where="engine", fix=fix)
