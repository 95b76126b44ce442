"""Hashing: our own, whole, and beside what people run instead, over the same files in the page cache."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.side_by_side import Row, medians

MB = 2**20
FILES, SIZE = 8, 128 * MB
CORES = len(os.sched_getaffinity(0))
OURS = """
import os, sys, time
from lockllm.checkpoint import hashing
how = {"sha256": {}, "blake3": {"sha256": False, "blake3": True}}[sys.argv[1]]
jobs = [hashing.Job(path, path, os.path.getsize(path), **how) for path in sys.argv[2:]]
start = time.perf_counter()
found = hashing.digest(jobs)
print((time.perf_counter() - start) * 1000)
assert all(isinstance(each, hashing.Digest) for each in found.values())
"""
WINDOW = """
import mmap, sys, time
from blake3 import blake3
window, path = int(sys.argv[1]), sys.argv[2]
start = time.perf_counter()
made, view = blake3(max_threads=blake3.AUTO), memoryview(mmap.mmap(-1, window))
with open(path, "rb", buffering=0) as file:
    while got := file.readinto(view):
        made.update(view[:got])
made.digest()
print((time.perf_counter() - start) * 1000)
"""
HF = """
import sys
from pathlib import Path
from huggingface_hub.utils._verification import compute_file_hash
for name in sys.argv[1:]:
    compute_file_hash(Path(name), "sha256")
"""


def rows() -> Iterator[Row]:
    """sha256 and BLAKE3 over eight files of 128 MiB; a whole run; memory."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = [f"model-{number:05}.safetensors" for number in range(FILES)]
        for name in names:
            with (folder / name).open("wb") as file:
                for _ in range(SIZE // MB):
                    file.write(os.urandom(MB))
        yield from _sha256(folder, names)
        yield from _blake3(folder, names)
        yield from _whole(folder, names)


def _ours(how: str, names: list[str]) -> list[str]:
    return [sys.executable, "-c", OURS, how, *names]


def _many(tool: str, names: list[str]) -> list[str]:
    """A tool over one file a process, as many processes as cores."""
    return ["sh", "-c", f"printf '%s\\0' {shlex.join(names)} | xargs -0 -n 1 -P {CORES} {tool}"]


def _sha256(folder: Path, names: list[str]) -> Iterator[Row]:
    found = medians({
        "ours": _ours("sha256", names), "openssl": _many("openssl dgst -sha256", names),
        "many": _many("sha256sum", names),
    }, folder, rounds=7)  # fmt: skip
    ours = found["ours"].ms
    yield Row(f"sha256, 1 GiB / openssl dgst x {CORES}", ours, found["openssl"].ms, 1 / 0.95)
    yield Row(f"sha256, 1 GiB / sha256sum x {CORES}", ours, found["many"].ms, 1 / 0.95)
    yield Row("peak memory of hashing, MB / 64", found["ours"].mb, 64, 1.0, "MB")


def _blake3(folder: Path, names: list[str]) -> Iterator[Row]:
    tool = os.environ.get("B3SUM") or shutil.which("b3sum")
    windows = {
        f"window {size} KiB": [sys.executable, "-c", WINDOW, str(size << 10), names[0]]
        for size in (128, 1024, 4096, 16384)
    }
    peers = {"b3sum": [tool, *names], "b3sum 1": [tool, names[0]]} if tool else {}
    found = medians(
        {"ours": _ours("blake3", names), "ours 1": _ours("blake3", names[:1]), **peers, **windows}, folder, rounds=7
    )
    if tool:
        yield Row("BLAKE3, 8 files / b3sum", found["ours"].ms, found["b3sum"].ms, 1 / 0.95)
        yield Row("BLAKE3, 1 file / b3sum", found["ours 1"].ms, found["b3sum 1"].ms, float("inf"))
    for name in windows:
        yield Row(f"BLAKE3, 1 file / all cores, {name}", found["ours 1"].ms, found[name].ms, float("inf"))


def _whole(folder: Path, names: list[str]) -> Iterator[Row]:
    """From the shell's prompt to the exit code, nothing kept from earlier."""
    from lockllm.checkpoint import hashing

    digests = hashing.digest([hashing.Job(name, str(folder / name), SIZE) for name in names])
    lines = [f'"{name}" = {{ size = {SIZE}, sha256 = "{each.sha256}" }}' for name, each in digests.items()]  # type: ignore[union-attr]
    files = "\n".join(lines)
    lock = folder.parent / f"{folder.name}.lock"
    lock.write_text(f'lock_version = 1\n\n[engine]\nname = "vllm"\n\n[checkpoint.files]\n{files}\n')
    ours = [sys.executable, "-m", "lockllm", "verify", str(lock), "--stage", "preflight", "--gpu", "none", "--rehash"]
    commands = {
        "ours": [*ours, "--checkpoint", str(folder), "--only", "checkpoint.files"],
        "hf": [sys.executable, "-c", HF, *[str(folder / name) for name in names]],
    }
    tool = os.environ.get("MODEL_SIGNING") or shutil.which("model_signing")
    side = Path(tempfile.mkdtemp())
    try:
        if tool:
            commands["model_signing"] = _signed(tool, folder, side)
        found = medians(commands, side)
        yield Row("whole verify, 1 GiB / hf cache verify's comparison", found["ours"].ms, found["hf"].ms, 1 / 1.8)
        if tool:
            yield Row(
                "whole verify, 1 GiB / model_signing verify", found["ours"].ms, found["model_signing"].ms, 1 / 1.8
            )
        yield Row("peak memory of a whole verify, MB / 64", found["ours"].mb, 64, 1.0, "MB")
    finally:
        lock.unlink()
        shutil.rmtree(side)


def _signed(tool: str, folder: Path, side: Path) -> list[str]:
    import subprocess

    key, public, signature = (str(side / name) for name in ("key.pem", "public.pem", "model.sig"))
    for words in (
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key],
        ["openssl", "ec", "-in", key, "-pubout", "-out", public],
        [tool, "sign", "key", "--private_key", key, "--signature", signature, str(folder)],
    ):
        subprocess.run(words, check=True, capture_output=True)
    return [tool, "verify", "key", "--public_key", public, "--signature", signature, str(folder)]


def growth(folder: Path) -> Iterator[Row]:
    """sha256 from 1 to 64 GiB of sparse files, and in 10,000 files."""
    sizes = {"1 GiB": 1, "8 GiB": 8, "64 GiB": 64}
    for name, size in sizes.items():
        for part in range(8):
            with (folder / f"{name[:2].strip()}-{part}").open("wb") as file:
                file.truncate((size << 30) // 8)
    found = medians(
        {name: _ours("sha256", [f"{name[:2].strip()}-{part}" for part in range(8)]) for name in ("1 GiB", "8 GiB")},
        folder,
    )
    large = [f"64-{part}" for part in range(8)]
    once = medians(
        {"64 GiB": _ours("sha256", large), "openssl": _many("openssl dgst -sha256", large)}, folder, rounds=1
    )
    yield Row("growth: 8 GiB / 8 times 1 GiB (sparse)", found["8 GiB"].ms, 8 * found["1 GiB"].ms, 1.1)
    yield Row("growth: 64 GiB / 64 times 1 GiB (sparse, once)", once["64 GiB"].ms, 64 * found["1 GiB"].ms, 1.1)
    yield Row(f"64 GiB (sparse, once) / openssl dgst x {CORES}", once["64 GiB"].ms, once["openssl"].ms, 1 / 0.95)
    yield Row("peak memory at 64 GiB, MB / 64", once["64 GiB"].mb, 64, 1.0, "MB")
    many = [f"many-{number}" for number in range(10_000)]
    for name in many:
        (folder / name).write_bytes(bytes(104858))
    spread = medians(
        {"many": _ours("sha256", many), "one": _ours("sha256", [f"1-{part}" for part in range(8)])}, folder
    )
    yield Row("growth: 1 GiB in 10,000 files / in 8", spread["many"].ms, spread["one"].ms, float("inf"))
