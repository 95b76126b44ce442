"""The files that a server loads: its checkpoint, tokenizer, draft model and adapters, and files that options name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from lockllm import checkpoint
from lockllm.checkpoint import Look, contents
from lockllm.checkpoint.declared import ADAPTER_MORE
from lockllm.checkpoint.reading import Cache, Hashing
from lockllm.engines import Given, Model
from lockllm.errors import LockllmError
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import find, seen
from lockllm.facts.types import whole
from lockllm.observe.request import Request
from lockllm.observe.server import locate as places
from lockllm.observe.server.locate import Target

_BESIDE = frozenset(
    {
        "check.no_pointer_files",
        "check.weights_readable",
        "check.adapter_rank",
        "check.tokenizer_understood",
    }
)
"""Findings that also apply to a part of a checkpoint: a tokenizer without weights."""
_LOAD_FORMAT: Path = ("serve", "load_format")
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The results from files: the look at the checkpoint itself, and readings of everything beside it."""

    main: Look | None = None
    prompt: Look | None = None  # the look at the files that make the prompt: the main one, or a tokenizer's of its own
    others: tuple[Look, ...] = ()  # of a tokenizer, draft model and adapters that lie elsewhere
    source: str = ""  # how it is known that this is the checkpoint
    readings: tuple[Reading, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()

    @property
    def looks(self) -> tuple[Look, ...]:
        """Every look at a checkpoint, the main one first."""
        return (*([self.main] if self.main is not None else []), *self.others)


def look(request: Request, target: Target, place: tuple[str, str | None, str] | Unobserved) -> Files:
    """Look at everything; what cannot be read is a gap."""
    found: list[Reading] = []
    unseen: list[Unobserved] = []
    main: Look | None = None
    source = ""
    if request.look is not None:
        main, source = request.look, request.look.layout.source
    elif isinstance(place, Unobserved):
        unseen += _nothing(place)
    else:
        looked = _one(request, target, place, request.include, request.exclude)
        source = place[2]
        if isinstance(looked, Look):
            main = looked
        else:
            unseen += _nothing(Unobserved(("checkpoint",), looked.what, looked.fix))
    given = target.plan.given if target.plan else None
    prompt = main
    others: list[Look | None] = []
    if given is not None:
        if given.tokenizer is not None and not _same(given.tokenizer, given.model):
            prompt = _tokenizer(request, target, given.tokenizer, found, unseen)
            main = _without_tokenizer(main)
            others.append(prompt)
        if given.draft is not None:
            others.append(_beside(request, target, given.draft, ("draft",), found, unseen))
        for name, model in given.adapters.items():
            others.append(_beside(request, target, model, ("adapters", name), found, unseen))
        found += _code_commit(given)
        by = By.PROCESS if target.server is not None else By.PLAN
        live = target.stage is Stage.LIVE
        for item in contents.readings(given, target.place, by, live=live, cache=_cache(request)):
            (found if isinstance(item, Reading) else unseen).append(item)  # type: ignore[arg-type]
    return Files(
        main=main,
        prompt=prompt,
        source=source,
        readings=tuple(found),
        unobserved=tuple(unseen),
        others=tuple(each for each in others if each is not None),
    )


def beside(look: Look) -> Iterator[Check]:
    """Findings about a tokenizer, a draft model, or an adapter: a file without its content, or another rank."""
    where = look.layout.repo or look.layout.given
    for check in look.checks:
        if check.name in _BESIDE and check.status is CheckStatus.FAIL:
            yield msgspec.structs.replace(check, detail=f"{where}: {check.detail}")


def hashing(request: Request, target: Target) -> Hashing:
    """How much of the files is read: nothing at stage live."""
    if target.stage is Stage.LIVE:
        return "none"
    return "quick" if request.quick else "claims" if request.claims else "full"


def _one(
    request: Request,
    target: Target,
    place: tuple[str, str | None, str],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> Look | LockllmError:
    path, revision, _ = place
    major = target.environment.distributions.get("transformers") if target.environment else None
    number = major.version.partition(".")[0] if major else ""
    version = request.engine_version
    if target.environment is not None and target.engine is not None:
        one = target.environment.of_any(target.engine.distributions)
        version = one.version.partition("+")[0] if one else version
    try:
        return checkpoint.look(
            path,
            engine=target.engine_name or request.engine,
            engine_version=version,
            include=include,
            exclude=exclude,
            hashing=hashing(request, target),
            cache=_cache(request),
            blake3=request.blake3,
            pairs=request.pairs,
            revision=revision,
            progress=request.progress,
            transformers_major=5 if (release := whole(number)) is None else release,
            load_format=_load_format(request, target),
            edition=request.edition,
        )
    except LockllmError as error:
        return error
    except OSError as error:
        return LockllmError(f"{path} cannot be read: {error.strerror}", fix="check its permissions")


def _cache(request: Request) -> Cache:
    return "renew" if request.rehash else request.cache  # type: ignore[return-value]


def _load_format(request: Request, target: Target) -> str | None:
    """The load format, which selects the weights: from the command or the spec, else as locked."""
    given = target.plan.given if target.plan else None
    if given is None:
        return request.load_format
    found = (each.value for each in given.readings if each.fact.path == _LOAD_FORMAT)
    return next((value for value in found if isinstance(value, str)), None)


def _other(request: Request, target: Target, model: Model) -> Look | Unobserved | LockllmError:
    """The look at another checkpoint than the main one, made already or made here."""
    if model.text in request.looks:
        return request.looks[model.text]
    place = places.model(model, target, request)
    return place if isinstance(place, Unobserved) else _one(request, target, place, (), ())


def _without_tokenizer(main: Look | None) -> Look | None:
    """The look without the tokenizer beside the model: the command names another one."""
    if main is None:
        return None
    rest = tuple(each for each in main.readings if each.fact.group != "tokenizer")
    return msgspec.structs.replace(main, readings=rest)


def _tokenizer(
    request: Request, target: Target, model: Model, found: list[Reading], unseen: list[Unobserved]
) -> Look | None:
    """A tokenizer of another repository or folder: its own repo, commit and content. The template is taken from there too."""
    looked = _other(request, target, model)
    if isinstance(looked, Look):
        found += [
            msgspec.structs.replace(reading, source=f"{model.source} {model.text}: {reading.source}")
            for reading in looked.readings
            if reading.fact.group == "tokenizer"
        ]
        source = looked.layout.source or looked.layout.given
        for key, value in (("repo", looked.layout.repo), ("commit", looked.layout.commit)):
            if value is not None:
                found.append(seen(("tokenizer", key), value, source, By.FILE))
        return looked
    reason, fix = (looked.reason, looked.fix) if isinstance(looked, Unobserved) else (looked.what, looked.fix)
    by = By.PROCESS if target.server is not None else By.PLAN
    found.append(seen("tokenizer.repo", model.text, model.source, by))  # by its name alone: nothing more is known of it
    unseen += [Unobserved((group,), reason, fix) for group in ("tokenizer", "chat_template", "prompt_probes")]
    return None


def _beside(
    request: Request, target: Target, model: Model, prefix: Path, found: list[Reading], unseen: list[Unobserved]
) -> Look | None:
    """The facts of another checkpoint - an adapter, a draft model - under their own group."""
    looked = _other(request, target, model)
    if not isinstance(looked, Look):
        reason, fix = (looked.reason, looked.fix) if isinstance(looked, Unobserved) else (looked.what, looked.fix)
        unseen.append(Unobserved(prefix, reason, fix))
        return None
    for reading in looked.readings:
        if request.edition < 2 and (reading.fact.since > 1 or reading.fact.path[-1] in ADAPTER_MORE):
            continue  # of a family that is closed: a lock that is older than the fact does not deny it
        if reading.fact.path[0] in ("checkpoint", "adapter"):
            moved = find((*prefix, *reading.fact.path[1:]))
            value = reading.value
            if reading.fact.path[:2] == ("checkpoint", "files") and isinstance(value, dict):
                value = value.get("sha256")  # of a file beside the checkpoint the digest alone: one fact, one leaf
            if value is not None:
                found.append(msgspec.structs.replace(reading, fact=moved, value=value))
    gaps = [gap for gap in looked.unobserved if gap.path[0] in ("checkpoint", "adapter")]
    unseen += [msgspec.structs.replace(gap, path=(*prefix, *gap.path[1:])) for gap in gaps]
    return looked


def _code_commit(given: Given) -> Iterator[Reading]:
    """The commit of remote code that the command itself pins."""
    for reading in given.readings:
        if reading.fact.path == ("serve", "args", "code_revision") and _COMMIT.match(str(reading.value)):
            yield seen("checkpoint.code_commit", reading.value, reading.source, reading.by)


def _same(one: Model, other: Model | None) -> bool:
    return other is not None and (one.text, one.revision) == (other.text, other.revision)


def _nothing(gap: Unobserved) -> Iterable[Unobserved]:
    """One reason for every group that the checkpoint's files would show."""
    for group in ("checkpoint", "tokenizer", "quantization", "chat_template", "prompt_probes"):
        yield Unobserved((group,), gap.reason, gap.fix)
