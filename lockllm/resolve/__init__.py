"""A spec resolved into a lock: the engine's version first, then everything that hangs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from lockllm import engines
from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec, is_range
from lockllm.engines import Given
from lockllm.errors import ResolveError, SpecError
from lockllm.facts import registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Observation, Reading, Unobserved
from lockllm.judge.diff import stale
from lockllm.judge.policy import inside
from lockllm.resolve.fill import Filled, Options, Sources, fill, given_by
from lockllm.resolve.releases import Release

__all__ = ["Filled", "Options", "World", "check", "resolve"]

_VERSION: Path = ("engine", "version")
_HERE = ("packages", "libraries", "cuda", "rocm", "engine")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the checkpoint lies, or why it is kept as locked. `path` None: only the old lock knows it."""

    path: str | None
    commit: str | None = None
    commit_via: str = ""


class World(Protocol):
    """What `resolve` asks of the world; a test passes a fake."""

    def installed(self, engine: str) -> str | None:
        """The version of the engine in the serving environment, or None."""

    def newest(self, engine: str, inside: Callable[[str], bool]) -> Release | None:
        """The newest release in the package index that `inside` accepts."""

    def requirements(self, release: Release) -> dict[str, str]:
        """What a release's wheel requires exactly."""

    def place(self, spec: Spec, commit: str | None) -> Place:
        """Where the checkpoint lies; `commit` is what the old lock holds. Raises ResolveError where it cannot be had."""

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
    place = world.place(spec, commit)
    seen = world.look(spec, place, version, given_by(spec))
    here = _same_engine(seen, version)
    required = world.requirements(release) if release is not None and not here else {}
    files = tuple(each for each in seen.readings if each.fact.group not in _HERE) if place.path is not None else None
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
        commit_via=place.commit_via,
    )
    return fill(spec, sources, old, options)


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
    asked = ("serve", "sampling")
    pinned = {path for path in held if path[0] in asked and lock.via.get(path) == "observation"}
    fresh_values = {**fresh.values, **{path: held[path] for path in pinned}}
    return list(dict.fromkeys([*wrong, *stale(lock, msgspec.structs.replace(fresh, values=fresh_values))]))


def refuse_impossible(spec: Spec) -> None:
    """Raises SpecError for a fact that the engine cannot hold, whatever its version."""
    if spec.engine not in engines.available():
        raise SpecError(
            f"this release cannot lock {spec.engine} yet", where=spec.where("engine.name"), mend="upgrade lockllm"
        )
    problems = [
        SpecError(f"{spec.engine} cannot hold sampling.seed", where=spec.where("sampling.seed"),
                  mend="set serve.seed, and send `seed` with each request")
        for path in spec.values
        if path == ("sampling", "seed") and spec.engine in ("vllm", "sglang", "tgi", "transformers", "lmdeploy")
    ]  # fmt: skip
    if problems:
        raise problems[0]


def _version(
    spec: Spec, old: Lock | None, world: World, options: Options, observation: Observation | None
) -> tuple[str, str, Release | None]:
    asked = spec.engine_version
    fact = registry.find(_VERSION)
    if asked is not None and not is_range(asked):
        return asked, spec.name.rsplit("/", 1)[-1], None

    def fits(text: str) -> bool:
        return asked is None or _fits(asked, text)

    seen = next((each for each in observation.readings if each.fact.path == _VERSION), None) if observation else None
    if seen is not None and isinstance(seen.value, str):
        if not fits(seen.value):
            raise ResolveError(
                f"the host runs {spec.engine} {seen.value}, llm.toml asks for {asked}", where=spec.where("engine.version"),
                mend="widen the range, or upgrade the host",
            )  # fmt: skip
        return seen.value, "observation", None
    held = old.values.get(_VERSION) if old is not None else None
    fresh = options.upgrade or any(_matches(text, _VERSION) for text in options.upgrade_facts)
    if isinstance(held, str) and fits(held) and not fresh:
        return held, old.via.get(_VERSION, "") if old is not None else "", None
    installed = world.installed(spec.engine or "")
    if installed is not None and fits(installed):
        return installed, "serving environment", None
    release = world.newest(spec.engine or "", fits)
    if release is None:
        has = f"; {spec.engine} {installed} is installed" if installed else ""
        raise ResolveError(
            f"no release of {spec.engine} {'in ' + asked if asked else 'can be found'}{has}", where=spec.where(f"{fact.key}"),
            mend="give an exact version, name the serving environment with --python, or lock with --observation",
        )  # fmt: skip
    return release.version, "package index", release


def _held_commit(spec: Spec, old: Lock | None, options: Options) -> str | None:
    """The commit of the old lock, where the spec still asks for the same files."""
    fresh = options.upgrade or any(_matches(text, ("checkpoint", "commit")) for text in options.upgrade_facts)
    if old is None or fresh or spec.repo is None or old.get("checkpoint.repo") != spec.repo:
        return None
    same = old.get("checkpoint.revision") == spec.revision and (old.include, old.exclude) == (
        spec.include,
        spec.exclude,
    )
    commit = old.get("checkpoint.commit")
    return commit if same and isinstance(commit, str) else None


def _fits(asked: str, version: str) -> bool:
    return inside(asked, version)


def _matches(text: str, path: Path) -> bool:
    from lockllm.facts.keys import Glob

    return Glob(text).matches(path)


def _same_engine(seen: Observation, version: str) -> bool:
    found = [each for each in seen.readings if each.fact.path == _VERSION and each.by is By.PACKAGE]
    return bool(found) and registry.same(found[0].fact, found[0].value, version)


def _of(readings: Iterable[Reading], groups: tuple[str, ...]) -> Iterable[Reading]:
    return (each for each in readings if each.fact.group in groups)
