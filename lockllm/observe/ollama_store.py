"""Ollama's store of models: which tag names the weights that a runner loads, and what else the tag's layers hold."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe import opening

_BLOB = re.compile(r"sha256[-:]([0-9a-f]{64})\Z")
_KIND = "application/vnd.ollama.image."
_MOST_MANIFESTS = 5_000
_MOST_BYTES = 4 << 20


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest: the name that people give the model, and its layers by kind."""

    name: str  # registry.ollama.ai/library/qwen2.5:7b
    digest: str  # sha256 of the manifest's own bytes
    layers: tuple[tuple[str, str], ...]  # kind (model, template, params …), hex digest


def readings(blob: Path, shown: str) -> Iterator[Reading | Unobserved]:
    """What the store says of the model whose weights are that blob. `shown`: the blob's path as the server has it."""
    found = _BLOB.search(blob.name)
    if found is None or blob.parent.name != "blobs":
        return
    models = blob.parent.parent
    tags = [tag for tag in manifests(models / "manifests") if ("model", found.group(1)) in tag.layers]
    where = ("checkpoint", "manifest_sha256")
    if not tags:
        yield Unobserved(where, f"no manifest names the weights {shown}", "see OLLAMA_MODELS of the server")
        return
    if len({tag.digest for tag in tags}) > 1:
        names = ", ".join(sorted(tag.name for tag in tags)[:5])
        yield Unobserved(where, f"several models share these weights: {names}", "keep one, or ask GET /api/ps")
        return
    tag = sorted(tags, key=lambda each: each.name)[0]
    yield seen(where, tag.digest, f"manifest of {tag.name}", By.FILE)
    repo, _, revision = tag.name.rpartition(":")
    yield seen("checkpoint.repo", repo.removeprefix("registry.ollama.ai/").removeprefix("hf.co/"), "manifest", By.FILE)
    yield seen("checkpoint.revision", revision, "manifest", By.FILE)
    yield from _layers(models, tag)


def manifests(folder: Path) -> Iterator[Tag]:
    """Every manifest of a store: HOST/NAMESPACE/MODEL/TAG."""
    for count, path in enumerate(sorted(_files(folder))):
        if count >= _MOST_MANIFESTS:
            return
        raw = _read(path)
        try:
            value = json.loads(raw)
            layers = tuple(_layer(each) for each in value["layers"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        *names, tag = path.relative_to(folder).parts
        yield Tag(name=f"{'/'.join(names)}:{tag}", digest=hashlib.sha256(raw).hexdigest(), layers=layers)


def _layers(models: Path, tag: Tag) -> Iterator[Reading]:
    for kind, digest in tag.layers:
        if kind not in ("template", "params"):
            continue
        raw = _read(models / "blobs" / f"sha256-{digest}")
        if kind == "template":
            yield seen(
                "chat_template.sha256", hashlib.sha256(raw).hexdigest(), f"template layer of {tag.name}", By.FILE
            )
        else:
            yield from _parameters(raw, f"params layer of {tag.name}")


def _parameters(raw: bytes, source: str) -> Iterator[Reading]:
    """The model's own defaults. The OpenAI routes send temperature and top_p themselves, so these two are native alone."""
    from lockllm.engines.ollama.options import PARAMETERS

    try:
        values: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return
    for name, value in values.items() if isinstance(values, dict) else ():
        key = PARAMETERS.get(str(name))
        if key in ("sampling.temperature", "sampling.top_p"):
            key = key.replace("sampling.", "sampling.native.")
        if key is not None and key.startswith("sampling."):
            yield seen(key, value, source, By.FILE)


def _layer(value: Any) -> tuple[str, str]:
    found = _BLOB.search(value["digest"])
    return str(value["mediaType"]).removeprefix(_KIND), found.group(1) if found else ""


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield Path(parent) / name


def _read(path: Path) -> bytes:
    try:
        return opening.start(path, _MOST_BYTES)
    except OSError:
        return b""
