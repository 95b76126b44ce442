"""What the weight files themselves say: whole or cut, in the index or not, of which dtypes, quantized or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from lockllm.checkpoint import gguf, modules, safetensors
from lockllm.checkpoint.bounded import Malformed
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry
from lockllm.checkpoint.ggml import FILE_TYPES, GUESSED, UNQUANTIZED, main_type

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F6_E2M3": "float6_e2m3", "F6_E3M2": "float6_e3m2", "F4": "float4_e2m1",
    "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32", "I64": "int64",
    "U64": "uint64", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip
_FLOATS = ("float64", "float32", "float16", "bfloat16")
_NARROW = ("float8", "float6", "float4")
_PACKED = re.compile(r"\.(qweight|weight_packed|weight_scale|weight_scale_inv|qzeros)\Z|_blocks\Z")
_NUMBERED = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<end>\.(?:safetensors|bin|gguf))\Z")
_TENSORS = 400_000  # of all files: the largest checkpoints have half as many, and each takes 400 bytes of memory
_AGAIN = "download the checkpoint again"
# Methods whose weights are stored packed.
_STORED = frozenset({"gptq", "awq", "mxfp4", "modelopt", "exl2", "exl3", "aqlm"})


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What the headers of all weight files say together."""

    dtypes: Mapping[str, int] = {}  # canonical dtype, or GGUF type -> parameters
    packed: tuple[str, ...] = ()  # tensors that are quantized by their name or dtype
    metadata: Mapping[str, Any] = {}  # of the GGUF that counts
    special: Mapping[str, str] = {}
    read: int = 0  # files whose header was read


Judge = Callable[[Mapping[str, safetensors.Tensor], bool], None]
"""Holds all tensors against what the small files declare; the second value says whether all headers were read."""


def of_safetensors(
    files: Mapping[str, Entry], names: tuple[str, ...], index: Any, at: str, findings: Findings,
    judge: Judge | None = None,
) -> Weights:  # fmt: skip
    """Reads every header, and holds index and headers against each other, and the tensors against what is declared."""
    headers: dict[str, safetensors.Header] = {}
    tensors = 0
    for name in names:
        if tensors > _TENSORS:
            unreadable(name, f"comes after {_TENSORS:,} tensors of other files, and no more are read", findings)
            continue
        try:
            headers[name] = header = safetensors.read(files[name].real)
        except Malformed as error:
            unreadable(name, str(error), findings)
            continue
        tensors += len(header.tensors)
        if header.twice:
            findings.wrong("weights_readable", f"{name} names {header.twice[0]!r} twice", name, _AGAIN)
    if headers:
        findings.right("weights_readable", f"{len(headers)} headers are whole")
    shards(index, at, files, findings)
    if isinstance(index, dict) and isinstance(index.get("weight_map"), dict):
        _held_against(index["weight_map"], headers, names, at, findings)
    counts: dict[str, int] = {}
    packed: list[str] = []
    for header in headers.values():
        for name, tensor in header.tensors.items():
            dtype = _DTYPES[tensor.dtype]
            counts[dtype] = counts.get(dtype, 0) + tensor.parameters
            if len(packed) < 100 and (dtype.startswith(_NARROW) or _PACKED.search(name)):
                packed.append(name)
    merged = {name: each for header in headers.values() for name, each in header.tensors.items()}
    if findings.edition >= 2 and not packed and not set(counts) <= set(_FLOATS):
        found = modules.undeclared(modules.grouped(merged).values())
        packed += [found] if found else []
    if judge is not None:
        judge(merged, len(headers) == len(names))
    return Weights(dtypes=counts, packed=tuple(packed), read=len(headers))


def of_gguf(files: Mapping[str, Entry], names: tuple[str, ...], findings: Findings) -> Weights:
    """Reads the front of every part of one GGUF model."""
    fronts: dict[str, gguf.Front] = {}
    for name in names:
        try:
            fronts[name] = front = gguf.read(files[name].real)
        except Malformed as error:
            unreadable(name, str(error), findings)
            continue
        if front.twice:
            findings.wrong("weights_readable", f"{name} holds key {front.twice[0]!r} twice", name, _AGAIN)
    if not fronts:
        return Weights()
    findings.right("weights_readable", f"{len(fronts)} headers are whole")
    counts: dict[str, int] = {}
    for front in fronts.values():
        for kind, (_, parameters) in front.types.items():
            counts[kind] = counts.get(kind, 0) + parameters
    first = next((front for name, front in sorted(fronts.items()) if front.metadata.get("split.no", 0) == 0), None)
    if first is None:
        return Weights(dtypes=counts, read=len(fronts))
    _split(first, fronts, findings)
    _file_type(first.metadata, counts, findings)
    return Weights(dtypes=counts, metadata=first.metadata, special=first.special, read=len(fronts))


def shards(index: Any, at: str, files: Mapping[str, Entry], findings: Findings) -> None:
    """Whether every shard that the index, or the numbers in the names, ask for is there."""
    name = "files_complete"
    mapped = index.get("weight_map") if isinstance(index, dict) else None
    if index is not None and not isinstance(mapped, dict):
        findings.wrong("config_readable", f"{at} holds no weight_map", at, _AGAIN)
    wanted = {each for each in mapped.values() if isinstance(each, str)} if isinstance(mapped, dict) else set()
    for shard in sorted(wanted):
        if shard.startswith("/") or "\\" in shard or ".." in shard.split("/"):
            findings.wrong(name, f"{at} names {shard[:80]!r}, which is no file of the checkpoint", at, _AGAIN)
        elif shard not in files:
            findings.wrong(name, f"{shard} is missing, {at} names it", at, _AGAIN)
    for shard in sorted(_numbered(files) - wanted):
        findings.wrong(name, f"{shard} is missing by its number", shard, _AGAIN)


def dtype_declared(declared: Any, source: str, weights: Weights, method: str, findings: Findings) -> None:
    """Whether most of the unquantized weights are of the declared dtype."""
    floats = {dtype: count for dtype, count in weights.dtypes.items() if dtype in _FLOATS and count}
    if not floats or not isinstance(declared, str) or method != "none" or weights.packed:
        return
    most = max(floats, key=lambda dtype: floats[dtype])
    total = sum(weights.dtypes.values())
    shares = ", ".join(f"{count:,} {dtype}" for dtype, count in sorted(floats.items(), key=lambda item: -item[1]))
    if most == declared:
        findings.right("dtype_declared", f"{floats[most]:,} of {total:,} parameters are {declared}", source)
    else:
        fix = "set the engine's dtype flag, so that nothing depends on `auto`"
        findings.wrong("dtype_declared", f"{source} says {declared}, the tensors are {shares}", source, fix)


def quantization_declared(method: str, source: str, weights: Weights, findings: Findings) -> None:
    """Whether tensors are quantized if and only if a file says so."""
    if not weights.read:
        return
    if method == "none" and weights.packed:
        detail = f"no file declares a quantization, and {weights.packed[0]} is quantized"
        findings.wrong(
            "quantization_agrees", detail, source, "restore the quantization config that belongs to these weights"
        )
    plain = weights.dtypes and all(dtype in _FLOATS for dtype in weights.dtypes)
    if method in _STORED and plain and not weights.packed:
        detail = f"{source} declares {method}, and no tensor is quantized"
        findings.wrong("quantization_agrees", detail, source, "restore the weights that belong to this configuration")


def ordered(dtypes: Mapping[str, int]) -> list[str]:
    """The dtypes, that of most parameters first."""
    return sorted(dtypes, key=lambda dtype: (-dtypes[dtype], dtype))


def replaced(name: str, problem: str, findings: Findings, since: int = 1) -> None:
    """Notes a file in whose place something else lies."""
    fix = "run `git lfs pull`, or download the checkpoint again" if "LFS pointer" in problem else _AGAIN
    findings.wrong("no_pointer_files", f"{name} {problem}", name, fix, since=since)


def unreadable(name: str, problem: str, findings: Findings) -> None:
    """Notes a weight file whose header cannot be read, under the finding that it belongs to."""
    if "LFS pointer" in problem:
        replaced(name, problem, findings)
    else:
        findings.wrong("weights_readable", f"{name} {problem}", name, _AGAIN)


def models(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """GGUF files by model: the parts of a split belong together."""
    found: dict[str, list[str]] = {}
    for name in names:
        split = _NUMBERED.match(name)
        found.setdefault(split["stem"] if split else name, []).append(name)
    return {stem: tuple(files) for stem, files in found.items()}


def _held_against(
    mapped: Mapping[str, Any],
    headers: Mapping[str, safetensors.Header],
    names: tuple[str, ...],
    at: str,
    findings: Findings,
) -> None:
    name = "shards_indexed"
    wanted = {shard for shard in mapped.values() if isinstance(shard, str)}
    for extra in sorted(set(names) - wanted):
        detail = f"{extra} is not in {at}: some engines load it, others do not"
        findings.wrong(name, detail, extra, "remove the file, or restore the index that belongs to it")
    holders: dict[str, str] = {}
    for shard, header in headers.items():
        if shard not in wanted:
            continue
        for tensor in header.tensors:
            other = holders.setdefault(tensor, shard)
            if other != shard:
                findings.wrong(name, f"{tensor} stands in {other} and in {shard}", at, _AGAIN)
            elif mapped.get(tensor) != shard:
                findings.wrong(name, f"{shard} holds {tensor}, {at} does not say so", at, _AGAIN)
    for tensor, shard in mapped.items():
        if isinstance(shard, str) and shard in headers and tensor not in headers[shard].tensors:
            findings.wrong(name, f"{at} places {tensor} in {shard}, which does not hold it", at, _AGAIN)
    findings.right(name, f"{len(mapped):,} tensors in {len(wanted)} files, as {at} says", at)


def _numbered(files: Mapping[str, Entry]) -> set[str]:
    """Names that are missing from a numbered row of which at least one is there."""
    missing = set()
    rows = {(found["stem"], int(found["count"]), found["end"]) for name in files if (found := _NUMBERED.match(name))}
    for stem, count, end in rows:
        if count <= 9_999:
            missing |= {f"{stem}-{number:05}-of-{count:05}{end}" for number in range(1, count + 1)} - set(files)
    return missing


def _split(first: gguf.Front, fronts: Mapping[str, gguf.Front], findings: Findings) -> None:
    count, total = first.metadata.get("split.count", 1), first.metadata.get("split.tensors.count")
    if not isinstance(count, int) or count <= 1:
        return
    held = sum(front.tensors for front in fronts.values())
    if count != len(fronts):
        findings.wrong("files_complete", f"the first part says {count} parts, {len(fronts)} can be read", "", _AGAIN)
    elif isinstance(total, int) and total != held:
        findings.wrong("shards_indexed", f"the first part says {total:,} tensors, all parts hold {held:,}", "", _AGAIN)
    else:
        findings.right("shards_indexed", f"{held:,} tensors in {count} parts, as the first part says")


def _file_type(metadata: Mapping[str, Any], types: Mapping[str, int], findings: Findings) -> None:
    number = metadata.get("general.file_type")
    label = FILE_TYPES.get(number & ~GUESSED) if isinstance(number, int) else None
    if label is None or not types:
        return
    meant = main_type(label)
    shares = ", ".join(f"{count:,} {kind}" for kind, count in sorted(types.items(), key=lambda item: -item[1]))
    if meant in types or (label in UNQUANTIZED and set(types) <= set(UNQUANTIZED)):
        findings.right("file_type", f"{label}: {shares}", "gguf: general.file_type")
    else:
        detail = f"general.file_type says {label}, the tensors are {shares}"
        findings.wrong("file_type", detail, "gguf: general.file_type", "trust the tensors, not the label")
