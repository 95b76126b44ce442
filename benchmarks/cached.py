"""An unchanged checkpoint of a terabyte, whose digests are kept from earlier, against a run that looks at no file."""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.side_by_side import Row, compare

FILES, SIZE = 200, 5 << 30
DIGEST = "ab" * 32
OURS = [str(Path(sys.executable).parent / "lockllm"), "verify"]


def rows() -> Iterator[Row]:
    """200 sparse files of 5 GiB, each a safetensors file of one tensor."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = [f"model-{number:05}-of-{FILES:05}.safetensors" for number in range(1, FILES + 1)]
        model, small = folder / "model", folder / "small"
        model.mkdir()
        small.mkdir()
        for place in (model, small):
            (place / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}')
        for number, name in enumerate(names):
            _sparse(model / name, f"t{number}")
        index = {"weight_map": {f"t{number}": name for number, name in enumerate(names)}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        _keep(model, folder / "cache")
        lines = "".join(f'"{name}" = {{ size = {SIZE}, sha256 = "{DIGEST}" }}\n' for name in names)
        head = 'lock_version = 1\n\n[engine]\nname = "vllm"\n\n[checkpoint]\ndtype = "bfloat16"\n'
        (folder / "big.lock").write_text(f'{head}include = ["*.safetensors"]\n\n[checkpoint.files]\n{lines}')
        (folder / "no.lock").write_text(head)
        preflight = ["--stage", "preflight", "--gpu", "none", "--skip", "engine"]
        yield compare(
            "unchanged 1 TB in 200 files / a run with no files",
            [*OURS, "big.lock", "--checkpoint", "model", *preflight],
            [*OURS, "no.lock", "--checkpoint", "small", *preflight],
            1.5, cwd=folder, rounds=11, env={"LOCKLLM_CACHE": str(folder / "cache")},
        )  # fmt: skip


def _sparse(path: Path, tensor: str) -> None:
    room = 1024
    data = SIZE - 8 - room
    header = json.dumps({tensor: {"dtype": "BF16", "shape": [data // 2], "data_offsets": [0, data]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", room) + header.ljust(room))
        file.truncate(SIZE)


def _keep(model: Path, where: Path) -> None:
    """Digests as a run of yesterday would have left them."""
    from lockllm.checkpoint import cache, hashing

    kept = cache.opened(os.path.realpath(model), str(where), everywhere=True)
    found = {}
    for path in model.iterdir():
        stamp = hashing.stamp(path.stat())
        digest = hashing.Digest(sha256=DIGEST, stamp=stamp, began_ns=stamp.ctime_ns + 10**10, settled=True)
        found[path.name] = (str(path), digest)
    cache.keep(kept, found)
    cache.write(kept)
