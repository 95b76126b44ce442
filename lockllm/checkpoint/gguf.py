"""Reads the front of a GGUF file: metadata and tensor table, within bounds, long arrays skipped. No tensor is read."""

from __future__ import annotations

import math
import os
import re
import struct
from typing import Any

import msgspec

from lockllm.checkpoint.bounded import Malformed, open_regular, why
from lockllm.checkpoint.ggml import TYPES

_KEYS = 65_536
_TENSORS = 200_000
_KEPT = 64  # items of an array that are kept; longer ones become their length
_STRINGS = 3_000_000  # texts that are stepped over in all
_FRONT = 1_500_000_000  # bytes that metadata and table may take
_TEXT = 16 * 2**20
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_SIZES = {kind: struct.calcsize("<" + code) for kind, code in _SCALARS.items()}
_SPLIT = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf\Z")


class Array(msgspec.Struct, frozen=True):
    """A long array that was stepped over."""

    length: int


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata and tensor table of one file."""

    version: int
    metadata: dict[str, Any]  # scalars, texts, short lists; `Array` for long ones
    types: dict[str, tuple[int, int]]  # tensor type -> tensors, parameters
    tensors: int
    size: int
    need: int  # bytes that the tensor table asks for
    special: dict[str, str] = {}  # texts of the special tokens: `bos_token`, `eos_token`, ...
    twice: tuple[str, ...] = ()


def read(path: str) -> Front:
    """The front of a file. Malformed says what is wrong with it; a file shorter than its table says is `cut`."""
    try:
        descriptor = open_regular(path)
        try:
            return _front(_Stream(descriptor))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Malformed(why(error)) from error


def parts(name: str) -> tuple[str, ...]:
    """The names of all parts of a split that a file name belongs to; the name alone where it is no part."""
    found = _SPLIT.match(name)
    if not found or not 1 <= int(found["number"]) <= int(found["count"]) <= 9_999:
        return (name,)
    count = int(found["count"])
    return tuple(f"{found['stem']}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1))


def single(value: float) -> float:
    """A float32 as people wrote it: 0.6000000238418579 -> 0.6."""
    if not math.isfinite(value):
        return value
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        try:
            if struct.pack("f", short) == struct.pack("f", value):
                return short
        except OverflowError:
            continue
    return value


class _Stream:
    """A file read forward in large pieces, which never gives bytes that are not there."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self.order = "<"
        self.buffer = b""
        self.at = 0  # in the buffer
        self.start = 0  # of the buffer, in the file
        self.strings = 0

    @property
    def position(self) -> int:
        return self.start + self.at

    def need(self, count: int) -> int:
        """Makes `count` bytes available and gives their place in the buffer."""
        if len(self.buffer) - self.at < count:
            if self.position + count > min(self.size, _FRONT):
                raise Malformed(
                    "is cut inside its metadata" if self.position + count > self.size else "has endless metadata"
                )
            os.lseek(self.descriptor, self.position, os.SEEK_SET)
            self.start, self.at = self.position, 0
            wanted, pieces = max(count, 2**20), []
            while wanted > 0 and (piece := os.read(self.descriptor, wanted)):
                pieces.append(piece)
                wanted -= len(piece)
            self.buffer = b"".join(pieces)
            if len(self.buffer) < count:
                raise Malformed("is cut inside its metadata")
        at = self.at
        self.at += count
        return at

    def skip(self, count: int) -> None:
        if self.position + count > min(self.size, _FRONT):
            raise Malformed(f"says that {count:,} bytes follow, {self.size - self.position:,} do")
        if self.at + count <= len(self.buffer):
            self.at += count
        else:
            self.start, self.at, self.buffer = self.position + count, 0, b""

    def number(self, code: str) -> Any:
        at = self.need(struct.calcsize("<" + code))
        return struct.unpack_from(self.order + code, self.buffer, at)[0]

    def text(self, longest: int = _TEXT) -> str:
        length = self.number("Q")
        if length > longest:
            raise Malformed(f"says that a text has {length:,} bytes")
        at = self.need(length)
        return self.buffer[at : at + length].decode("utf-8", "replace")

    def skip_texts(self, count: int) -> None:
        self.strings += count
        if self.strings > _STRINGS or count * 8 > self.size - self.position:
            raise Malformed(f"says that {count:,} texts follow")
        unpack = struct.Struct(self.order + "Q").unpack_from
        while count:
            buffer, at, end = self.buffer, self.at, len(self.buffer) - 8
            while count and at <= end:
                length = unpack(buffer, at)[0]
                if at + 8 + length > end + 8:
                    break
                at += 8 + length
                count -= 1
            self.at = at
            if count:
                self.skip(self.number("Q"))
                count -= 1


def _front(stream: _Stream) -> Front:
    if stream.size < 24:
        raise Malformed(f"is cut: {stream.size} bytes hold no GGUF")
    at = stream.need(8)
    magic, version = stream.buffer[at : at + 4], stream.buffer[at + 4 : at + 8]
    if magic != b"GGUF":
        pointer = stream.buffer.startswith(b"version https://git-lfs")
        raise Malformed(
            "is a Git LFS pointer, not the weights" if pointer else "is no GGUF: its first bytes are others"
        )
    if version[0] == 0:
        stream.order = ">"
    number = struct.unpack(stream.order + "I", version)[0]
    if number not in {2, 3}:
        raise Malformed(f"is GGUF version {number}; 2 and 3 are read")
    tensors, keys = stream.number("Q"), stream.number("Q")
    if keys > _KEYS or tensors > _TENSORS:
        raise Malformed(f"says that it holds {keys:,} keys and {tensors:,} tensors")
    metadata, places, twice = _metadata(stream, keys)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
        raise Malformed(f"has an impossible alignment: {alignment!r}")
    types, end = _table(stream, tensors)
    start = -(-stream.position // alignment) * alignment
    need = start + end if tensors else stream.position
    if need > stream.size:
        raise Malformed(f"is cut: its tensors need {need:,} bytes, it has {stream.size:,}")
    special = _special(stream, metadata, places.get("tokenizer.ggml.tokens"))
    return Front(
        version=number,
        metadata=metadata,
        types=types,
        tensors=tensors,
        size=stream.size,
        need=need,
        special=special,
        twice=twice,
    )


def _metadata(stream: _Stream, keys: int) -> tuple[dict[str, Any], dict[str, tuple[int, int]], tuple[str, ...]]:
    metadata: dict[str, Any] = {}
    places: dict[str, tuple[int, int]] = {}  # arrays of texts: where their first item is, and how many there are
    twice = []
    kept = 0
    for _ in range(keys):
        name = stream.text(65_535)
        if name in metadata:
            twice.append(name)
        kind = stream.number("I")
        if kind == _ARRAY:
            items, length = stream.number("I"), stream.number("Q")
            places[name] = (stream.position, length) if items == _STRING else (0, 0)
            metadata[name] = _array(stream, items, length, 0)
        else:
            metadata[name] = value = _scalar(stream, kind)
            kept += len(value) if isinstance(value, str) else 8
            if kept > 2 * _TEXT:
                raise Malformed("holds more text than a model needs")
    return metadata, places, tuple(dict.fromkeys(twice))


def _scalar(stream: _Stream, kind: int) -> Any:
    if kind == _STRING:
        return stream.text()
    code = _SCALARS.get(kind)
    if code is None:
        raise Malformed(f"holds a value of an unknown type ({kind})")
    value = stream.number(code)
    if kind == _BOOL:
        return bool(value)
    return single(value) if code == "f" else value


def _array(stream: _Stream, items: int, length: int, depth: int) -> Any:
    if depth > 2:
        raise Malformed("nests lists too deep")
    if items == _STRING:
        if length <= _KEPT:
            return [stream.text(65_535) for _ in range(length)]
        stream.skip_texts(length)
    elif items == _ARRAY:
        if length > _KEPT:
            raise Malformed(f"says that {length:,} lists follow")
        return [_array(stream, stream.number("I"), stream.number("Q"), depth + 1) for _ in range(length)]
    elif items in _SIZES:
        if length <= _KEPT:
            return [_scalar(stream, items) for _ in range(length)]
        stream.skip(length * _SIZES[items])
    else:
        raise Malformed(f"holds a list of an unknown type ({items})")
    return Array(length)


def _table(stream: _Stream, tensors: int) -> tuple[dict[str, tuple[int, int]], int]:
    types: dict[str, tuple[int, int]] = {}
    end = 0
    for _ in range(tensors):
        name = stream.text(65_535)
        dimensions = stream.number("I")
        if dimensions > 8:
            raise Malformed(f"gives {name[:80]!r} {dimensions} dimensions")
        parameters = math.prod(stream.number("Q") for _ in range(dimensions))
        kind, offset = stream.number("I"), stream.number("Q")
        label, block, size = TYPES.get(kind, (f"type {kind}", 1, 0))
        if parameters >= 2**63 or parameters % block:
            raise Malformed(f"gives {name[:80]!r} an impossible shape")
        count, total = types.get(label, (0, 0))
        types[label] = (count + 1, total + parameters)
        end = max(end, offset + parameters // block * size)
    return types, end


def _special(stream: _Stream, metadata: dict[str, Any], place: tuple[int, int] | None) -> dict[str, str]:
    names = {
        "bos": "bos_token",
        "eos": "eos_token",
        "unknown": "unk_token",
        "seperator": "sep_token",
        "padding": "pad_token",
    }
    ids = {label: metadata.get(f"tokenizer.ggml.{name}_token_id") for name, label in names.items()}
    wanted = {number for number in ids.values() if isinstance(number, int)}
    if not place or not place[0] or not wanted:
        return {}
    stream.start, stream.at, stream.buffer = place[0], 0, b""
    found: dict[int, str] = {}
    at = 0
    for number in sorted(wanted):
        if number >= place[1]:
            break
        stream.skip_texts(number - at)
        found[number] = stream.text(65_535)
        at = number + 1
    return {label: found[number] for label, number in ids.items() if number in found}
