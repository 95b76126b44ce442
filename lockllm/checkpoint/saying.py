"""What the small files and the headers of the weights say: documents parsed once, read by format, held against each other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.checkpoint import (
    adapters,
    bounded,
    config,
    declared,
    generation,
    modules,
    placeholders,
    projectors,
    quantization,
    safetensors,
    tying,
    weights,
)
from lockllm.checkpoint import cache as digests
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry
from lockllm.checkpoint.layout import Found
from lockllm.checkpoint.selection import BUILT, INDEX, PROJECTOR, WEIGHTS, Selection, role
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen

_TEXTS = frozenset({
    "config.json", "params.json", "generation_config.json", "hf_quant_config.json", "quantize_config.json",
    "quant_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
    "chat_template.json", "processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json",
    "adapter_config.json", "added_tokens.json",
})  # fmt: skip
_DECLARING = (
    "config.json", "params.json", "hf_quant_config.json", "quantize_config.json", "quant_config.json", "adapter_config.json",
)  # fmt: skip
_TEXT_LIMIT = 16 * 2**20
_ALL_TEXTS = 64 * 2**20  # of one checkpoint, held until its prompt is made
_NOT_READ = "was not fetched from the Hub: it does not reach inference"
_NO_HEADER = "the headers of weight files are not fetched from the Hub"
_DOWNLOAD = "download the checkpoint, then run `lockllm lock`"
_DECLARED = (
    "architecture", "dtype", "max_position_embeddings", "rope_type", "rope_theta", "rope_factor", "tie_word_embeddings",
    "original_max_position_embeddings", "sliding_window", "stop_token_ids",
)  # fmt: skip


class Documents(msgspec.Struct, kw_only=True):
    """Texts and what they parse to. `broken`: names that are no JSON object, with the reason."""

    texts: dict[str, bytes]
    parsed: dict[str, dict[str, Any]]
    broken: dict[str, str]


class Said(msgspec.Struct, kw_only=True):
    """What configuration and weight headers say."""

    readings: list[Reading]
    unobserved: list[Unobserved]
    weights: weights.Weights


def is_read(name: str) -> bool:
    """Whether the content of a file says something, besides having a digest."""
    template = name.startswith("additional_chat_templates/") and name.endswith(".jinja")
    return name in _TEXTS or template or ("/" not in name and role(name) == INDEX)


def documents(files: Mapping[str, Entry], findings: Findings) -> Documents:
    """Reads and parses every small file whose content says something."""
    made = Documents(texts={}, parsed={}, broken={})
    left = _ALL_TEXTS
    for name, entry in sorted(files.items(), key=lambda each: "/" in each[0]):  # folders of templates last
        if not is_read(name):
            continue
        if not entry.real:
            made.broken[name] = _NOT_READ
            continue
        try:
            if left <= 0:
                raise bounded.Malformed("is not read: the small files before it hold too much")
            limit = bounded.SMALL if role(name) == INDEX else min(_TEXT_LIMIT, left)
            raw = bounded.read_small(entry.real, limit)
            replaced = placeholders.problem(name, role(name), raw[: placeholders.HEAD], len(raw))
            if replaced and (findings.edition >= 2 or ("LFS pointer" in replaced and name.endswith(".json"))):
                made.broken[name] = replaced
                weights.replaced(name, replaced, findings)
                continue
            if role(name) != INDEX:
                made.texts[name] = raw
                left -= len(raw)
            if name.endswith(".json"):
                made.parsed[name], twice = bounded.parse_object(raw)
                if twice:
                    detail = f"{name} holds key {twice[0][:80]!r} twice: readers keep the last one"
                    findings.wrong("config_readable", detail, name, "remove one of them")
        except bounded.Malformed as error:
            made.broken[name] = str(error)
            findings.wrong("config_readable", f"{name} {error}", name, "download the file again")
    if made.parsed:
        findings.right("config_readable", f"{len(made.parsed)} files are whole")
    return made


def say(
    found: Found, selection: Selection, documents: Documents, findings: Findings, major: int,
    memory: digests.Cache | None = None,
) -> Said:  # fmt: skip
    """What configuration and headers say. `memory`: what headers said earlier, believed while no file has moved."""
    files = found.listing.files
    if selection.format == "gguf":
        return _of_gguf(files, selection, parsed_kept(documents, selection), findings)
    said = Said(readings=[], unobserved=[], weights=weights.Weights())
    parsed = documents.parsed
    native = selection.format == "mistral" and ("params.json" in files or config.CONFIG not in files)
    source = "params.json" if native else config.CONFIG
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
        said.readings += quantization.readings(
            quantization.declarations({source: parsed.get(source, {})}, selection.edition)
        )
        said.readings.append(generation.stops({}, parsed.get(generation.GENERATION)))
    else:
        held = parsed.get(source, {})
        built = selection.format == BUILT
        said.readings += config.of_engine_config(held) if built else config.of_config(held, selection.edition)
        said.readings += _generation(parsed, documents.broken, findings, major, said)
        places = quantization.declarations(parsed, selection.edition)
        said.readings += quantization.readings(places)
        findings.add(quantization.agree(places, selection.edition))
        said.readings += declared.tokenizer(parsed.get(declared.TOKENIZER_CONFIG, {}))
        findings.add(declared.tokenizer_understood(parsed.get(declared.TOKENIZER_CONFIG, {}), major))
        for each in declared.code(parsed, frozenset(files), found.place.cache, findings):
            (said.readings if isinstance(each, Reading) else said.unobserved).append(each)  # type: ignore[arg-type]
    said.readings += declared.processors(parsed_kept(documents, selection))
    if selection.format == BUILT:
        _ranks(parsed.get(config.CONFIG, {}), selection, findings)
    said.weights = _of_weights(files, selection, parsed, findings, memory)
    if source == config.CONFIG and selection.format != "peft":
        tying.agree(parsed.get(config.CONFIG, {}), findings)
    if said.weights.dtypes:
        dtypes = weights.ordered(said.weights.dtypes)
        said.readings.append(seen("checkpoint.tensor_dtypes", dtypes, "headers of the weight files", By.FILE))
    elif any(not files[name].real for name in selection.role(WEIGHTS) if name in files):
        said.unobserved.append(Unobserved(("checkpoint", "tensor_dtypes"), _NO_HEADER, _DOWNLOAD))
    _compare(said, findings)
    return said


def _generation(
    parsed: Mapping[str, dict[str, Any]], broken: Mapping[str, str], findings: Findings, major: int, said: Said
) -> Iterator[Reading]:
    held, own = parsed.get(config.CONFIG, {}), parsed.get(generation.GENERATION)
    too_many = f"holds more than {generation.MOST:,} settings" if len(own or ()) > generation.MOST else ""
    if wrong := broken.get(generation.GENERATION, too_many):
        reason = f"{generation.GENERATION} {wrong}"
        paths = (("checkpoint", "generation_config"), ("checkpoint", "stop_token_ids"))
        said.unobserved += [Unobserved(path, reason) for path in paths]
        return
    yield from generation.declared(held, own)
    yield generation.stops(held, own)
    findings.add(generation.stops_agree(held, own))
    findings.add(generation.placed(held, own, major))
    findings.add(config.rope_understood(held, major))


def parsed_kept(documents: Documents, selection: Selection) -> dict[str, dict[str, Any]]:
    """The documents that reach inference: an engine may read nothing but the GGUF."""
    return {name: held for name, held in documents.parsed.items() if name in selection.kept}


def _of_gguf(
    files: Mapping[str, Entry], selection: Selection, parsed: Mapping[str, dict[str, Any]], findings: Findings
) -> Said:
    names = selection.role(WEIGHTS)
    groups = weights.models(names)
    said = Said(readings=[], unobserved=[], weights=weights.Weights())
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
        reason, fix = ("the GGUF cannot be read", "") if there or not names else (_NO_HEADER, _DOWNLOAD)
        said.unobserved += [Unobserved(("checkpoint", name), reason, fix) for name in _DECLARED]
        said.unobserved.append(Unobserved(("quantization",), reason, fix))
        return said
    for part in (config.of_gguf, config.gguf_keys, generation.of_gguf, quantization.of_gguf, declared.gguf_tokenizer):
        said.readings += part(metadata)
    beside = (parsed.get(config.CONFIG, {}), parsed.get(generation.GENERATION))
    findings.add(generation.gguf_agrees(metadata, *beside), since=2)
    projectors.judge(files, selection.role(PROJECTOR), metadata, findings)
    dtypes = weights.ordered(said.weights.dtypes)
    said.readings.append(seen("checkpoint.tensor_dtypes", dtypes, "tensor table of the GGUF", By.FILE))
    return said


def _of_weights(
    files: Mapping[str, Entry], selection: Selection, parsed: Mapping[str, dict[str, Any]], findings: Findings,
    memory: digests.Cache | None,
) -> weights.Weights:  # fmt: skip
    kept = selection.role(WEIGHTS, "adapter")
    names = tuple(name for name in kept if name.endswith(".safetensors") and "/" not in name and name in files)
    names = tuple(name for name in names if files[name].real)
    if selection.format != "mistral":  # a consolidated copy has tensors of other names, and belongs to no index
        names = tuple(name for name in names if not name.startswith("consolidated"))
    index = next((name for name in selection.role(INDEX) if name in parsed and "/" not in name), "")
    if not names:
        weights.shards(parsed.get(index), index, files, findings)
        return weights.Weights()
    key = None
    if memory is not None and memory.file is not None:
        beside = [name for name in (index, *_DECLARING) if name in files and files[name].real]
        paths = {name: files[name].real for name in (*names, *beside)}
        key = digests.headers_key(paths, time.time_ns())
        held = memory.headers
        if held is not None and held.key == key:
            for check, detail, source in held.right:
                findings.right(check, detail, source)
            return weights.Weights(dtypes=held.dtypes, packed=held.packed, read=held.read)
        key = digests.headers_key(paths, time.time_ns()) if digests.settled(memory, paths.values()) else None
    own = Findings(selection.edition)

    def judge(tensors: Mapping[str, safetensors.Tensor], whole: bool) -> None:
        _judge(tensors, whole, selection, parsed, own)

    found = weights.of_safetensors(files, names, parsed.get(index), index, own, judge)
    if memory is not None and key is not None and own.all_right:
        right = tuple((check.name.removeprefix("check."), check.detail, check.source) for check in own.checks())
        dtypes = dict(found.dtypes)
        memory.headers = digests.Headers(key=key, dtypes=dtypes, packed=found.packed[:1], read=found.read, right=right)
        memory.moved = True
    findings.take(own)
    return found


def _judge(
    tensors: Mapping[str, safetensors.Tensor], whole: bool, selection: Selection, parsed: Mapping[str, dict[str, Any]],
    findings: Findings,
) -> None:  # fmt: skip
    """Holds the tensors against every declaration of the small files."""
    if selection.format == "peft":
        adapters.ranks(parsed.get(declared.ADAPTER_CONFIG, {}), tensors, findings)
        return
    if selection.format == "mistral":
        return
    tying.held_against(parsed.get(config.CONFIG, {}), tensors, whole, findings)
    places = quantization.declarations(parsed)
    if places and places[0][0].method != "none":
        held, source = places[0]
        modules.judge(held, source, modules.grouped(tensors), whole, findings)
        modules.kv_scales(held, source, tensors, findings)


def _ranks(held: Mapping[str, Any], selection: Selection, findings: Findings) -> None:
    wanted = config.ranks(held) or 0
    for name in (f"rank{rank}.engine" for rank in range(wanted)):
        if name not in selection.kept:
            findings.wrong(
                "files_complete", f"{name} is missing, config.json asks for {wanted}", name, "build it again"
            )


def _compare(said: Said, findings: Findings) -> None:
    """Holds what is declared against what the tensors are."""
    method = next((each for each in said.readings if each.fact.path == ("quantization", "method")), None)
    dtype = next((each for each in said.readings if each.fact.path == ("checkpoint", "dtype")), None)
    if method is None:
        return
    if dtype is not None:
        weights.dtype_declared(dtype.value, dtype.source, said.weights, method.value, findings)
    weights.quantization_declared(method.value, method.source, said.weights, findings)
