"""What a shared object asks of the loader: the libraries it needs and where to search. Only headers are read."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

import msgspec

from lockllm.observe.safe import files

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_MOST = 1 << 20


class Dynamic(msgspec.Struct, frozen=True, kw_only=True):
    """The dynamic section. `$ORIGIN` is not expanded in search paths."""

    needed: tuple[str, ...] = ()
    soname: str = ""
    rpath: tuple[str, ...] = ()  # before LD_LIBRARY_PATH; not read where there is a runpath
    runpath: tuple[str, ...] = ()  # after it


def dynamic(path: Path) -> Dynamic | None:
    """The dynamic section of a 64-bit little-endian object; None for anything else."""
    try:
        with files.opened(path) as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except (OSError, struct.error, ValueError):
        return None


def _read(file: BinaryIO, size: int) -> Dynamic | None:
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    table, each, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
    if each < 56 or count > 512:
        return None
    loads: list[tuple[int, int, int]] = []
    place: tuple[int, int] | None = None
    raw = _at(file, table, each * count, size)
    for at in range(0, each * count, each):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", raw, at)
        if kind == _LOAD:
            loads.append((address, offset, length))
        elif kind == _DYNAMIC:
            place = offset, length
    if place is None:
        return None
    entries = list(struct.iter_unpack("<qQ", _at(file, place[0], place[1] // 16 * 16, size)))
    strings = next((value for tag, value in entries if tag == _STRTAB), None)
    if strings is None:
        return None
    start = next((offset + strings - at for at, offset, length in loads if at <= strings < at + length), strings)
    texts = _at(file, start, min(_MOST, size - start), size)

    def named(tag: int) -> list[str]:
        return [_text(texts, value) for each, value in entries if each == tag]

    runpath = tuple(part for text in named(_RUNPATH) for part in text.split(":") if part)
    rpath = tuple(part for text in named(_RPATH) for part in text.split(":") if part)
    return Dynamic(
        needed=tuple(named(_NEEDED)),
        soname=next(iter(named(_SONAME)), ""),
        rpath=() if runpath else rpath,
        runpath=runpath,
    )


def _at(file: BinaryIO, offset: int, length: int, size: int) -> bytes:
    if not 0 <= offset <= size or not 0 <= length <= _MOST:
        raise ValueError("it lies outside the file")
    file.seek(offset)
    return file.read(length)


def _text(raw: bytes, start: int) -> str:
    if start >= len(raw):
        return ""
    return raw[start : raw.find(b"\0", start)].decode("utf-8", "replace")
