"""A checkpoint of two shards in the Hub's cache, and every kind of edit that a lock must notice, each with the files it touches."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4096\n"


@dataclass(frozen=True)
class Edit:
    """One edit of a snapshot: what a table calls it, how it is done, and the files of which one must be named."""

    kind: str
    do: Callable[[Path], None]
    files: tuple[str, ...]


def sharded(source: Path, folder: Path) -> Path:
    """The tiny checkpoint with its tensors in two shards and an index."""
    shutil.copytree(source, folder)
    raw = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    size = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    header.pop("__metadata__", None)
    placed: dict[str, str] = {}
    names = sorted(header)
    for number, shard in enumerate(SHARDS):
        mine = names[number::2]
        table, body = {}, b""
        for name in mine:
            start, end = header[name]["data_offsets"]
            table[name] = {**header[name], "data_offsets": [len(body), len(body) + end - start]}
            body += data[start:end]
            placed[name] = shard
        head = json.dumps(table).encode()
        (folder / shard).write_bytes(len(head).to_bytes(8, "little") + head + body)
    index = {"metadata": {"total_size": len(data)}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def edits(names: Sequence[str]) -> list[Edit]:
    """All of them, for a snapshot with these files. Each is for a fresh copy."""
    first, second = SHARDS
    return [
        *(Edit("one byte flipped", _flip(name), (name,)) for name in names),
        *(Edit("a file removed", _remove(name), (name,)) for name in names if name not in SHARDS),
        *(Edit("a shard removed", _remove(name), (name,)) for name in SHARDS),
        *(Edit("a blob removed, its link kept", _unblob(name), (name,)) for name in (first, "config.json")),
        *(
            Edit("a file added", _add(name, text), (name,))
            for name, text in (
                ("model-00003-of-00003.safetensors", "x"), ("extra.safetensors", "x"), ("added_tokens.json", '{"<x>": 3}'),
                ("modeling_tiny.py", "import os\n"), ("preprocessor_config.json", "{}"), ("quantize_config.json", '{"bits": 4}'),
            )
        ),
        Edit("two shards swapped", _swap(first, second), SHARDS),
        Edit("a link to another blob", _link("generation_config.json", "config.json"), ("generation_config.json",)),
        Edit("a link to other bytes elsewhere", _elsewhere("config.json", b"\n"), ("config.json",)),
        Edit("a link to the same bytes elsewhere", _elsewhere("config.json", b""), ("config.json",)),
        Edit("a pointer file instead of a shard", _pointer(second), (second,)),
        Edit("the template edited", _text("chat_template.jinja"), ("chat_template.jinja",)),
        Edit("another template beside it", _key("tokenizer_config.json"), ("tokenizer_config.json",)),
        *(
            Edit("another template beside it", _add(name, text), (name,))
            for name, text in (
                ("chat_template.json", '{"chat_template": "{{ messages }}"}'),
                ("additional_chat_templates/tool_use.jinja", "{{ tools }}"),
                ("processor_config.json", '{"chat_template": "{{ messages }}"}'),
            )
        ),
    ]  # fmt: skip


def _flip(name: str) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        path = (snapshot / name).resolve()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    return do


def _remove(name: str) -> Callable[[Path], None]:
    return lambda snapshot: (snapshot / name).unlink()


def _unblob(name: str) -> Callable[[Path], None]:
    return lambda snapshot: (snapshot / name).resolve().unlink()


def _add(name: str, text: str) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        path = snapshot / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    return do


def _swap(one: str, other: str) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        (snapshot / one).rename(snapshot / "held")
        (snapshot / other).rename(snapshot / one)
        (snapshot / "held").rename(snapshot / other)

    return do


def _link(name: str, target: str) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        (snapshot / name).unlink()
        (snapshot / name).symlink_to(os.readlink(snapshot / target))

    return do


def _elsewhere(name: str, more: bytes) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        other = snapshot.parents[2] / "other.json"
        other.write_bytes((snapshot / name).read_bytes() + more)
        (snapshot / name).unlink()
        (snapshot / name).symlink_to(other)

    return do


def _pointer(name: str) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        (snapshot / name).unlink()
        (snapshot / name).write_text(POINTER)

    return do


def _text(name: str) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        path = (snapshot / name).resolve()
        path.write_text(path.read_text() + "{{ 1 }}")

    return do


def _key(name: str) -> Callable[[Path], None]:
    def do(snapshot: Path) -> None:
        path = (snapshot / name).resolve()
        path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": "{{ messages }}"}))

    return do
