"""Reads the header of a safetensors file: names, dtypes, shapes, and whether it is true to the file's size. Nothing is unpickled."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable

import msgspec

from lockllm.checkpoint.bounded import Malformed, open_regular, parse, why

LONGEST = 100_000_000
"""The format's own limit of a header (safetensors 0.8)."""
_READ = 25_000_000  # what is read here: a header of 200,000 tensors
_VALUES = 3_000_000
_TENSORS = 200_000
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
_FIELDS = (b'"dtype"', b'"shape"', b'"data_offsets"')


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """One tensor as the header names it; offsets count from the end of the header."""

    dtype: str = ""
    shape: list[int] = []
    data_offsets: tuple[int, int] = (-1, -1)

    @property
    def parameters(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """A whole header. `twice`: names that stand more than once, where readers silently keep the last."""

    tensors: dict[str, Tensor]
    size: int  # of the file
    twice: tuple[str, ...] = ()


def read(path: str) -> Header:
    """The header of a file. Malformed says what is wrong with it."""
    try:
        descriptor = open_regular(path)
        try:
            size = os.fstat(descriptor).st_size
            prefix = os.read(descriptor, 8)
            length = _length(prefix, size)
            raw = _exactly(descriptor, length)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Malformed(why(error)) from error
    return _header(raw, size)


def dtypes(headers: Iterable[Header]) -> dict[str, int]:
    """Parameters of each dtype over several files."""
    counts: dict[str, int] = {}
    for header in headers:
        for tensor in header.tensors.values():
            counts[tensor.dtype] = counts.get(tensor.dtype, 0) + tensor.parameters
    return counts


def _length(prefix: bytes, size: int) -> int:
    if len(prefix) < 8:
        raise Malformed(f"is cut: {size} bytes hold no header")
    if prefix.startswith(b"version "):
        raise Malformed("is a Git LFS pointer, not the weights")
    length = int.from_bytes(prefix, "little")
    if length > LONGEST:
        raise Malformed(f"says that its header has {length:,} bytes; the format allows {LONGEST:,}")
    if 8 + length > size:
        raise Malformed(f"is cut: its header alone has {length:,} bytes, the file {size:,}")
    if length > _READ:
        raise Malformed(f"has a header of {length:,} bytes; {_READ:,} are read")
    return length


def _exactly(descriptor: int, length: int) -> bytes:
    parts = []
    while length > 0:
        part = os.read(descriptor, min(length, 2**20))
        if not part:
            raise Malformed("is cut inside its header")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _header(raw: bytes, size: int) -> Header:
    if not raw.startswith(b"{"):
        raise Malformed("has a header that is no JSON object")
    if sum(map(raw.count, (b",", b"[", b"{", b":"))) > _VALUES or raw.count(b"{") > _TENSORS:
        raise Malformed("has a header of too many values")
    try:
        tensors = _tensors(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(f"has a header that is none ({_short(error)})") from error
    header = Header(tensors=tensors, size=size, twice=_twice(raw, len(tensors)))
    _tiles(header, size - 8 - len(raw))
    return header


def _tensors(raw: bytes) -> dict[str, Tensor]:
    try:
        tensors = msgspec.json.decode(raw, type=dict[str, Tensor])  # reads `__metadata__` as a tensor without fields
    except msgspec.ValidationError:
        found = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        found.pop("__metadata__", None)
        return {name: msgspec.json.decode(value, type=Tensor) for name, value in found.items()}
    tensors.pop("__metadata__", None)
    return tensors


def _short(error: Exception) -> str:
    text = re.sub(r"\s+", " ", str(error))
    return text if len(text) <= 120 else text[:117] + "..."


def _twice(raw: bytes, tensors: int) -> tuple[str, ...]:
    if b"\\" not in raw and all(raw.count(field) == tensors for field in _FIELDS):
        return ()
    if len(raw) > 4_000_000:
        return ()
    return parse(raw)[1]


def _tiles(header: Header, room: int) -> None:
    at = 0
    for name, tensor in sorted(header.tensors.items(), key=lambda item: item[1].data_offsets):
        begin, end = tensor.data_offsets
        bits = _BITS.get(tensor.dtype)
        if bits is None:
            raise Malformed(f"holds {_name(name)} of dtype {tensor.dtype[:20]!r}, which the format does not know")
        if len(tensor.shape) > 64 or any(not 0 <= side < 2**63 for side in tensor.shape):
            raise Malformed(f"holds {_name(name)} of an impossible shape")
        if begin != at or end < begin:
            raise Malformed(f"has a hole or an overlap before {_name(name)}")
        if (end - begin) * 8 != tensor.parameters * bits:
            raise Malformed(f"gives {_name(name)} {end - begin:,} bytes, its shape and dtype need another number")
        at = end
    if at != room:
        kind = "cut" if at > room else "too long"
        raise Malformed(f"is {kind}: its tensors need {at:,} bytes, it holds {room:,}")


def _name(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:77] + "...")
