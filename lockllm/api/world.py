"""What `lock` asks: the serving environment, the package index, the Hub, and local files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from lockllm import engines
from lockllm.api import template_texts
from lockllm.checkpoint import Look
from lockllm.checkpoint.listed import Wish
from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.engines import Given, Installed
from lockllm.errors import ResolveError, SpecError
from lockllm.facts.fact import Stage
from lockllm.facts.observation import CheckStatus, Observation
from lockllm.observe import Request, observe
from lockllm.prompt.templates import shelve
from lockllm.prompt.tokenizer import available
from lockllm.resolve import Asked, Place
from lockllm.resolve.checkpoint_place import Finder, why_offline
from lockllm.resolve.remote import releases
from lockllm.resolve.remote.releases import Release

_WHOLE = frozenset({"check.files_complete", "check.links_resolve", "check.no_pointer_files", "check.claimed_digests"})
"""The findings of which none may fail where the cache's snapshot is to stand for a commit."""


class World(msgspec.Struct, kw_only=True):
    """What one run of `lock` may ask, by its options."""

    python: str | None = None
    gpu: str | None = None
    offline: bool = False
    blake3: bool = False
    cache: str = "auto"
    progress: Any = None
    environments: dict[str, tuple[str | None, Installed | None]] = {}
    finder: Finder | None = None

    @property
    def is_serving_host(self) -> bool:
        """Whether `--gpu` names this machine as the one that serves."""
        return self.gpu is not None and self.gpu != "none"

    def installed(self, engine: str) -> str | None:
        """The version of the engine in the serving environment."""
        return self._environment(engine)[0]

    def options(self, engine: str, version: str) -> Installed | None:
        """Its options by the source that the serving environment holds, where that is the version and no table has it."""
        read: Any = getattr(engines.load(engine), "installed", None)
        if read is None or read(version, {}) is None:
            return None
        found = self._environment(engine)[1]
        return found if found is not None and found.version == version else None

    def newest(self, engine: str, inside: Callable[[str], bool]) -> Release | None:
        """The newest release in the package index."""
        if self.offline:
            raise ResolveError(
                "the engine's version is unknown, and --offline forbids looking it up",
                where="--offline",
                fix="give an exact version",
            )
        name = engines.identity(engine).package_index
        return releases.newest(name, inside) if name else None

    def requirements(self, release: Release) -> dict[str, str]:
        """What the release's wheel requires exactly."""
        return {} if self.offline else releases.exact_requirements(release)

    def place(self, spec: Spec, commit: str | None, version: str) -> Place:
        """The path of the spec, or its repository: a complete snapshot in the cache, else as the Hub lists it."""
        if spec.path is not None:
            path = os.path.normpath(
                os.path.join(os.path.dirname(os.path.abspath(spec.name)), os.path.expanduser(spec.path))
            )
            if not os.path.exists(path):
                raise SpecError(
                    f"no checkpoint at {spec.path}",
                    where=spec.where("checkpoint.path"),
                    fix="name a directory or a .gguf file, relative to the spec",
                )
            return Place(path=path)
        if engines.identity(spec.engine).own_registry:
            return Place()
        return self._finder.place(_asked(spec), commit, _wish(spec, self._counts, version))

    def commit(self, asked: Asked) -> tuple[str, str]:
        """What a branch or tag of any repository is now."""
        return self._finder.commit(asked)

    def close(self) -> None:
        """Remove what was fetched for this run."""
        self._finder.close()

    def recall(self, spec: Spec, old: Lock) -> None:
        """Make the template's text of an older lock known, so that a diff can show it."""
        sha256, commit = old.get("chat_template.sha256"), old.get("checkpoint.commit")
        if (
            spec.repo is None
            or not isinstance(commit, str)
            or not isinstance(sha256, str)
            or template_texts.find(sha256)
        ):
            return
        files = self._finder.texts(_asked(spec), commit)
        for candidate in shelve(files.get, tuple(files)).all():
            if candidate.text is not None:
                template_texts.keep(candidate.text)

    def look(self, spec: Spec, place: Place, version: str, given: Given) -> Observation:
        """One look at files, packages and this machine; the server is the one that the spec plans."""
        seen = observe(
            Request(
                stage=Stage.PREFLIGHT,
                engine=spec.engine,
                engine_version=version,
                include=spec.include,
                exclude=spec.exclude,
                repo=spec.repo,
                named=spec.repo or spec.path or "",
                revision=spec.revision,
                commit=place.commit,
                python=self.python,
                checkpoint=place.path,
                claims=place.path is not None and place.asked is not None,
                look=self._finder.look(place, _wish(spec, self._counts, version)) if place.listed is not None else None,
                looks=dict(self._beside(spec, given)),
                keep_template=template_texts.keep,
                gpu=self.gpu or "auto",
                planned=given,
                environ=dict(os.environ),
                cwd=os.getcwd(),
                blake3=self.blake3,
                cache=self.cache,
                progress=self.progress,
                packages=frozenset(engines.load(spec.engine or "").packages),
            )
        )
        if place.path is not None and place.asked is not None:
            _refuse_incomplete(place.asked, seen)
        return seen

    def _environment(self, engine: str) -> tuple[str | None, Installed | None]:
        from lockllm.observe.server.locate import installed_release

        if engine not in self.environments:
            self.environments[engine] = installed_release(engine, self.python)
        return self.environments[engine]

    @property
    def _finder(self) -> Finder:
        if self.finder is None:
            self.finder = Finder(why_offline(self.offline))
        return self.finder

    @property
    def _counts(self) -> bool:
        """Whether token ids can be made: by a library of ours, or by the serving interpreter's."""
        return available() or self.python is not None

    def _beside(self, spec: Spec, given: Given) -> Iterator[tuple[str, Look]]:
        """Looks at other repositories that are not in the cache."""
        for model in (given.tokenizer, given.draft, *given.adapters.values()):
            if model is None or os.path.isabs(model.text):
                continue
            asked = Asked(repo=model.text, revision=model.revision, where=spec.name)
            place = self._finder.place(asked, None, Wish(engine=spec.engine))
            if place.listed is not None:
                yield model.text, self._finder.look(place, Wish(engine=spec.engine), model.source)


def _asked(spec: Spec) -> Asked:
    return Asked(
        repo=spec.repo or "",
        revision=spec.revision,
        where=spec.where("checkpoint.repo"),
        where_revision=spec.where("checkpoint.revision"),
    )


def _wish(spec: Spec, counts: bool, version: str) -> Wish:
    """Which files of the spec's own repository count; of another repository those of the engine's rule."""
    load_format = spec.values.get(("serve", "load_format"))
    return Wish(
        engine=spec.engine,
        version=version,
        load_format=load_format if isinstance(load_format, str) else None,
        include=spec.include,
        exclude=spec.exclude,
        tokenizer=counts,
    )


def _refuse_incomplete(asked: Asked, seen: Observation) -> None:
    for check in seen.checks:
        if check.name in _WHOLE and check.status is CheckStatus.FAIL:
            raise ResolveError(
                f"the snapshot of {asked.repo} in the cache is not whole: {check.detail}",
                where=asked.where,
                fix=f"download it again: hf download {asked.repo}, or lock without --offline",
            )
