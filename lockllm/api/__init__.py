"""lockllm as a library: each function takes files or records, returns a record, and prints nothing.

`import lockllm` offers these names. No function sets a signal handler, changes the working directory or the environment, and all
may be called from several threads. What cannot be done raises a child of `LockllmError`, which says what is wrong, where, and
how to fix it; what differs or cannot be seen on a host is in the result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lockllm.api import files
from lockllm.documents.lock import Lock
from lockllm.errors import ArgumentError
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import Observation
from lockllm.judge.report import Diff, Report

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from lockllm.api.host import Cache, Progress, Sources, StrPath
    from lockllm.api.inspection import Inspection
    from lockllm.documents.spec import Spec
    from lockllm.judge.explain import Explanation

_STAGES = tuple(stage.value for stage in Stage)


class Rendering(msgspec.Struct, frozen=True):
    """A rendered chat template: the text, its sha256, and which template won."""

    text: str
    sha256: str
    source: str
    caveat: str = ""  # why the server's own text may differ; empty where it is the same


def load_spec(path: StrPath = "llm.toml") -> Spec:
    """The spec in a file (`llm.toml`, or `[tool.lockllm]` of a `pyproject.toml`) or in a folder. Its variants are in `variants`."""
    from lockllm.api import spec_file

    return spec_file.read(os.fspath(path))


def load_lock(path: StrPath = "llm.lock") -> Lock:
    """The lock in a file. It remembers its path: the spec beside it may name the checkpoint."""
    return files.read_lock(os.fspath(path))


def load_observation(path: StrPath) -> Observation:
    """The observation in a JSON file."""
    return files.read_observation(os.fspath(path))


def save(record: Lock | Observation, path: StrPath) -> None:
    """Write a lock or an observation. The file is replaced only when the new text is complete."""
    files.write_text(os.fspath(path), dump(record))


def dump(record: Lock | Observation | Report | Diff | Inspection, format: str | None = None, **style: Any) -> str:  # noqa: A002
    """A record as text. A lock is TOML, an observation or inspection JSON; `verify --format` lists what a report may be.

    Reports and diffs are `text` by default; `style` takes `full`, `verbose`, `quiet`, `width` and `color`.
    """
    from lockllm import output
    from lockllm.documents import lock as locks
    from lockllm.output import json

    if isinstance(record, Report):
        return output.render_report(record, format or "text", **style)
    if isinstance(record, Diff):
        return output.render_diff(record, format or "text", **style)
    own = "toml" if isinstance(record, Lock) else "json"
    if format not in (None, own):
        raise ArgumentError(f"{format!r} is not a format of a {type(record).__name__}", where="format", fix=own)
    if isinstance(record, Lock):
        return locks.write(record)
    if isinstance(record, Observation):
        return json.observation(record)
    return json.inspection(record.readings, record.checks, record.unobserved)


def lock(
    spec: Spec | StrPath = "llm.toml",
    old: Lock | StrPath | None = None,
    observation: Observation | StrPath | None = None,
    *,
    upgrade: bool = False,
    upgrade_fact: Sequence[str] = (),
    pin: Sequence[str] = (),
    accept_observed: Sequence[str] = (),
    python: StrPath | None = None,
    gpu: str | None = None,
    offline: bool = False,
    blake3: bool = False,
    cache: Cache = "auto",
    progress: Progress | None = None,
) -> Lock:
    """Resolve a spec into a lock. `save` writes it.

    Pins of the `old` lock are kept unless `upgrade` or `upgrade_fact` (globs) asks to change them. `observation` is what a host
    showed; `pin` takes more facts from it, `accept_observed` takes its values where spec and host disagree. What cannot be
    determined is listed in `Lock.unpinned` with the reason. Raises SpecError or ResolveError.
    """
    from lockllm.api import locking

    choices = locking.Choices(
        observation=_observation(observation),
        upgrade=upgrade,
        upgrade_facts=upgrade_fact,
        pin=pin,
        accept_observed=accept_observed,
        python=None if python is None else os.fspath(python),
        gpu=gpu,
        offline=offline,
        blake3=blake3,
        cache=cache,
        progress=progress,
    )
    filled = locking.resolve([(_spec(spec), None if old is None else _lock(old))], choices)[0]
    return msgspec.structs.replace(filled.lock, warnings=(*filled.lock.warnings, *filled.notes, *filled.warnings))


def stale(spec: Spec | StrPath = "llm.toml", lock: Lock | StrPath = "llm.lock") -> list[str]:
    """The keys of a lock that differ from what its spec says now; empty: the lock is up to date. Looks at nothing else."""
    from lockllm.api import locking

    return locking.stale(_spec(spec), _lock(lock))


def observe(
    lock: Lock | StrPath | Sequence[Lock | StrPath] | None = None,
    *,
    stage: Stage | str | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    **sources: Unpack[Sources],
) -> Observation:
    """Look at this host, or at the server that `sources` names, for all that the lock names (None: for all that is there).

    What cannot be seen is in `Observation.unobserved` with the reason: nothing of it is raised.
    """
    from lockllm.api import host, selection

    seen, _ = host.look(_locks(lock) if lock is not None else [], _stage(stage), sources)
    return selection.narrow(seen, only, skip)


def verify(
    lock: Lock | StrPath | Sequence[Lock | StrPath] = "llm.lock",
    observation: Observation | StrPath | None = None,
    *,
    stage: Stage | str | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    allow_unknown: Sequence[str] = (),
    gate: str = "enforce",
    **sources: Unpack[Sources],
) -> Report:
    """Judge a host against a lock: `report.exit_code` is 0 where all matches, 1 where something differs, 3 where something is unknown.

    Without an `observation` this host is looked at, as `observe` does with the same `sources`. Of several locks one has to match:
    the report is that of the first that does, else of the nearest. `only`, `skip` and `allow_unknown` are globs over facts.
    """
    from lockllm.api import selection
    from lockllm.judge import verify as judge

    locks = _locks(lock)
    paths: list[Path] = [path for each in locks for path in (*each.values, *each.absent)]
    only = selection.globs("only", only, [*paths, ("check", "x")])
    skip = selection.globs("skip", skip, paths, must_match=False)
    allow_unknown = selection.globs("allow_unknown", allow_unknown, paths, must_match=False)
    if observation is None:
        from lockllm.api import host

        seen, subject = host.look(locks, _stage(stage), sources)
    elif sources:
        raise ArgumentError(
            "a given observation needs no other source", where=min(sources), fix="leave one of both out"
        )
    else:
        seen = _observation(observation)
        subject = (
            "an observation" if isinstance(observation, Observation) else f"the observation {os.fspath(observation)}"
        )
    return judge.best(
        [
            judge.verify(
                each,
                seen,
                name=each.name or "llm.lock",
                stage=_stage(stage),
                only=only,
                skip=skip,
                allow_unknown=allow_unknown,
                gate=gate,
                subject=subject,
            )
            for each in locks
        ]
    )


def diff(before: Lock | StrPath, after: Lock | StrPath, *, names: tuple[str, str] | None = None) -> Diff:
    """What differs between two locks: each change once, with its cause and what it does to the output."""
    from lockllm.judge.diff import diff as compare

    one, other = _lock(before), _lock(after)
    found = compare(one, other, names=names or (one.name or "before", other.name or "after"))
    templates = one.get("chat_template.sha256"), other.get("chat_template.sha256")
    if templates[0] == templates[1] or not all(isinstance(each, str) for each in templates):
        return found
    from lockllm.api import template_texts

    return msgspec.structs.replace(
        found, template_before=template_texts.of(one), template_after=template_texts.of(other)
    )


def explain(fact: str, *, engine: str | None = None) -> Explanation:
    """What a fact is, what it does to the output, and where each engine (or one) sets, defaults and shows it."""
    from lockllm import engines
    from lockllm.api.inspection import known
    from lockllm.facts import keys, registry
    from lockllm.facts.check import CHECKS
    from lockllm.judge.explain import explain as describe

    known(engine)
    try:
        row = registry.find(keys.parse(fact))
    except ValueError as cause:
        raise ArgumentError(f"{fact!r} is not a key", where="fact", fix="write one such as serve.dtype") from cause
    if not row.known:
        kind = "check" if row.group == "check" else "fact"
        names = [each.name for each in CHECKS] if kind == "check" else [each.key for each in registry.ROWS]
        meant = registry.nearest(fact, [*names, *registry.GROUP])
        fix = f"did you mean {meant}?" if meant else "see `lockllm explain checkpoint`"
        raise ArgumentError(f"there is no {kind} {fact}", where="fact", fix=fix)
    chosen = engines.available() if engine is None else (engine,)
    return describe(row, {name: engines.load(name) for name in chosen})


def render(
    path: StrPath | None = None,
    *,
    request: Mapping[str, Any] | StrPath | None = None,
    template: StrPath | None = None,
    special_tokens: StrPath | None = None,
    now: str | None = None,
    engine: str | None = None,
    engine_version: str | None = None,
) -> Rendering:
    """Render the chat template of a checkpoint (or a `template` file) as the engine would, for the body of a chat completion."""
    from lockllm.api.inspection import known, prompt_material
    from lockllm.prompt.command import Given, caveat, compose

    known(engine)
    given = Given(
        template=None if template is None else os.fspath(template),
        request=request if request is None or isinstance(request, Mapping) else os.fspath(request),
        tokens=None if special_tokens is None else os.fspath(special_tokens),
        now=now,
        engine=engine,
        version=engine_version,
    )
    material = None if path is None else prompt_material(os.fspath(path), engine, engine_version)
    winner, rendered = compose(material, given)
    return Rendering(rendered.text, rendered.sha256, winner.source, caveat(engine))


def inspect(
    path: StrPath,
    *,
    engine: str | None = None,
    engine_version: str | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    quick: bool = False,
    cache: Cache = "off",
    progress: Progress | None = None,
) -> Inspection:
    """The facts and findings of a checkpoint: a folder, a snapshot of the Hub's cache, an adapter or a .gguf file."""
    from lockllm.api import inspection

    return inspection.checkpoint(
        os.fspath(path),
        engine,
        engine_version,
        include=include,
        exclude=exclude,
        quick=quick,
        cache=cache,
        progress=progress,
    )


def fingerprint(record: Lock | Observation | StrPath = "llm.lock", *, lock: Lock | StrPath | None = None) -> str:
    """The short id of a lock, or of an observation (of the facts that `lock` holds, where one is given)."""
    from lockllm.judge import fingerprint as ids

    read = record if isinstance(record, (Lock, Observation)) else files.read_either(os.fspath(record))
    if isinstance(read, Lock):
        return ids.of_lock(read)
    return ids.of_observation(read, _lock(lock) if lock is not None else None)


def _spec(given: Spec | StrPath) -> Spec:
    return load_spec(given) if isinstance(given, (str, os.PathLike)) else given


def _lock(given: Lock | StrPath) -> Lock:
    return given if isinstance(given, Lock) else load_lock(given)


def _locks(given: Lock | StrPath | Sequence[Lock | StrPath]) -> list[Lock]:
    if isinstance(given, (Lock, str, os.PathLike)):
        return [_lock(given)]
    if not given:
        raise ArgumentError("there is no lock to judge by", where="lock", fix="give one or more")
    return [_lock(each) for each in given]


def _observation(given: Observation | StrPath | None) -> Any:
    return given if given is None or isinstance(given, Observation) else load_observation(given)


def _stage(given: Stage | str | None) -> Stage | None:
    if given is None or isinstance(given, Stage):
        return given
    if given not in _STAGES:
        raise ArgumentError(f"there is no stage {given!r}", where="stage", fix=f"name one of {', '.join(_STAGES)}")
    return Stage(given)
