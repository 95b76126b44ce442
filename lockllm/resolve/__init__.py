"""A spec resolved into a lock: the engine's version first, then everything that hangs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from lockllm import engines
from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec, is_range
from lockllm.engines import Given, Installed
from lockllm.errors import ResolveError, SpecError
from lockllm.facts import keys, registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Observation, Reading, Unobserved, values
from lockllm.judge.diff import stale
from lockllm.judge.policy import inside
from lockllm.resolve import companions
from lockllm.resolve.checkpoint_place import Place
from lockllm.resolve.completeness import findings, refuse_broken
from lockllm.resolve.fill import fill
from lockllm.resolve.remote.hub_errors import Asked
from lockllm.resolve.remote.releases import Release
from lockllm.resolve.sources import Filled, Options, Sources

__all__ = ["Asked", "Filled", "Options", "Place", "World", "check", "resolve"]

_VERSION: Path = ("engine", "version")
_COMMIT: Path = ("checkpoint", "commit")
_FILES: Path = ("checkpoint", "files")
_HERE = ("packages", "libraries", "cuda", "rocm", "engine")


class World(Protocol):
    """What `resolve` asks of the world; a test passes a fake."""

    def installed(self, engine: str) -> str | None:
        """The version of the engine in the serving environment, or None."""

    def options(self, engine: str, version: str) -> Installed | None:
        """The options of that version by its own source, where the serving environment has it and no table does."""

    def newest(self, engine: str, inside: Callable[[str], bool]) -> Release | None:
        """The newest release in the package index that `inside` accepts."""

    def requirements(self, release: Release) -> dict[str, str]:
        """What a release's wheel requires exactly."""

    def place(self, spec: Spec, commit: str | None, version: str) -> Place:
        """Where the checkpoint lies; `commit` is what the old lock holds, `version` the engine's, whose loader chooses
        the files. Raises ResolveError where it cannot be had."""

    def commit(self, asked: Asked) -> tuple[str, str]:
        """The commit that a revision of a repository is now, and how that is known. Raises ResolveError."""

    def look(self, spec: Spec, place: Place, version: str, given: Given) -> Observation:
        """The checkpoint, the serving environment and this machine, looked at as the spec plans the server."""

    @property
    def is_serving_host(self) -> bool:
        """Whether this machine was named as the one that serves (`--gpu`)."""


def resolve(
    spec: Spec, old: Lock | None, world: World, options: Options, observation: Observation | None = None
) -> Filled:
    """The lock of one variant of a spec. Raises ResolveError, or SpecError for what can never hold."""
    refuse_impossible(spec)
    old = None if old is not None and old.get("engine.name") not in (spec.engine, None) else old
    version, via, release = _version(spec, old, world, options, observation)
    commit = _held_commit(spec, old, options)
    place = world.place(spec, commit, version)
    seen = world.look(spec, place, version, companions.planned_server(spec, old, options, world))
    refuse_broken(spec, place, seen)
    here = _same_engine(seen, version)
    required = world.requirements(release) if release is not None and not here else {}
    files: tuple[Reading, ...] | None = None
    if place.is_seen:
        files = tuple(each for each in seen.readings if each.fact.group not in _HERE)
        files = (*companions.code_commit(spec, files, old, options, world), *files)
    sources = Sources(
        version=version,
        version_via=via,
        files=files,
        environment=tuple(_of(seen.readings, _HERE)) if here else None,
        host=tuple(_of(seen.readings, ("host",))) if here or world.is_serving_host else None,
        observation=observation,
        required=tuple(
            Reading(registry.find(("packages", name)), text, "the engine's wheel", By.PACKAGE)
            for name, text in required.items()
        ),
        unobserved=seen.unobserved,
        commit=place.commit,
        commit_via=place.commit_via or (old.via.get(_COMMIT, "") if old is not None and commit is not None else ""),
        kept_commit=commit is not None,
        installed=world.options(spec.engine or "", version),
    )
    filled = fill(spec, sources, old, options)
    return msgspec.structs.replace(filled, notes=(*place.notes, *_claimed(place, seen), *findings(place, seen)))


def check(spec: Spec, lock: Lock) -> list[str]:
    """The keys that a lock does not hold as the spec resolves them now. Pure: nothing but the two is looked at."""
    refuse_impossible(spec)
    if lock.get("engine.name") != spec.engine:
        return ["engine.name"]
    version = lock.get("engine.version")
    if not isinstance(version, str) or (spec.engine_version is not None and not _fits(spec.engine_version, version)):
        return ["engine.version"]
    held = lock.values
    fixed = {("checkpoint", "repo"): spec.repo, ("checkpoint", "revision"): spec.revision}
    wrong = [".".join(path) for path, value in fixed.items() if spec.repo is not None and held.get(path) != value]
    if (lock.include, lock.exclude) != (spec.include, spec.exclude):
        wrong.append("checkpoint.files")
    told: tuple[Unobserved, ...] = tuple(Unobserved(path, reason) for path, reason in lock.unpinned.items())
    sources = Sources(version=version, version_via=lock.via.get(_VERSION, ""), unobserved=told)
    fresh = fill(spec, sources, lock, Options()).lock
    policy = {glob: each for glob, each in fresh.policy.items() if glob in lock.policy or _told(spec, glob)}
    return list(dict.fromkeys([*wrong, *stale(lock, msgspec.structs.replace(fresh, policy=policy))]))


def _told(spec: Spec, glob: str) -> bool:
    """Whether a policy is the spec's own. One that a newer lockllm writes by itself makes no older lock stale."""
    return glob in spec.policy or any(glob == keys.dotted(path) for path in spec.requires)


def refuse_impossible(spec: Spec) -> None:
    """Raises SpecError for a fact that the engine cannot hold, whatever its version."""
    if not engines.known(spec.engine):
        raise SpecError(
            f"this release cannot lock {spec.engine} yet", where=spec.where("engine.name"), fix="upgrade lockllm"
        )
    problems = [
        SpecError(f"{spec.engine} cannot hold sampling.seed", where=spec.where("sampling.seed"),
                  fix="set serve.seed, and send `seed` with each request")
        for path in spec.values
        if path == ("sampling", "seed") and engines.identity(spec.engine).no_sampling_seed
    ]  # fmt: skip
    if problems:
        raise problems[0]


def _version(
    spec: Spec, old: Lock | None, world: World, options: Options, observation: Observation | None
) -> tuple[str, str, Release | None]:
    asked = spec.engine_version
    fact = registry.find(_VERSION)

    def fits(text: str) -> bool:
        return asked is None or _fits(asked, text)

    seen = values(observation.readings if observation else ()).get(_VERSION)
    if isinstance(seen, str) and not fits(seen):
        raise SpecError(
            f"the host runs {spec.engine} {seen}, {spec.name} asks for {asked}", where=spec.where("engine.version"),
            fix="change the version in the spec, or install another on the host",
        )  # fmt: skip
    if asked is not None and not is_range(asked):
        return asked, spec.name.rsplit("/", 1)[-1], None
    if isinstance(seen, str):
        return seen, "observation", None
    held = old.values.get(_VERSION) if old is not None else None
    if isinstance(held, str) and fits(held) and not options.renews(_VERSION):
        return held, old.via.get(_VERSION, "") if old is not None else "", None
    installed = world.installed(spec.engine or "")
    if installed is not None and fits(installed):
        return installed, "serving environment", None
    release = world.newest(spec.engine or "", fits)
    if release is None:
        has = f"; {spec.engine} {installed} is installed" if installed else ""
        raise ResolveError(
            f"no release of {spec.engine} {'in ' + asked if asked else 'can be found'}{has}", where=spec.where(f"{fact.key}"),
            fix="give an exact version, name the serving environment with --python, or lock with --observation",
        )  # fmt: skip
    return release.version, "package index", release


def _held_commit(spec: Spec, old: Lock | None, options: Options) -> str | None:
    """The commit of the old lock, where the spec still asks for the same files."""
    if old is None or options.renews(_COMMIT) or spec.repo is None or old.get("checkpoint.repo") != spec.repo:
        return None
    same = old.get("checkpoint.revision") == spec.revision and (old.include, old.exclude) == (
        spec.include,
        spec.exclude,
    )
    commit = old.get("checkpoint.commit")
    return commit if same and isinstance(commit, str) else None


def _claimed(place: Place, seen: Observation) -> tuple[str, ...]:
    """Says so where digests of the cache were taken from the names of its files."""
    those = [each for each in seen.readings if each.fact.path[:2] == _FILES and each.evidence == "claimed"]
    if place.path is None or not those:
        return ()
    what = "1 file that was not read is" if len(those) == 1 else f"{len(those)} files that were not read are"
    return (f"the digest of {what} claimed by the cache: `lockllm verify` computes it",)


def _fits(asked: str, version: str) -> bool:
    return inside(asked, version)


def _same_engine(seen: Observation, version: str) -> bool:
    found = [each for each in seen.readings if each.fact.path == _VERSION and each.by is By.PACKAGE]
    return bool(found) and registry.same(found[0].fact, found[0].value, version)


def _of(readings: Iterable[Reading], groups: tuple[str, ...]) -> Iterable[Reading]:
    return (each for each in readings if each.fact.group in groups)
