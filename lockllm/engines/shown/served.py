"""What a server itself says that it serves: the model, the version of its weights, and adapters beside it.

SGLang 0.5.23 (run; `/model_info`, `/server_info`): `model_path` follows `/update_weights_from_disk`, `weight_version` follows
that and `/update_weight_version`; it begins as `--weight-version` gives it, `default` where nothing does. vLLM 0.32.0 (run;
`/v1/models`): `root` is the model as it was typed, an adapter's entry has a `parent`, adapters of `--lora-modules` stand there
too. llama.cpp b11549 (run; `/props`): `model_path` as typed. TGI 3.3 (read; `/info`): `model_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.engines import Answer

DEFAULT_VERSION = "default"
"""The version of weights that nobody named and that nothing replaced."""
_MOST = 1_000
_LONGEST = 4_096

_MODEL_KEYS: Mapping[str, Mapping[str, str]] = {
    "sglang": {
        "/model_info": "model_path", "/get_model_info": "model_path",
        "/server_info": "model_path", "/get_server_info": "model_path",
    },
    "llama.cpp": {"/props": "model_path"},
    "tgi": {"/info": "model_id"},
}  # fmt: skip
"""Engine -> path -> the key that names the model in force."""
_LISTING = ("vllm", "sglang")
"""Engines whose /v1/models names the root of each model, and the parent of an adapter."""
_LISTS_ALL = ("vllm",)
"""Those that list there what their command loads, too."""


class Named(msgspec.Struct, frozen=True):
    """One thing that an answer names, and where."""

    text: str
    source: str


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers of one server name. Empty where they name nothing."""

    models: tuple[Named, ...] = ()  # the same model by several answers
    versions: tuple[Named, ...] = ()  # of its weights
    adapters: Mapping[str, Named] = {}  # by the name that requests use; the text is where it was loaded from
    lists_all: bool = False  # whether an adapter of the command line would stand there


def read(engine: str, answers: Sequence[Answer]) -> Served:
    """What these answers say of the model in force."""
    models: list[Named] = []
    versions: list[Named] = []
    adapters: dict[str, Named] = {}
    listed = False
    keys = _MODEL_KEYS.get(engine, {})
    for answer in answers:
        if answer.status != 200 or not isinstance(answer.json, dict):
            continue
        key = keys.get(answer.probe.path)
        models += _texts(answer, key) if key is not None else ()
        versions += _texts(answer, "weight_version") if key is not None and engine == "sglang" else ()
        if answer.probe.path == "/v1/models" and engine in _LISTING:
            rows = list(_rows(answer.json))
            listed = bool(rows)
            models += [each for row in rows if not row.get("parent") for each in _root(row, answer)][:1]
            adapters |= {
                row["id"]: Named(next(iter(_root(row, answer)), Named("", "")).text, f"{answer.source}: root")
                for row in rows
                if row.get("parent") and isinstance(row.get("id"), str)
            }
    return Served(
        models=tuple(models), versions=tuple(versions), adapters=adapters,
        lists_all=listed and engine in _LISTS_ALL,
    )  # fmt: skip


def _texts(answer: Answer, key: str) -> Iterator[Named]:
    value = answer.json.get(key)
    if isinstance(value, str) and 0 < len(value) < _LONGEST:
        yield Named(value, f"{answer.source}: {key}")


def _root(row: Mapping[str, Any], answer: Answer) -> Iterator[Named]:
    root = row.get("root")
    if isinstance(root, str) and 0 < len(root) < _LONGEST:
        yield Named(root, f"{answer.source}: root")


def _rows(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    data = body.get("data")
    if isinstance(data, list):
        yield from (row for row in data[:_MOST] if isinstance(row, dict))
