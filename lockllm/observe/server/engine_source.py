"""The source of an installed engine as text, read file by file and only where no table of ours has its release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.engines import Engine, Installed
from lockllm.observe.python import distributions, packages
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files

_MOST_FILE = 1 << 20
_MOST = 6 << 20
"""Of all files together; those of the largest release read are 1.2 MB."""
_MOST_FILES = 400
_ENCODED = re.compile(r"(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*(?!utf-?8\b|ascii\b)[-\w.]", re.IGNORECASE)
_PATH = re.compile(r"(?:[A-Za-z_]\w*/)+[A-Za-z_]\w*\.py\Z")


class Texts(Mapping[str, str]):
    """The files of one package by their path below the folder that holds it (`vllm/engine/arg_utils.py`).

    A file is read when it is asked for. Anything irregular, too large, or not UTF-8 counts as absent.
    """

    def __init__(self, environment: Environment, package: str) -> None:
        found = environment.module(package)
        self._folder = found.parent if found is not None and files.is_folder(found) else None
        self._package = package
        self._held: dict[str, str | None] = {}
        self._read = 0

    @property
    def there(self) -> bool:
        """Whether the package is a folder that an import would find."""
        return self._folder is not None

    def __getitem__(self, name: str) -> str:
        if name not in self._held:
            self._held[name] = self._text(name) if len(self._held) < _MOST_FILES else None
        text = self._held[name]
        if text is None:
            raise KeyError(name)
        return text

    def __iter__(self) -> Iterator[str]:
        return (name for name, text in self._held.items() if text is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _text(self, name: str) -> str | None:
        if (
            self._folder is None
            or self._read > _MOST
            or not _PATH.match(name)
            or name.partition("/")[0] != self._package
        ):
            return None
        try:
            raw = files.start(self._folder / name, _MOST_FILE + 1)
            text = raw.decode("utf-8-sig")
        except (OSError, ValueError):
            return None
        self._read += len(raw)
        return text if len(raw) <= _MOST_FILE and not _ENCODED.match(text) else None


def installed(environment: Environment | None, engine: Engine | None) -> Installed | None:
    """The options of an engine's installed release, read from its source; None where a table has that release."""
    ask: Any = getattr(engine, "installed", None)
    if ask is None or engine is None or environment is None:
        return None
    version = packages.release(environment, engine)
    if version is None:
        return None
    texts = Texts(environment, engine.name)
    told: Installed | None = ask(version, texts)
    if told is None:
        return None
    if told.table is None:
        why = f"the source of {engine.name} {version} is not found ({environment.source})"
        return told if texts.there else Installed(version=version, problem=why)
    doubts = tuple(
        f"{name} is a plugin of {engine.name}, and may add options" for name in _plugins(environment, engine)
    )
    return msgspec.structs.replace(told, doubts=(*told.doubts, *doubts))


def _plugins(environment: Environment, engine: Engine) -> Iterator[str]:
    """Other distributions that extend an engine: their entry points name one of its groups."""
    own = frozenset(map(distributions.normal, engine.distributions))
    for name, one in environment.distributions.items():
        groups = (group for group, *_ in distributions.entry_points(one)) if name not in own else ()
        if any(group.startswith(f"{engine.name}.") for group in groups):
            yield name
