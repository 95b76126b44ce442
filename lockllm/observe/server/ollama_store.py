"""Ollama's store of models: which tag names the weights that a runner loads, and what else the tag's layers hold."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.safe import files

_BLOB = re.compile(r"sha256[-:]([0-9a-f]{64})\Z")
_KIND = "application/vnd.ollama.image."
_MOST_MANIFESTS = 5_000
_MOST_BYTES = 4 << 20
_MOST_HASHED = 256 << 20  # larger layers are weights: they are hashed as files of the checkpoint
_SHOWN = 6


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of a manifest, or its configuration."""

    kind: str  # model, template, params …; config
    digest: str  # hex, as the manifest names it
    size: int | None = None
    name: str = ""  # of a tensor or file, where the model is stored in parts


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest: the name that people give the model, and its layers."""

    name: str  # registry.ollama.ai/library/qwen2.5:7b
    digest: str  # sha256 of the manifest's own bytes
    layers: tuple[Layer, ...]
    config: Layer | None = None

    @property
    def model(self) -> str:
        """The digest of the weights; empty where they are stored in parts."""
        return next((layer.digest for layer in self.layers if layer.kind == "model"), "")


Item = Reading | Unobserved | Check


def readings(blob: Path, shown: str, *, edition: int = 2, loaded: str = "") -> Iterator[Item]:
    """What the store says of the model whose weights are that blob. `shown`: the blob's path as the server has it.

    `loaded`: the digest of the manifest that the server says it has loaded; it tells models apart that share weights.
    `edition`: of the lock; those of edition 1 name the manifest, and no layer.
    """
    found = _BLOB.search(blob.name)
    if found is None or blob.parent.name != "blobs":
        return
    models = blob.parent.parent
    tags = [tag for tag in manifests(models / "manifests") if tag.model == found.group(1)]
    where = ("checkpoint", "manifest_sha256")
    if not tags:
        yield Unobserved(where, f"no manifest names the weights {shown}", "see OLLAMA_MODELS of the server")
        return
    tags = [tag for tag in tags if tag.digest == loaded] or tags
    if len({tag.digest for tag in tags}) > 1:
        names = ", ".join(sorted(tag.name for tag in tags)[:5])
        yield Unobserved(where, f"several models share these weights: {names}", "keep one, or ask GET /api/ps")
        return
    tag = sorted(tags, key=lambda each: each.name)[0]
    yield seen(where, tag.digest, f"manifest of {tag.name}", By.FILE)
    repo, _, revision = tag.name.rpartition(":")
    yield seen("checkpoint.repo", repo.removeprefix("registry.ollama.ai/").removeprefix("hf.co/"), "manifest", By.FILE)
    yield seen("checkpoint.revision", revision, "manifest", By.FILE)
    if edition >= 2:
        yield from _held(models, tag)
    yield from _layers(models, tag, edition)


def manifests(folder: Path) -> Iterator[Tag]:
    """Every manifest of a store: HOST/NAMESPACE/MODEL/TAG."""
    for count, path in enumerate(sorted(_files(folder))):
        if count >= _MOST_MANIFESTS:
            return
        raw = _read(path)
        try:
            value = json.loads(raw)
            layers = tuple(_layer(each) for each in value["layers"])
            config = _layer(value["config"]) if isinstance(value.get("config"), dict) else None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        *names, tag = path.relative_to(folder).parts
        digest = hashlib.sha256(raw).hexdigest()
        config = msgspec.structs.replace(config, kind="config") if config is not None else None
        yield Tag(name=f"{'/'.join(names)}:{tag}", digest=digest, layers=layers, config=config)


def _held(models: Path, tag: Tag) -> Iterator[Item]:
    """Every layer with the digest of its bytes, and whether its name matches."""
    wrong: list[str] = []
    licenses: list[str] = []
    every = (*tag.layers, *((tag.config,) if tag.config is not None else ()))
    for key, layer in _named(every):
        source = f"layer {key} of {tag.name}"
        computed, problem = _digest(models / "blobs" / f"sha256-{layer.digest}", layer)
        if problem:
            wrong.append(f"{key}: {problem}")
        if layer.kind == "license":
            licenses.append(computed or layer.digest)
        elif computed is not None:
            yield seen(("checkpoint", "layers", key), computed, source, By.FILE)
        elif problem:
            yield Unobserved(("checkpoint", "layers", key), problem, f"ollama pull {_short(tag.name)}")
        else:
            yield seen(("checkpoint", "layers", key), layer.digest, source, By.FILE, "claimed")
    if licenses:
        whole = licenses[0] if len(licenses) == 1 else hashlib.sha256("\n".join(licenses).encode()).hexdigest()
        yield seen("checkpoint.license_sha256", whole, f"license of {tag.name}", By.FILE)
    source, name = f"manifest of {tag.name}", "check.layers_whole"
    if wrong:
        fix = f"remove the damaged blobs, then: ollama pull {_short(tag.name)}"
        yield Check(name, CheckStatus.FAIL, "; ".join(wrong[:_SHOWN]), source, fix)
    else:
        yield Check(name, CheckStatus.PASS, f"{len(every)} layers match their names", source)


def _named(layers: Iterable[Layer]) -> Iterator[tuple[str, Layer]]:
    """Each layer with a unique key: its kind, or its name among parts, with a number for repetitions."""
    count: Counter[str] = Counter()
    for layer in layers:
        key = layer.name or layer.kind
        count[key] += 1
        yield (key if count[key] == 1 else f"{key}-{count[key]}"), layer


def _digest(path: Path, layer: Layer) -> tuple[str | None, str]:
    """The digest of a layer's bytes, and what is wrong with it; None where it is too large to read here."""
    try:
        with files.opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if layer.size is not None and size != layer.size:
                problem = f"{size:,} bytes exist, but the manifest says {layer.size:,}"
            else:
                problem = ""
            if size > _MOST_HASHED:
                return None, problem
            held = hashlib.sha256()
            while block := file.read(1 << 20):
                held.update(block)
    except OSError as error:
        return None, f"its blob cannot be read: {(error.strerror or str(error)).lower()}"
    if not problem and held.hexdigest() != layer.digest:
        problem = "its bytes do not match its name"
    return held.hexdigest(), problem


def _short(name: str) -> str:
    """A model's name as `ollama` takes it."""
    return name.removeprefix("registry.ollama.ai/").removeprefix("library/")


def _layers(models: Path, tag: Tag, edition: int) -> Iterator[Reading]:
    """What the layers set: the texts and parameters of a Modelfile, under the names that a Modelfile uses."""
    config = _configuration(models, tag) if edition >= 2 else {}
    for name in ("renderer", "parser"):
        if isinstance(config.get(name), str) and config[name]:
            yield seen(("serve", "args", name), config[name], f"configuration of {tag.name}", By.FILE)
    for layer in tag.layers:
        if layer.kind not in ("template", "prompt", "params", "system"):
            continue
        raw = _read(models / "blobs" / f"sha256-{layer.digest}")
        source = f"{layer.kind} layer of {tag.name}"
        if layer.kind == "params":
            yield from _parameters(raw, source, edition)
        elif layer.kind == "system":
            if edition >= 2:
                yield seen(("serve", "args", "system"), hashlib.sha256(raw).hexdigest(), source, By.FILE)
        elif layer.kind == "template" or edition >= 2:
            if not config.get("renderer"):
                yield seen("chat_template.sha256", hashlib.sha256(raw).hexdigest(), source, By.FILE)


def _configuration(models: Path, tag: Tag) -> Mapping[str, Any]:
    if tag.config is None:
        return {}
    try:
        value = json.loads(_read(models / "blobs" / f"sha256-{tag.config.digest}"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _parameters(raw: bytes, source: str, edition: int) -> Iterator[Reading]:
    """The model's own defaults. The OpenAI routes send temperature and top_p themselves, so these two are native alone."""
    from lockllm.engines.ollama.options import parameter

    try:
        values: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return
    for name, value in values.items() if isinstance(values, dict) else ():
        path = parameter(str(name))
        if path[0] == "sampling" or edition >= 2:
            yield seen(path, value, source, By.FILE)


def _layer(value: Any) -> Layer:
    found, size, name = _BLOB.search(value["digest"]), value.get("size"), value.get("name")
    return Layer(
        kind=str(value["mediaType"]).removeprefix(_KIND),
        digest=found.group(1) if found else "",
        size=size if isinstance(size, int) else None,
        name=name if isinstance(name, str) else "",
    )


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield Path(parent) / name


def _read(path: Path) -> bytes:
    try:
        return files.start(path, _MOST_BYTES)
    except OSError:
        return b""
