"""Models and code of other repositories, each pinned to a commit: tokenizer, draft, adapters, remote code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec

from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.engines import Given, Model
from lockllm.errors import SpecError
from lockllm.facts import keys
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Reading
from lockllm.facts.registry import seen
from lockllm.resolve import named_files
from lockllm.resolve.plan import planned
from lockllm.resolve.remote.hub_errors import Asked
from lockllm.resolve.sources import Options

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_CODE: Path = ("checkpoint", "code_repo")
_CODE_COMMIT: Path = ("checkpoint", "code_commit")
_REVISIONS = {"tokenizer": "tokenizer_revision", "code": "code_revision"}


class Commits(Protocol):
    """Resolves a revision to its commit."""

    def commit(self, asked: Asked) -> tuple[str, str]:
        """The commit, and how it is known."""


def planned_server(spec: Spec, old: Lock | None, options: Options, world: Commits) -> Given:
    """The planned server with its other repositories, each at the commit that is locked or that its revision is now."""
    models = {prefix: _model(spec, prefix, old, options, world) for prefix in _prefixes(spec)}
    models |= {prefix: _local(spec, prefix) for prefix in spec.paths}
    return msgspec.structs.replace(
        planned(spec), tokenizer=models.pop(("tokenizer",), None), draft=models.pop(("draft",), None),
        adapters={prefix[1]: model for prefix, model in models.items()},
    )  # fmt: skip


def code_commit(
    spec: Spec, files: Iterable[Reading], old: Lock | None, options: Options, world: Commits
) -> Iterator[Reading]:
    """The commit of the one repository that `auto_map` takes code from."""
    repo = next((each.value for each in files if each.fact.path == _CODE), None)
    if not isinstance(repo, str) or not _REPO.match(repo):
        return
    held = old.values.get(_CODE_COMMIT) if old is not None and old.values.get(_CODE) == repo else None
    if isinstance(held, str) and not options.renews(_CODE_COMMIT):
        yield seen(_CODE_COMMIT, held, (old.via.get(_CODE_COMMIT, "") if old else "") or "Hub", By.FILE)
        return
    where = f"auto_map of {spec.repo or spec.path}"
    commit, via = world.commit(Asked(repo=repo, revision=_revision(spec, "code"), where=where))
    yield seen(_CODE_COMMIT, commit, via or spec.name, By.FILE)


def _prefixes(spec: Spec) -> list[Path]:
    held = [path[:-1] for path, value in spec.values.items() if path[-1] == "repo" and _names_repo(value)]
    return [path for path in held if path in (("tokenizer",), ("draft",)) or (path[0] == "adapters" and len(path) == 2)]


def _names_repo(value: Any) -> bool:
    return isinstance(value, str) and bool(_REPO.match(value))


def _model(spec: Spec, prefix: Path, old: Lock | None, options: Options, world: Commits) -> Model:
    repo_key: Path = (*prefix, "repo")
    at: Path = (*prefix, "commit")
    repo = str(spec.values[repo_key])
    commit: Any = spec.values.get(at)
    if commit is None and old is not None and old.values.get(repo_key) == repo and not options.renews(at):
        commit = old.values.get(at)
    via = old.via.get(at, "") if old is not None else ""
    if commit is None:
        where = spec.where(keys.dotted(repo_key))
        commit, via = world.commit(Asked(repo=repo, revision=_revision(spec, prefix[0]), where=where))
    return Model(text=repo, source=via or spec.name, revision=str(commit))


def _local(spec: Spec, prefix: Path) -> Model:
    """A folder or file beside the spec. Raises SpecError where it is not there."""
    key = keys.dotted((*prefix, "path"))
    place = named_files.place(spec, spec.paths[prefix])
    if not named_files.is_there(place):
        fix = "name a directory or a .gguf file, relative to the spec"
        raise SpecError(f"{key} names {spec.paths[prefix]}, which is not there", where=spec.where(key), fix=fix)
    return Model(text=place, source=spec.name)


def _revision(spec: Spec, what: str) -> str | None:
    """The revision that an option of the engine gives, as the spec keeps it."""
    name = _REVISIONS.get(what)
    value = spec.values.get(("serve", "args", name)) if name else None
    return value if isinstance(value, str) else None
