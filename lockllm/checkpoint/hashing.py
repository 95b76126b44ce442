"""Digests of many files at once: a thread a core, one reused buffer each, largest files first, changes noticed."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

import msgspec

from lockllm.checkpoint import stamps
from lockllm.checkpoint.bounded import Malformed, open_regular, why
from lockllm.checkpoint.stamps import Held, Stamp, stamp, timeless

_BUFFER = 2**19
"""Bytes read at once: few enough to be in a core's own cache still when they are hashed, enough that many threads seldom
wait for the interpreter's lock, which each piece takes."""
_WINDOW = 2**22
"""The same where BLAKE3 has several cores for one file, each of which takes a part of it."""
_TOLD = 2**22  # bytes between two words on progress
_MOST_WORKERS = 32
_MOST_READS = 4
"""How often a file is read whose bytes seem not to have moved, though the file system cannot say so."""


class Job(msgspec.Struct, frozen=True):
    """One file to hash: its name in the result, where its bytes are, and which digests besides sha256."""

    name: str
    path: str
    size: int
    git: bool = False
    blake3: bool = False
    sha256: bool = True
    settle: Callable[[int], bool] | None = (
        None  # done to the open file before anything is read, where its digest may be kept
    )


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """The digests of one file, and the stamp it bore from before the first byte to after the last."""

    sha256: str  # empty where it was not asked for
    git: str | None = None  # git's sha1 of a blob with these bytes
    blake3: str | None = None
    stamp: Stamp
    began_ns: int  # the clock when reading began
    settled: bool = False  # whether its job's `settle` was done


class Failed(msgspec.Struct, frozen=True):
    """Why a file has no digest; `changed` where it moved while it was read."""

    reason: str
    changed: bool = False


Outcome = Digest | Failed
Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all, from any thread."""


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def digest(
    jobs: Sequence[Job], *, workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> dict[str, Outcome]:
    """The outcome of each job. An interrupt ends all threads within one buffer."""
    count = max(1, min(workers or cores(), _MOST_WORKERS, len(jobs)))
    work = _Work(deque(sorted(jobs, key=lambda job: -job.size)), sum(job.size for job in jobs), progress)
    if work.total >= 2**20:
        _in_threads(work, count)
    work.rest()
    if work.error is not None:
        raise work.error
    return work.done


def _in_threads(work: _Work, count: int) -> None:
    threads = [threading.Thread(target=copy_context().run, args=(work.run,), daemon=True) for _ in range(count)]
    try:
        with contextlib.suppress(RuntimeError):  # a limit on memory or on threads
            for thread in threads:
                thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    except BaseException:
        work.stopped = True
        raise


class _Work:
    """The jobs that threads share."""

    def __init__(self, jobs: deque[Job], total: int, progress: Callable[[int, int], None] | None) -> None:
        self.jobs = jobs
        self.total = total
        self.progress = progress
        self.read = 0
        self.done: dict[str, Outcome] = {}
        self.stopped = False
        self.error: BaseException | None = None
        self.lock = threading.Lock()
        self.cores = max(1, cores() // max(1, len(jobs)))  # for each file: only BLAKE3 has a use for several
        self.buffer = _WINDOW if self.cores > 1 and any(job.blake3 for job in jobs) else _BUFFER

    def rest(self) -> None:
        """Whatever no thread took: all of little, or of much where a limit let none begin."""
        if self.jobs and not self.stopped:
            self._take(_aligned(self.buffer))

    def run(self) -> None:
        """What one thread does. Where a limit leaves it no buffer, the others or `rest` have its share."""
        with contextlib.suppress(MemoryError):
            self._take(_aligned(self.buffer))

    def _take(self, view: memoryview) -> None:
        while not self.stopped:
            try:
                job = self.jobs.popleft()
            except IndexError:
                return
            try:
                self.done[job.name] = self._file(job, view)
            except Malformed as error:
                self.done[job.name] = Failed(str(error))
            except OSError as error:
                self.done[job.name] = Failed(why(error))
            except BaseException as error:  # noqa: BLE001 - carried to the thread that waits
                self.error, self.stopped = error, True
                return

    def _file(self, job: Job, view: memoryview) -> Outcome:
        """The digest of one file. What moved its ctime alone (a hard link, a mode) may have changed no byte: it is read again."""
        former: dict[str, str] | None = None
        descriptor = open_regular(job.path)
        try:
            for _ in range(_MOST_READS):
                began = time.time_ns()
                settled = job.settle is not None and job.settle(descriptor)
                os.lseek(descriptor, 0, os.SEEK_SET)
                before = stamp(os.fstat(descriptor))
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
                hashes = _hashes(job, before.size, self.cores)
                read = self._feed(descriptor, before.size, view, hashes)
                after, now = stamp(os.fstat(descriptor)), stamp(os.stat(job.path))
                named = {name: made.hexdigest() for name, made in hashes.items()}
                if read != before.size or timeless(after) != timeless(before) or (former and former != named):
                    return Failed("changed while it was hashed", changed=True)
                if (now.device, now.inode) != (before.device, before.inode):
                    return Failed("was replaced while it was hashed", changed=True)
                if after == before == now or named == former:  # unmoved, or twice the same bytes
                    for algorithm in named.keys() - {"git"}:
                        stamps.holds(job.path, Held(algorithm, named[algorithm], None, after))
                    return _digest(named, after, began, settled and after == before == now)
                former = named
        finally:
            os.close(descriptor)
        return Failed("changed while it was hashed", changed=True)

    def _feed(self, descriptor: int, size: int, view: memoryview, hashes: dict[str, Any]) -> int:
        read = told = 0
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            while not self.stopped:
                got = file.readinto(view)
                read += got or 0
                if read - told >= _TOLD or not got:
                    self._tell(read - told)
                    told = read
                if not got or read > size:
                    return read
                for made in hashes.values():
                    made.update(view[:got])
        raise OSError("stopped")

    def _tell(self, got: int) -> None:
        with self.lock:
            self.read += got
            read = self.read
        if self.progress is not None:
            self.progress(min(read, self.total), self.total)


def _aligned(size: int) -> memoryview:
    """Memory that begins with a page. A copy from the page cache to 16 bytes past a page, where `malloc` puts a buffer of more
    than 128 KiB, takes three times as long (Linux 6.18 on a Zen core). MemoryError where a limit leaves none."""
    try:
        return memoryview(mmap.mmap(-1, size))
    except OSError as cause:
        raise MemoryError from cause


def _digest(named: dict[str, str], at: Stamp, began: int, settled: bool) -> Digest:
    return Digest(
        sha256=named.get("sha256", ""), git=named.get("git"), blake3=named.get("blake3"), stamp=at, began_ns=began,
        settled=settled,
    )  # fmt: skip


def _hashes(job: Job, size: int, threads: int) -> dict[str, Any]:
    made: dict[str, Any] = {"sha256": hashlib.sha256(usedforsecurity=False)} if job.sha256 else {}
    if job.git:
        made["git"] = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    if job.blake3:
        from blake3 import blake3

        made["blake3"] = blake3(max_threads=threads)
    return made


def content_sha256(digests: Sequence[tuple[str, str]]) -> str:
    """The sha256 over the byte-sorted lines `SHA256  PATH` of (path, sha256) pairs, as a shell computes it."""
    lines = sorted(f"{sha256}  {path}\n".encode("utf-8", "surrogateescape") for path, sha256 in digests)
    return hashlib.sha256(b"".join(lines), usedforsecurity=False).hexdigest()
