"""One look at a checkpoint: readings, findings and the raw texts that the prompt room resolves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.checkpoint import bounded, config, declared, generation, quantization, reading, weights
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry
from lockllm.checkpoint.hashing import Progress
from lockllm.checkpoint.layout import Found, Layout, find
from lockllm.checkpoint.lying import lying
from lockllm.checkpoint.reading import Cache, Hashing, SeenFile
from lockllm.checkpoint.selection import INDEX, OTHER, TOKENIZER, WEIGHTS, Selection, role, select
from lockllm.errors import UsageError
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Check, Reading, Unobserved
from lockllm.facts.registry import seen

_TEXTS = frozenset({
    "config.json", "params.json", "generation_config.json", "hf_quant_config.json", "quantize_config.json",
    "quant_config.json",
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json",
    "processor_config.json",
    "preprocessor_config.json", "video_preprocessor_config.json", "adapter_config.json", "added_tokens.json",
})  # fmt: skip
_TEXT_LIMIT = 16 * 2**20
_NOT_READ = "was not fetched from the Hub: it does not reach inference"
_NO_HEADER = "the headers of weight files are not fetched from the Hub"
_DOWNLOAD = "download the checkpoint, then run `lockllm lock`"
_DECLARED = (
    "architecture", "dtype", "max_position_embeddings", "rope_type", "rope_theta", "rope_factor", "tie_word_embeddings",
    "original_max_position_embeddings", "sliding_window", "stop_token_ids",
)  # fmt: skip


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one look gave. `texts`: bytes of small files by logical path; `gguf`: its metadata without long arrays."""

    layout: Layout
    readings: tuple[Reading, ...] = ()
    checks: tuple[Check, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    complete: frozenset[Path] = frozenset()
    files: tuple[SeenFile, ...] = ()
    excluded: Mapping[str, str] = {}  # logical path -> why it does not reach inference
    content_sha256: str | None = None
    format: str = ""
    texts: Mapping[str, bytes] = {}
    gguf: Mapping[str, Any] = {}
    special_tokens: Mapping[str, str] = {}  # of a GGUF: `bos_token` and the like, as texts
    dtypes: Mapping[str, int] = {}  # dtype or GGUF type of the tensors -> parameters
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Logical paths of all files that are there, kept or excluded."""
        return tuple(sorted({*(file.path for file in self.files), *self.excluded, *self.texts}))

    def read(self, name: str) -> bytes | None:
        """The bytes of a small file that was read, or None."""
        return self.texts.get(name)


Digested = tuple[list[SeenFile], list[Unobserved], str]
"""Files with their digests, those that could not be read, and why no digest is kept (empty where one is)."""


class _Documents(msgspec.Struct, kw_only=True):
    """Texts and what they parse to. `broken`: names that are no JSON object, with the reason."""

    texts: dict[str, bytes]
    parsed: dict[str, dict[str, Any]]
    broken: dict[str, str]


def look(
    path: str, *, engine: str | None = None, engine_version: str | None = None, include: Sequence[str] = (),
    exclude: Sequence[str] = (), hashing: Hashing = "full", cache: Cache = "off", blake3: bool = False,
    pairs: Mapping[str, tuple[str, str]] | None = None, weights: str | None = None, revision: str | None = None,
    progress: Progress | None = None, transformers_major: int = 5,
) -> Look:  # fmt: skip
    """All that the files at a path say: a directory, an HF cache snapshot or repository folder, or a GGUF file.

    Raises UsageError where nothing lies there. `include` (globs over paths) replaces the engine's own rule of what reaches
    inference, `exclude` takes away, `weights` names the format that is loaded where several lie in the folder. `pairs`:
    path -> sha256 and BLAKE3 of the same bytes, as a lock holds them: large files are then read by BLAKE3 alone. Findings
    and what cannot be read are data.
    """
    found = find(path, revision)
    files = found.listing.files
    selection = select(
        (entry.path for entry in found.listing.entries if entry.kind != "folder_link"), engine=engine, include=include,
        exclude=exclude, weights=weights,
    )  # fmt: skip
    refuse_others(path, selection)

    def digest(findings: Findings) -> Digested:
        task = reading.Task(
            root=found.layout.root, given=found.layout.given, files=files, roles=selection.kept,
            claims=reading.claims(files, found.place), hashing=hashing, cache=cache, blake3=blake3, pairs=pairs or {},
        )  # fmt: skip
        return reading.digest(task, progress, findings)

    return survey(found, selection, digest, hashing=hashing, transformers_major=transformers_major)


def survey(
    found: Found, selection: Selection, digest: Callable[[Findings], Digested], *, hashing: Hashing = "full",
    transformers_major: int = 5,
) -> Look:  # fmt: skip
    """The look at files that are found and sorted already; `digest` gives those that reach inference with their digests."""
    findings = Findings()
    lost = list(lying(found, selection, findings))
    documents = _documents(found.listing.files, findings)
    said = _said(found, selection, documents, findings, transformers_major)
    held, failed, why_not_kept = digest(findings)
    complete = {("checkpoint", "generation_config"), ("quantization",), ("adapter",)}
    readings = [*_place(found, selection), *said.readings, *(each for each in lost if isinstance(each, Reading))]
    unobserved = [*said.unobserved, *(each for each in lost if isinstance(each, Unobserved)), *failed]
    whole: Reading | None = None
    if hashing != "none":
        readings += reading.readings(held)
        if not unobserved or not any(each.path[:2] == ("checkpoint", "files") for each in unobserved):
            whole = reading.content(held, ("checkpoint", "content_sha256"), "sha256 over all files")
        tokens = [file for file in held if file.role == TOKENIZER]
        readings += [
            each
            for each in (whole, reading.content(tokens, ("tokenizer", "content_sha256"), "sha256 over its files"))
            if each
        ]
        if not found.listing.cut:
            complete |= {("checkpoint", "files"), ("checkpoint", "blake3")}
    return Look(
        layout=found.layout, readings=tuple(readings), checks=findings.checks(), unobserved=tuple(unobserved),
        complete=frozenset(complete), files=tuple(held), excluded=selection.excluded, texts=documents.texts,
        content_sha256=whole.value if whole else None, format=selection.format, gguf=_gguf(said.weights),
        special_tokens=said.weights.special, dtypes=said.weights.dtypes,
        warnings=(f"no digest is kept: {why_not_kept}",) if why_not_kept else (),
    )  # fmt: skip


def _gguf(held: weights.Weights) -> dict[str, Any]:
    return {**held.metadata, **{f"tokenizer.ggml.{name}": text for name, text in held.special.items()}}


class _Said(msgspec.Struct, kw_only=True):
    """What configuration and weight headers say."""

    readings: list[Reading]
    unobserved: list[Unobserved]
    weights: weights.Weights


def is_read(name: str) -> bool:
    """Whether the content of a file says something, besides having a digest."""
    template = name.startswith("additional_chat_templates/") and name.endswith(".jinja")
    return name in _TEXTS or template or (role(name) == INDEX and "/" not in name)


def refuse_others(path: str, selection: Selection) -> None:
    """Raises UsageError where what lies there is no language model."""
    names = {*selection.kept, *selection.excluded}
    if "model_index.json" in names and "config.json" not in names:
        what = f"{path} is a diffusers pipeline, not a language model"
        raise UsageError(what, where=path, mend="name the folder of a language model")
    if not any(role(name) != OTHER for name in names):
        what = f"no checkpoint in {path}: no config.json, no weights, no tokenizer" if names else f"{path} is empty"
        raise UsageError(what, where=path, mend="name a directory, an HF cache snapshot or a .gguf file")


def _documents(files: Mapping[str, Entry], findings: Findings) -> _Documents:
    made = _Documents(texts={}, parsed={}, broken={})
    for name, entry in files.items():
        if not is_read(name):
            continue
        if not entry.real:
            made.broken[name] = _NOT_READ
            continue
        try:
            limit = bounded.SMALL if role(name) == INDEX else _TEXT_LIMIT
            raw = bounded.read_small(entry.real, limit)
            if role(name) != INDEX:
                made.texts[name] = raw
            if name.endswith(".json"):
                made.parsed[name], twice = bounded.parse_object(raw)
                if twice:
                    detail = f"{name} holds key {twice[0][:80]!r} twice: readers keep the last one"
                    findings.wrong("config_readable", detail, name, "remove one of them")
        except bounded.Malformed as error:
            made.broken[name] = str(error)
            pointer = made.texts.get(name, b"").startswith(b"version https://git-lfs")
            problem = "is a Git LFS pointer, not the content" if pointer else str(error)
            if pointer:
                weights.unreadable(name, problem, findings)
            else:
                findings.wrong("config_readable", f"{name} {problem}", name, "download the file again")
    if made.parsed:
        findings.right("config_readable", f"{len(made.parsed)} files are whole")
    return made


def _said(found: Found, selection: Selection, documents: _Documents, findings: Findings, major: int) -> _Said:
    files = found.listing.files
    if selection.format == "gguf":
        return _of_gguf(files, selection, findings)
    said = _Said(readings=[], unobserved=[], weights=weights.Weights())
    parsed = documents.parsed
    of_format = {"tensorrt-llm": config.of_engine_config}.get(selection.format, config.of_config)
    source = "params.json" if selection.format == "mistral" else config.CONFIG
    if source in documents.broken:
        said.unobserved += [
            Unobserved(("checkpoint", name), f"{source} {documents.broken[source]}") for name in _DECLARED
        ]
        said.unobserved.append(Unobserved(("quantization",), f"{source} {documents.broken[source]}"))
    elif selection.format == "peft":
        said.readings += declared.adapter(parsed.get(declared.ADAPTER_CONFIG, {}), findings)
        said.readings += quantization.readings([])
    elif source == "params.json":
        said.readings += config.of_params(parsed.get(source, {}))
        said.readings += quantization.readings(quantization.declarations({source: parsed.get(source, {})}))
        said.readings.append(generation.stops({}, parsed.get(generation.GENERATION)))
    else:
        said.readings += of_format(parsed.get(source, {}))
        said.readings += _generation(parsed, documents.broken, findings, major, said)
        places = quantization.declarations(parsed)
        said.readings += quantization.readings(places)
        findings.add(quantization.agree(places))
        said.readings += declared.tokenizer(parsed.get(declared.TOKENIZER_CONFIG, {}))
        said.readings += declared.code(parsed, frozenset(files), findings)
    said.weights = _of_weights(files, selection, parsed, findings)
    if said.weights.dtypes:
        dtypes = weights.ordered(said.weights.dtypes)
        said.readings.append(seen("checkpoint.tensor_dtypes", dtypes, "headers of the weight files", By.FILE))
    elif any(not files[name].real for name in selection.role(WEIGHTS) if name in files):
        said.unobserved.append(Unobserved(("checkpoint", "tensor_dtypes"), _NO_HEADER, _DOWNLOAD))
    _compare(said, findings)
    return said


def _generation(
    parsed: Mapping[str, dict[str, Any]], broken: Mapping[str, str], findings: Findings, major: int, said: _Said
) -> Iterator[Reading]:
    held, own = parsed.get(config.CONFIG, {}), parsed.get(generation.GENERATION)
    if generation.GENERATION in broken:
        reason = f"{generation.GENERATION} {broken[generation.GENERATION]}"
        paths = (("checkpoint", "generation_config"), ("checkpoint", "stop_token_ids"))
        said.unobserved += [Unobserved(path, reason) for path in paths]
        return
    yield from generation.declared(held, own)
    yield generation.stops(held, own)
    findings.add(generation.stops_agree(held, own))
    findings.add(generation.placed(held, own, major))
    findings.add(config.rope_understood(held, major))


def _of_gguf(files: Mapping[str, Entry], selection: Selection, findings: Findings) -> _Said:
    names = selection.role(WEIGHTS)
    groups = weights.models(names)
    said = _Said(readings=[], unobserved=[], weights=weights.Weights())
    if len(groups) > 1:
        reason = f"{len(groups)} GGUF models lie here"
        said.unobserved += [Unobserved(("checkpoint", name), reason, "name one of the files") for name in _DECLARED]
        said.unobserved.append(Unobserved(("quantization",), reason, "name one of the files"))
        findings.wrong(
            "one_weight_set", f"{reason}: {', '.join(sorted(groups)[:4])}", "", "name the file that is served"
        )
        return said
    weights.shards(None, "", files, findings)
    there = tuple(name for name in names if name in files and files[name].real)
    said.weights = weights.of_gguf(files, there, findings)
    metadata = said.weights.metadata
    if not metadata:
        reason, mend = ("the GGUF cannot be read", "") if there or not names else (_NO_HEADER, _DOWNLOAD)
        said.unobserved += [Unobserved(("checkpoint", name), reason, mend) for name in _DECLARED]
        said.unobserved.append(Unobserved(("quantization",), reason, mend))
        return said
    for part in (config.of_gguf, generation.of_gguf, quantization.of_gguf, declared.gguf_tokenizer):
        said.readings += part(metadata)
    dtypes = weights.ordered(said.weights.dtypes)
    said.readings.append(seen("checkpoint.tensor_dtypes", dtypes, "tensor table of the GGUF", By.FILE))
    return said


def _of_weights(
    files: Mapping[str, Entry], selection: Selection, parsed: Mapping[str, dict[str, Any]], findings: Findings
) -> weights.Weights:
    kept = selection.role(WEIGHTS, "adapter")
    names = tuple(name for name in kept if name.endswith(".safetensors") and "/" not in name and name in files)
    names = tuple(name for name in names if files[name].real)
    index = next((name for name in selection.role(INDEX) if name in parsed and "/" not in name), "")
    if names:
        return weights.of_safetensors(files, names, parsed.get(index), index, findings)
    weights.shards(parsed.get(index), index, files, findings)
    return weights.Weights()


def _compare(said: _Said, findings: Findings) -> None:
    """Holds what is declared against what the tensors are."""
    method = next((each for each in said.readings if each.fact.path == ("quantization", "method")), None)
    dtype = next((each for each in said.readings if each.fact.path == ("checkpoint", "dtype")), None)
    if method is None:
        return
    if dtype is not None:
        weights.dtype_declared(dtype.value, dtype.source, said.weights, method.value, findings)
    weights.quantization_declared(method.value, method.source, said.weights, findings)


def _place(found: Found, selection: Selection) -> Iterator[Reading]:
    layout = found.layout
    yield seen("checkpoint.format", selection.format or ABSENT, "names of the files", By.FILE)
    if layout.repo is not None:
        yield seen("checkpoint.repo", layout.repo, layout.source, By.FILE)
    if layout.revision is not None:
        yield seen("checkpoint.revision", layout.revision, "refs/ of the cache", By.FILE)
    if layout.commit is not None:
        yield seen("checkpoint.commit", layout.commit, layout.source, By.FILE)
