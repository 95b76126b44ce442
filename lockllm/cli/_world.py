"""The world that `lock` asks: the serving environment, the package index, the checkpoint's place."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from lockllm import engines
from lockllm.checkpoint import hub as layouts
from lockllm.documents.spec import Spec
from lockllm.engines import Given
from lockllm.errors import ResolveError, SpecError
from lockllm.facts.fact import Stage
from lockllm.facts.observation import Observation
from lockllm.observe import Request, observe
from lockllm.resolve import Place, releases
from lockllm.resolve.releases import Release

_INDEXED = {
    "vllm": "vllm",
    "sglang": "sglang",
    "transformers": "transformers",
    "lmdeploy": "lmdeploy",
    "tensorrt-llm": "tensorrt-llm",
    "llama-cpp-python": "llama-cpp-python",
}


class World(msgspec.Struct, kw_only=True):
    """What one run of `lock` may ask, as its options say."""

    python: str | None = None
    gpu: str | None = None
    offline: bool = False
    blake3: bool = False
    cache: str = "auto"
    progress: Any = None
    environments: dict[str, str | None] = {}

    @property
    def is_serving_host(self) -> bool:
        """Whether `--gpu` names this machine as the one that serves."""
        return self.gpu is not None and self.gpu != "auto"

    def installed(self, engine: str) -> str | None:
        """The version of the engine in the serving environment."""
        from lockllm.observe.serving import installed_version

        if engine not in self.environments:
            self.environments[engine] = installed_version(engine, self.python)
        return self.environments[engine]

    def newest(self, engine: str, inside: Callable[[str], bool]) -> Release | None:
        """The newest release in the package index."""
        if self.offline:
            raise ResolveError(
                "the version of the engine is not known offline", where="--offline", mend="give an exact version"
            )
        name = _INDEXED.get(engine)
        return releases.newest(name, inside) if name else None

    def requirements(self, release: Release) -> dict[str, str]:
        """What the release's wheel requires exactly."""
        return {} if self.offline else releases.exact_requirements(release)

    def place(self, spec: Spec, commit: str | None) -> Place:
        """The path of the spec, or the snapshot of its repository in the cache."""
        if spec.path is not None:
            path = os.path.normpath(
                os.path.join(os.path.dirname(os.path.abspath(spec.name)), os.path.expanduser(spec.path))
            )
            if not os.path.exists(path):
                raise SpecError(
                    f"no checkpoint at {spec.path}",
                    where=spec.where("checkpoint.path"),
                    mend="name a directory or a .gguf file, relative to the spec",
                )
            return Place(path=path)
        folder = layouts.repo_folder(layouts.cache_root(os.environ, os.path.expanduser("~")), spec.repo or "")
        snapshot, ref = layouts.snapshot(folder, commit or spec.revision)
        if snapshot is None:
            if commit is not None:
                return Place(path=None, commit=commit)
            raise ResolveError(
                f"{spec.repo} is not in the local cache: {ref}",
                where=spec.where("checkpoint.repo"),
                mend=f"download it: hf download {spec.repo}"
                + (f" --revision {spec.revision}" if spec.revision else ""),
            )
        found = os.path.basename(snapshot)
        return Place(path=snapshot, commit=found, commit_via="" if commit else f"cache ref: {ref}")

    def look(self, spec: Spec, place: Place, version: str, given: Given) -> Observation:
        """One look at files, packages and this machine; the server is the one that the spec plans."""
        return observe(
            Request(
                stage=Stage.PREFLIGHT,
                engine=spec.engine,
                engine_version=version,
                include=spec.include,
                exclude=spec.exclude,
                repo=spec.repo,
                revision=spec.revision,
                commit=place.commit,
                python=self.python,
                checkpoint=place.path,
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
