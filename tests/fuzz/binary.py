"""The readers of binary files under any bytes: what is run, what it starts from, and how it is spoiled with the format in mind."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from lockllm.checkpoint import gguf, look, safetensors
from lockllm.checkpoint.bounded import Malformed
from tests.abuse.material import told

HERE = Path(__file__).parent
SMALL = HERE.parent / "checkpoint" / "data" / "configs"
NUMBERS = (0, 1, 2, 7, 8, 9, 12, 31, 63, 64, 65, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
KEYS = (
    "general.alignment", "general.architecture", "general.file_type", "general.quantization_version", "split.count", "split.no",
    "split.tensors.count", "tokenizer.chat_template", "tokenizer.ggml.tokens", "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.model", "tokenizer.ggml.pre", "llama.context_length",
    "llama.rope.freq_base", "llama.rope.scaling.type", "llama.expert_count", "tokenizer.ggml.token_type", "a" * 70_000, "",
)  # fmt: skip
LEAVES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2**31, 2**53, 2**63, 2**64, 10**30, 1.5, 1e308, "", "F32", "BF16", "F4", "F99", "\x00", "\ud800", [], {},
    [0, 0], [0, 8], [8, 0], [-1, 1], [2**62, 2**62], [0] * 65, {"dtype": "F32"}, {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
)  # fmt: skip


@lru_cache
def _folder() -> str:
    """A folder in memory, where this machine has one: a case is one file in it."""
    made = tempfile.mkdtemp(prefix="lockllm-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def read_gguf(raw: bytes) -> None:
    """A GGUF is read or refused, and so is the checkpoint that it is."""
    _under(raw, "a.gguf", gguf.read, "llama.cpp")


def read_safetensors(raw: bytes) -> None:
    """The header of a safetensors file is read or refused, and so is the file as a checkpoint."""
    _under(raw, "a.safetensors", lambda path: safetensors.dtypes([safetensors.read(path)]), "vllm")


def _under(raw: bytes, name: str, read: Callable[[str], object], engine: str) -> None:
    folder = _folder()
    path = os.path.join(folder, name)
    Path(path).write_bytes(raw)
    try:
        with contextlib.suppress(Malformed):
            read(path)
        if zlib.crc32(raw) % 4 == 0:  # the whole look takes ten times as long as the header
            told(look(path if name.endswith("gguf") else folder, engine=engine, cache="off"))
    finally:
        os.unlink(path)


def spoil_bytes(raw: bytes, random: Random) -> bytes:
    """Bytes with numbers, runs and ends spoiled, mostly where a format's lengths stand."""
    made = bytearray(raw)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        at = random.randrange(max(1, min(len(made), random.choice((40, 400, 4000)))))
        how = random.randrange(7)
        if how == 0:
            made[at : at + 1] = bytes([random.randrange(256)])
        elif how == 1:
            made[at : at + 8] = struct.pack("<Q", random.choice(NUMBERS))
        elif how == 2:
            made[at : at + 4] = struct.pack("<I", random.choice(NUMBERS) % 2**32)
        elif how == 3:
            del made[at : at + random.randrange(1, 40)]
        elif how == 4:
            made[at:at] = made[at : at + random.randrange(1, 200)] * random.choice((1, 2, 50))
        elif how == 5:
            made[at:at] = random.choice(KEYS).encode()
        elif random.random() < 0.3:
            del made[random.randrange(len(made) + 1) :]
    return bytes(made)


def spoil_gguf(raw: bytes, random: Random) -> bytes:
    """A GGUF spoiled in its bytes, or one that is built of parts that fit but should not stand together."""
    return built(random) if random.random() < 0.4 else spoil_bytes(raw, random)


def built(random: Random) -> bytes:
    """A GGUF of a well-formed kind with odd values and counts."""
    order = random.choice("<<<>")
    keys, tensors = random.randrange(6), random.randrange(4)
    body = b"".join(
        _text(random.choice(KEYS), order) + _value(random, order, random.randrange(14), 0) for _ in range(keys)
    )
    for number in range(tensors):
        sides = [random.choice((1, 32, 256, *NUMBERS)) for _ in range(random.choice((0, 1, 2, 3, 4, 9)))]
        body += _text(random.choice((f"t{number}", "token_embd.weight", "\x1b", "x" * 70_000)), order)
        body += struct.pack(
            f"{order}I{len(sides)}QIQ", len(sides), *sides, random.randrange(45), random.choice(NUMBERS)
        )
    counts = [random.choice(NUMBERS) if random.random() < 0.1 else each for each in (tensors, keys)]
    version = random.choice((3, 3, 3, 2, 1, 0, 4))
    return b"GGUF" + struct.pack(f"{order}IQQ", version, *counts) + body + bytes(random.choice((0, 31, 64, 9000)))


def _text(value: str, order: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return struct.pack(f"{order}Q", len(raw)) + raw


def _value(random: Random, order: str, kind: int, depth: int) -> bytes:
    return struct.pack(f"{order}I", kind) + _bare(random, order, kind, depth)


def _bare(random: Random, order: str, kind: int, depth: int) -> bytes:
    code = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}.get(kind)
    if kind == 8:
        return _text(random.choice((*KEYS, "{{ messages }}", "\ud800", "\x00\x1b[31m", "gpt2", "llama")), order)
    if kind == 9:
        items, length = random.randrange(14) if depth < 4 else 0, random.choice((0, 1, 3, 64, 65, 300, *NUMBERS))
        there = b"".join(_bare(random, order, items, depth + 1) for _ in range(min(length, 70 if depth == 0 else 3)))
        return struct.pack(f"{order}IQ", items, length) + there
    if code is None:
        return b""
    if code in "fd":
        return struct.pack(order + code, random.choice((0.0, -1.5, 1e30, float("nan"), float("inf"))))
    size = struct.calcsize("<" + code) * 8
    number = random.choice(NUMBERS) % 2**size
    return struct.pack(order + code, number - 2**size if code.islower() and number >= 2 ** (size - 1) else number)


def spoil_safetensors(raw: bytes, random: Random) -> bytes:
    """A safetensors file spoiled in its bytes, or in its header's JSON with the length made right."""
    length = int.from_bytes(raw[:8], "little")
    if random.random() < 0.3 or not 0 < length <= len(raw) - 8:
        return spoil_bytes(raw, random)
    try:
        header = json.loads(raw[8 : 8 + length])
    except (ValueError, RecursionError):
        return spoil_bytes(raw, random)
    for _ in range(random.choice((1, 1, 2, 4))):
        header = _put(header, random)
    text = json.dumps(header).encode()
    if random.random() < 0.3:
        text = spoil_bytes(text, random)
    data = raw[8 + length :] if random.random() < 0.7 else bytes(random.choice((0, 1, 8, 10, 500)))
    return struct.pack("<Q", len(text)) + text + data


def _put(value: Any, random: Random) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(list(value))
        other = random.choice((key, key, key, "__metadata__", "dtype", "shape", "data_offsets", "\x1b[31m", key + "x"))
        return {**value, other: _put(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        return [*value[:at], _put(value[at], random), *value[at + 1 :]]
    return random.choice(LEAVES)


class Target:
    """One reader: what runs, where it starts and how its input is spoiled."""

    def __init__(
        self, run: Callable[[bytes], None], spoil: Callable[[bytes, Random], bytes], starts: list[Path | bytes]
    ) -> None:
        self.run = run
        self.spoil = spoil
        self.starts = starts

    @property
    def corpus(self) -> list[bytes]:
        """What fuzzing starts from: real small files, and every file that once was a bug or a new path."""
        return [each if isinstance(each, bytes) else each.read_bytes() for each in self.starts]


TARGETS = {
    "gguf": Target(
        read_gguf, spoil_gguf, [*sorted(SMALL.glob("gguf-*/*.gguf")), *sorted((HERE / "corpus/gguf").glob("*"))]
    ),
    "safetensors": Target(
        read_safetensors,
        spoil_safetensors,
        [*sorted(SMALL.glob("dtype-*/*.safetensors")), *sorted((HERE / "corpus/safetensors").glob("*"))],
    ),
}
