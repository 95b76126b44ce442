"""What a server itself says that it serves: the model, the version of its weights, and adapters beside it.

Each engine says in `serves` where its answers name what it serves. SGLang 0.5.23 (run; `/model_info`, `/server_info`):
`model_path` follows `/update_weights_from_disk`, `weight_version` follows that and `/update_weight_version`; it begins as
`--weight-version` gives it, `default` where nothing does. vLLM 0.32.0 (run; `/v1/models`): `root` is the model as it was typed,
an adapter's entry has a `parent`, adapters of `--lora-modules` are listed too. llama.cpp b11549 (run): `/props` has
`model_path` as typed, `/lora-adapters` each adapter with its path. TGI 3.3.7 (read): `/info` has `model_id`. LMDeploy 0.18
(read, `serve/openai/endpoints`): `/v1/models` lists `--model-name` or the model as typed, and the adapters, by `id`.
TensorRT-LLM 1.2 (read, `serve/openai_server.py`): one `id`, the served name or the last component of a folder's path.
transformers 5.24.0 (run): the model as typed with the status `loaded`. llama-cpp-python 0.3.36 (run): the alias or the path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.engines.protocol import Answer, Engine

DEFAULT_VERSION = "default"
"""The version of weights that nobody named and that nothing replaced."""
_MOST = 1_000
_LONGEST = 4_096

_LISTING = "/v1/models"


class Shows(msgspec.Struct, frozen=True, kw_only=True):
    """Where the answers of an engine name what it serves: `serves` of its module."""

    models: Mapping[str, str] = {}  # answer -> the key that names the model in force
    versions: tuple[str, ...] = ()  # answers whose `weight_version` is that of the weights
    roots: bool = False  # rows of /v1/models have a `root`, and those of adapters a `parent`
    ids: bool = False  # rows of /v1/models name by `id`: the model as typed or renamed, and its adapters
    loaded: bool = False  # of those rows only the ones with the status `loaded`
    shortened: bool = False  # a folder is named by the last component of its path
    adapters: str = ""  # the answer that lists adapters by their paths
    lists_all: bool = False  # whether every adapter of the command is listed


class Named(msgspec.Struct, frozen=True):
    """One thing that an answer names, and where."""

    text: str
    source: str


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers of one server name. Empty where they name nothing."""

    models: tuple[Named, ...] = ()  # the same model by several answers
    versions: tuple[Named, ...] = ()  # of its weights
    ids: tuple[Named, ...] = ()  # names that requests use, of the model and of its adapters
    adapters: Mapping[str, Named] = {}  # by the name that requests use; the text is where it was loaded from
    lists_all: bool = False  # whether an adapter of the command line would be listed
    shortened: bool = False


def read(engine: Engine, answers: Sequence[Answer]) -> Served:
    """What these answers say of the model in force."""
    shows: Shows = getattr(engine, "serves", Shows())
    models: list[Named] = []
    versions: list[Named] = []
    ids: list[Named] = []
    adapters: dict[str, Named] = {}
    listed = False
    for answer in answers:
        path = answer.probe.path
        if answer.status != 200:
            continue
        if path == shows.adapters and isinstance(answer.json, list):
            listed = True
            adapters |= _by_path(answer)
        if not isinstance(answer.json, dict):
            continue
        models += _texts(answer, shows.models[path]) if path in shows.models else ()
        versions += _texts(answer, "weight_version") if path in shows.versions else ()
        if path == _LISTING and (shows.roots or shows.ids):
            rows = [row for row in _rows(answer.json) if not shows.loaded or _status(row) == "loaded"]
            listed = listed or bool(rows)
            if shows.ids:
                ids += [Named(row["id"], f"{answer.source}: id") for row in rows if _is_text(row.get("id"))]
                continue
            models += [each for row in rows if not row.get("parent") for each in _root(row, answer)][:1]
            adapters |= {
                row["id"]: Named(next(iter(_root(row, answer)), Named("", "")).text, f"{answer.source}: root")
                for row in rows
                if row.get("parent") and isinstance(row.get("id"), str)
            }
    return Served(
        models=tuple(models), versions=tuple(versions), ids=tuple(ids), adapters=adapters,
        lists_all=listed and shows.lists_all, shortened=shows.shortened,
    )  # fmt: skip


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) < _LONGEST


def _texts(answer: Answer, key: str) -> Iterator[Named]:
    value = answer.json.get(key)
    if _is_text(value):
        yield Named(value, f"{answer.source}: {key}")


def _root(row: Mapping[str, Any], answer: Answer) -> Iterator[Named]:
    root = row.get("root")
    if isinstance(root, str) and _is_text(root):
        yield Named(root, f"{answer.source}: root")


def _by_path(answer: Answer) -> dict[str, Named]:
    """Adapters by the names that llama.cpp's command line gives them: of their files, numbered where two are alike."""
    adapters: dict[str, Named] = {}
    for row in answer.json[:_MOST]:
        path = row.get("path") if isinstance(row, dict) else None
        if not isinstance(path, str) or not _is_text(path):
            continue
        stem = name = path.rsplit("/", 1)[-1].removesuffix(".gguf") or "adapter"
        number = 2
        while name in adapters:
            name, number = f"{stem}-{number}", number + 1
        adapters[name] = Named(path, f"{answer.source}: path")
    return adapters


def _status(row: Mapping[str, Any]) -> object:
    status = row.get("status")
    return status.get("value") if isinstance(status, dict) else None


def _rows(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    data = body.get("data")
    if isinstance(data, list):
        yield from (row for row in data[:_MOST] if isinstance(row, dict))
