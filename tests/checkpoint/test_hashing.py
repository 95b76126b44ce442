"""Digests of many files: right, steady in memory, and never of a file that moved."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lockllm.checkpoint import hashing, look, stamps
from lockllm.checkpoint.hashing import Digest, Failed, Job

MB = 2**20


def job(path: Path, **options: bool) -> Job:
    return Job(path.name, str(path), path.stat().st_size, **options)


def make(folder: Path, sizes: dict[str, int]) -> list[Job]:
    for name, size in sizes.items():
        (folder / name).write_bytes(os.urandom(min(size, 4096)) + bytes(max(0, size - 4096)))
    return [job(folder / name, git=True) for name in sizes]


@pytest.mark.parametrize("workers", [1, 3, 64])
def test_digests_are_those_of_the_bytes(tmp_path: Path, workers: int) -> None:
    sizes = {"empty": 0, "one": 1, "buffer": 4 * MB, "over": 4 * MB + 1, "large": 9 * MB}
    found = hashing.digest(make(tmp_path, sizes), workers=workers)
    for name in sizes:
        raw = (tmp_path / name).read_bytes()
        digest = found[name]
        assert isinstance(digest, Digest)
        assert digest.sha256 == hashlib.sha256(raw).hexdigest()
        assert digest.git == hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()
        assert digest.stamp == stamps.stamp((tmp_path / name).stat())


def test_blake3_is_that_of_the_library(tmp_path: Path) -> None:
    from blake3 import blake3

    (tmp_path / "a").write_bytes(b"abc" * 100_000)
    digest = hashing.digest([job(tmp_path / "a", blake3=True)])["a"]
    assert isinstance(digest, Digest)
    assert digest.blake3 == blake3(b"abc" * 100_000).hexdigest()


def test_progress_ends_at_all_bytes(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    jobs = make(tmp_path, {"a": 9 * MB, "b": 3 * MB, "c": 10})
    hashing.digest(jobs, progress=lambda done, total: told.append((done, total)))
    assert max(told) == (12 * MB + 10, 12 * MB + 10)


class Moving:
    """Changes a file when the first megabytes of it are read."""

    def __init__(self, change: object) -> None:
        self.change = change
        self.lock = threading.Lock()
        self.done = False

    def __call__(self, done: int, total: int) -> None:
        with self.lock:
            if not self.done and done >= 4 * MB:
                self.done = True
                self.change()  # type: ignore[operator]


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(bytes(9 * MB))
    other.replace(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (grow, "changed while it was hashed"),
        (lambda path: os.truncate(path, 100), "changed while it was hashed"),
        (replace, "was replaced while it was hashed"),
        (lambda path: path.write_bytes(bytes(9 * MB)), "changed while it was hashed"),
    ],
    ids=["grows", "shrinks", "replaced", "rewritten"],
)
def test_a_file_that_moves_while_it_is_hashed_has_no_digest(tmp_path: Path, change: object, reason: str) -> None:
    path = tmp_path / "a"
    jobs = make(tmp_path, {"a": 9 * MB})
    os.utime(path, (1, 1))
    found = hashing.digest(jobs, workers=1, progress=Moving(lambda: change(path)))  # type: ignore[operator]
    if reason.startswith("was"):
        assert found["a"] in {Failed(reason, changed=True), Failed("changed while it was hashed", changed=True)}
    else:
        assert found["a"] == Failed(reason, changed=True)


def link(path: Path) -> None:
    os.link(path, path.with_name("link"))


def put_back(path: Path) -> None:
    """Writes other bytes in place, and puts the time of modification back."""
    held = path.stat()
    with path.open("r+b") as file:
        file.write(b"x" * MB)
    os.utime(path, ns=(held.st_atime_ns, held.st_mtime_ns))


@pytest.mark.parametrize(
    "touch",
    [
        link,
        lambda path: os.chmod(path, 0o600),
        lambda path: os.utime(path, ns=(1, path.stat().st_mtime_ns)),
        lambda path: path.rename(path.with_name("b")) and path.with_name("b").rename(path),
    ],
    ids=["a hard link", "another mode", "another time of access", "renamed and back"],
)
def test_what_moves_no_byte_of_a_file_leaves_its_digest(tmp_path: Path, touch: Callable[[Path], object]) -> None:
    jobs = make(tmp_path, {"a": 9 * MB})
    found = hashing.digest(jobs, workers=1, progress=Moving(lambda: touch(tmp_path / "a")))
    digest = found["a"]
    assert isinstance(digest, Digest)
    assert digest.sha256 == hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest()
    assert digest.stamp == stamps.stamp(os.stat(tmp_path / "a"))


def test_links_made_again_and_again_leave_the_digest_and_keep_it_out_of_the_cache(tmp_path: Path) -> None:
    jobs = [msgspec.structs.replace(job, settle=lambda descriptor: True) for job in make(tmp_path, {"a": 9 * MB})]
    count = iter(range(10_000))
    found = hashing.digest(
        jobs, workers=1, progress=lambda done, total: os.link(tmp_path / "a", tmp_path / f"link-{next(count)}")
    )
    digest = found["a"]
    assert isinstance(digest, Digest)
    assert not digest.settled


def test_bytes_that_are_written_under_an_old_time_have_no_digest(tmp_path: Path) -> None:
    jobs = make(tmp_path, {"a": 9 * MB})
    found = hashing.digest(jobs, workers=1, progress=Moving(lambda: put_back(tmp_path / "a")))
    assert found["a"] == Failed("changed while it was hashed", changed=True)


def test_a_file_that_moves_is_a_finding_and_unknown(tiny: Path) -> None:
    with (tiny / "model.safetensors").open("ab") as file:
        file.truncate(12 * MB)
    weights = tiny / "model.safetensors"
    found = look(str(tiny), progress=Moving(lambda: grow(weights)))
    failed = {check.name: check.detail for check in found.checks if check.status.value == "fail"}
    assert failed["check.files_stable"] == "model.safetensors changed while it was hashed"
    assert ("checkpoint", "files", "model.safetensors") in {gap.path for gap in found.unobserved}
    assert found.content_sha256 is None


def test_what_is_no_file_fails_with_a_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    jobs = [Job("pipe", str(tmp_path / "pipe"), 0), Job("none", str(tmp_path / "none"), 0), Job("folder", str(tmp_path), 0),
            Job("device", "/dev/zero", 0), Job("proc", "/proc/self/maps", 0)]  # fmt: skip
    assert hashing.digest(jobs) == {
        "pipe": Failed("is a pipe, not a file"), "none": Failed("no such file or directory"),
        "folder": Failed("is a directory, not a file"), "device": Failed("is a device, not a file"),
        "proc": Failed("changed while it was hashed", changed=True),
    }  # fmt: skip


def test_an_error_in_progress_stops_all_threads_and_is_raised(tmp_path: Path) -> None:
    def refuse(done: int, total: int) -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        hashing.digest(make(tmp_path, {"a": 5 * MB, "b": 5 * MB}), progress=refuse)
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.daemon:
            thread.join(5)
    assert threading.active_count() <= before


def test_memory_stays_small_whatever_the_sizes(tmp_path: Path) -> None:
    for number in range(8):
        with (tmp_path / f"{number}").open("wb") as file:
            file.truncate(50 * MB)
    code = (
        "import os, sys\n"
        "from lockllm.checkpoint import hashing\n"
        "jobs = [hashing.Job(name, os.path.join(sys.argv[1], name), 50 << 20) for name in os.listdir(sys.argv[1])]\n"
        "hashing.digest(jobs, workers=8)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 1024


def test_a_large_file_is_read_by_blake3_alone_where_a_lock_pairs_it_with_a_sha256(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockllm.checkpoint import cache

    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_FRESH_NS", -(10**9))
    with (tiny / "model.safetensors").open("ab") as file:
        file.truncate(65 * MB)
    plain = {file.path: file for file in look(str(tiny), blake3=True).files}
    whole = plain["model.safetensors"]
    other = ("1" * 64, whole.blake3 or "")  # a false pair shows that the bytes were not read for sha256
    found = look(str(tiny), pairs={"model.safetensors": other}, cache="any")
    assert {file.path: file.sha256 for file in found.files}["model.safetensors"] == "1" * 64
    again = look(str(tiny), cache="any")
    assert {file.path: file.sha256 for file in again.files}["model.safetensors"] == whole.sha256
    moved = look(str(tiny), pairs={"model.safetensors": (whole.sha256 or "", "2" * 64)})
    assert {file.path: file.sha256 for file in moved.files}["model.safetensors"] == whole.sha256
