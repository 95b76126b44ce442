"""From what `inspect` is given to readings: a checkpoint with its prompt, a command line, a start log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lockllm.api import template_texts
from lockllm.errors import UsageError
from lockllm.facts.observation import Check, CheckStatus, Reading, Unobserved


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one thing says by itself."""

    subject: str
    readings: tuple[Reading, ...]
    checks: tuple[Check, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    warnings: tuple[str, ...] = ()


def code(seen: Seen) -> int:
    """1 where a finding fails that a lock without a policy of its own refuses, else 0."""
    from lockllm.facts.check import CHECKS
    from lockllm.facts.fact import Policy

    blocking = {row.name for row in CHECKS if row.policy is Policy.EXACT}
    return int(any(each.status is CheckStatus.FAIL and each.name in blocking for each in seen.checks))


def checkpoint(
    path: str, engine: str | None, version: str | None, *, include: Sequence[str], exclude: Sequence[str], quick: bool,
    cached: bool,
) -> Seen:  # fmt: skip
    """The files at a path, and the prompt that they make."""
    from lockllm.checkpoint import look
    from lockllm.cli._progress import hashing
    from lockllm.prompt import readings

    known(engine)
    with hashing(enabled=not quick) as progress:
        looked = look(
            path, engine=engine, engine_version=version, include=include, exclude=exclude, progress=progress,
            hashing="quick" if quick else "full", cache="auto" if cached else "off",
        )  # fmt: skip
    prompt = readings.observe(
        looked.read, looked.names, readings.Setup(engine=engine, version=version, model=path), gguf=looked.gguf or None,
        gguf_tokens=dict(looked.special_tokens) or None, tokenizer_json=looked.place("tokenizer.json"),
    )  # fmt: skip
    winner = prompt.resolution.winner
    if winner is not None and winner.text is not None:
        template_texts.keep(winner.text)
    return Seen(
        subject=path, readings=(*looked.readings, *prompt.readings), checks=(*looked.checks, *prompt.checks),
        unobserved=(*looked.unobserved, *prompt.unobserved), warnings=looked.warnings,
    )  # fmt: skip


def command(argv: Sequence[str], environ: Mapping[str, str], cwd: str, version: str | None) -> Seen:
    """A command line, in this environment and directory; defaults only where the engine's release is known."""
    from lockllm.observe.server.command_line import contents_of, places_of, plan
    from lockllm.observe.server.locate import own_options

    if not argv:
        raise UsageError(
            "no command stands after --", where="the command line", fix="lockllm inspect -- vllm serve MODEL"
        )
    own = own_options(tuple(argv), environ, cwd, version)
    found = plan(argv, environ, cwd, version or (own.version if own is not None else None), installed=own)
    named = tuple(contents_of(found))
    return Seen(
        subject=argv[0],
        readings=(*found.readings, *places_of(found), *(each for each in named if isinstance(each, Reading))),
        checks=found.checks, warnings=found.warnings,
        unobserved=(
            *(found.given.unread if found.given is not None else ()),
            *(each for each in named if isinstance(each, Unobserved)),
        ),
    )  # fmt: skip


def log(path: str, engine: str | None, version: str | None) -> Seen:
    """A start log, as its engine reads it."""
    from lockllm import engines
    from lockllm.engines.shown import redaction
    from lockllm.observe.server import start_log

    known(engine)
    if engine is None:
        raise UsageError(
            "--log needs --engine", where="the command line", fix=f"one of {', '.join(engines.available())}"
        )
    read = start_log.read(path, engine)
    said = list(engines.load(engine).from_log(read.lines)) if not read.gap else []
    if read.gap:
        said.append(Unobserved(("kernels",), read.gap, read.fix))
    return Seen(
        subject=path, readings=redaction.readings(each for each in said if isinstance(each, Reading)),
        unobserved=tuple(redaction.gap(each) for each in said if isinstance(each, Unobserved)),
        warnings=(read.note,) if read.note else (),
    )  # fmt: skip


def told(warning: str) -> str:
    """A warning as it goes to stderr."""
    from lockllm.output.escape import readable

    return f"lockllm: warning: {readable(warning)}"


def known(engine: str | None) -> None:
    """Raises UsageError for a name that is no engine's."""
    if engine is None:
        return
    from lockllm import engines
    from lockllm.facts.registry import nearest

    names = engines.available()
    if engine not in names:
        meant = nearest(engine, list(names))
        fix = f"did you mean {meant}?" if meant else f"one of {', '.join(names)}"
        raise UsageError(f"no engine {engine!r} is known", where="--engine", fix=fix)
