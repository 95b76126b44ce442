"""The digests of the files that reach inference: computed, kept from earlier, or merely claimed; and what contradicts them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from lockllm.checkpoint import cache as digests
from lockllm.checkpoint import hashing, hub, stamps
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry
from lockllm.checkpoint.selection import ADAPTER, ENGINE, PROJECTOR, WEIGHTS
from lockllm.facts.fact import Path
from lockllm.facts.observation import HASHED, By, Reading, Unobserved
from lockllm.facts.registry import seen

Hashing = Literal["full", "quick", "claims", "none"]
"""`full`: every byte, or a digest kept from earlier; `quick`: weights by size and claim, the rest by bytes; `claims`: weights by
claim, the rest and what has no claim by bytes; `none`: no digest."""

Cache = Literal["auto", "any", "renew", "off"]
"""`auto`: on local file systems; `any`: everywhere; `renew`: hash again, and keep; `off`: neither read nor kept."""

_SMALL = 64 * 2**20  # what `quick` still hashes, and what is checked against git's sha1
_HEAVY = frozenset({WEIGHTS, PROJECTOR, ENGINE, ADAPTER})


class SeenFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that reaches inference. `evidence` says what stands behind `sha256`: computed, cached, claimed, or nothing."""

    path: str  # logical, relative, with `/`
    size: int
    role: str
    sha256: str | None = None
    evidence: str = ""
    hashed_at: str = ""  # for `cached`: when it was computed, RFC 3339
    blake3: str | None = None
    source: str = ""
    entry: Entry | None = None  # how it was listed
    known: tuple[tuple[int, int], ...] = ()  # spans of time in which it held these bytes, from and to, in ns


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be hashed, and how."""

    root: str
    given: str
    files: Mapping[str, Entry]
    roles: Mapping[str, str]  # the kept files
    claims: Mapping[str, hub.Claim]
    hashing: Hashing
    blake3: bool
    memory: digests.Cache | None = None
    pairs: Mapping[str, tuple[str, str]] = {}  # path -> sha256 and BLAKE3 of the same bytes, as a lock holds them


def claims(files: Mapping[str, Entry], place: hub.Place) -> dict[str, hub.Claim]:
    """What links and sidecars claim: a link's own name first."""
    found = {}
    for name, entry in files.items():
        claim = (hub.link_claim(entry.first_link) if place.kind == "snapshot" else None) or place.claims.get(name)
        if claim is not None:
            found[name] = claim
    return found


def digest(
    task: Task, progress: hashing.Progress | None, findings: Findings
) -> tuple[list[SeenFile], list[Unobserved], str]:
    """The files with their digests, those that could not be read, and why nothing is kept (empty where digests are)."""
    kept = task.memory
    settle = digests.settler(kept) if kept is not None and kept.file is not None else None
    earlier: dict[str, digests.Kept] = {}
    jobs = []
    for name, entry in task.files.items():
        if name not in task.roles:
            continue
        if not _is_hashed(task, name, entry):
            if entry.stamp is not None:
                stamps.seen(entry.real, entry.stamp)
            continue
        found, _ = digests.look_up(kept, name, entry.real) if kept is not None and kept.kept else (None, None)
        job = _job(task, name, entry, settle)
        if found is not None and _is_enough(job, found, task):
            earlier[name] = _completed(found, task.pairs.get(name))
            stamps.holds(entry.real, _held(found))
        else:
            jobs.append(job)
    made, failed = _hashed(jobs, task, progress)
    if kept is not None and made:
        digests.keep(kept, {name: (task.files[name].real, outcome) for name, outcome in made.items()})
    made = {name: _completed(outcome, task.pairs.get(name)) for name, outcome in made.items()}
    files = [
        _file(task, name, made.get(name), earlier.get(name))
        for name in task.files
        if name in task.roles and name not in failed
    ]
    _judge_claims(task, made, earlier, findings)
    return files, list(_failures(failed, made, findings)), kept.reason if kept is not None else ""


def _held(found: digests.Kept) -> stamps.Held:
    algorithm, digest = ("sha256", found.sha256) if found.sha256 else ("blake3", found.blake3 or "")
    return stamps.Held(algorithm, digest, None, found.stamp)


def _known(task: Task, name: str, held: hashing.Digest | digests.Kept | None) -> tuple[tuple[int, int], ...]:
    """In which spans of time a file is known to have held the bytes that it holds now."""
    entry = task.files[name]
    if entry.stamp is None:
        return ()
    first = (
        max(stamps.born_ns(entry.real) or 0, entry.link_ns)
        if stamps.only_touched(entry.real, entry.stamp, entry.atime_ns)
        else None
    )
    if held is not None:
        since = max(held.stamp.ctime_ns, entry.link_ns)
        digest = held.sha256 or held.blake3 or ""
        return digests.remember(task.memory, name, digest, held.stamp, since, first=first).spans
    known = task.memory.known.get(name) if task.memory is not None else None
    if known is None:
        return ((first, time.time_ns()),) if first is not None else ()
    if known.stamp != entry.stamp:  # it was not hashed now, and has moved since it was
        return ()
    since = max(entry.stamp.ctime_ns, entry.link_ns)
    return digests.remember(task.memory, name, known.digest, known.stamp, since).spans


def _job(task: Task, name: str, entry: Entry, settle: Callable[[int], bool] | None) -> hashing.Job:
    claim = task.claims.get(name)
    by_git = claim is not None and claim.sha256 is None and entry.size <= _SMALL
    faster = name in task.pairs and entry.size > _SMALL
    return hashing.Job(name, entry.real, entry.size, by_git, task.blake3 or faster, not faster, settle)


def _is_enough(job: hashing.Job, found: digests.Kept, task: Task) -> bool:
    """Whether what is kept of a file answers all that its job asks."""
    by_pair = found.blake3 is not None and found.blake3 == task.pairs.get(job.name, ("", ""))[1]
    return (not job.git or bool(found.git)) and (not job.blake3 or bool(found.blake3)) and bool(found.sha256 or by_pair)


def _hashed(
    jobs: list[hashing.Job], task: Task, progress: hashing.Progress | None
) -> tuple[dict[str, hashing.Digest], dict[str, hashing.Failed]]:
    """Hashes; a large file whose BLAKE3 is not the locked one is read once more, for its sha256."""
    outcomes = hashing.digest(jobs, progress=progress)
    made = {name: each for name, each in outcomes.items() if isinstance(each, hashing.Digest)}
    again = [
        msgspec.structs.replace(job, sha256=True)
        for job in jobs
        if not job.sha256 and job.name in made and made[job.name].blake3 != task.pairs[job.name][1]
    ]
    if again:
        outcomes = {**outcomes, **hashing.digest(again, progress=progress)}
        made = {name: each for name, each in outcomes.items() if isinstance(each, hashing.Digest)}
    return made, {name: each for name, each in outcomes.items() if isinstance(each, hashing.Failed)}


_Held = TypeVar("_Held", hashing.Digest, digests.Kept)


def _completed(held: _Held, pair: tuple[str, str] | None) -> _Held:
    """With the sha256 that a lock pairs with the BLAKE3 that was computed."""
    if held.sha256 or pair is None or held.blake3 != pair[1]:
        return held
    return msgspec.structs.replace(held, sha256=pair[0])


def readings(files: list[SeenFile]) -> Iterator[Reading]:
    """Readings of each file, and of its BLAKE3 digest where there is one."""
    for file in files:
        if file.evidence:
            value = {"size": file.size, **({"sha256": file.sha256} if file.sha256 is not None else {})}
            source = f"{file.source}{HASHED}{file.hashed_at}" if file.hashed_at else file.source
            yield seen(("checkpoint", "files", file.path), value, source, By.FILE, file.evidence)
        if file.blake3 is not None:
            yield seen(("checkpoint", "blake3", file.path), file.blake3, file.source, By.FILE, file.evidence)


def content(files: list[SeenFile], path: Path, what: str) -> Reading | None:
    """The one digest over several files; None where a file has none."""
    pairs = [(file.path, file.sha256) for file in files if file.sha256 is not None]
    if not pairs or len(pairs) < len(files):
        return None
    ranks = {file.evidence for file in files}
    evidence = next(each for each in ("claimed", "cached", "computed") if each in ranks)
    return seen(path, hashing.content_sha256(pairs), what, By.FILE, evidence)


def memory(root: str, cache: Cache) -> digests.Cache | None:
    """What is kept of a checkpoint; None where nothing is asked for."""
    if cache == "off":
        return None
    where = digests.folder(os.environ, os.path.expanduser("~"))
    return digests.opened(root, where, everywhere=cache == "any", read=cache != "renew")


def _is_hashed(task: Task, name: str, entry: Entry) -> bool:
    if task.hashing == "none":
        return False
    if task.hashing == "claims":
        claim = task.claims.get(name)
        return task.roles[name] not in _HEAVY or claim is None or claim.sha256 is None
    return task.hashing == "full" or (task.roles[name] not in _HEAVY and entry.size <= _SMALL)


def _file(task: Task, name: str, made: hashing.Digest | None, earlier: digests.Kept | None) -> SeenFile:
    entry = task.files[name]
    held = made or earlier
    source = os.path.join(task.given, name)
    common: dict[str, Any] = {"path": name, "role": task.roles[name], "source": source, "entry": entry}
    common["known"] = _known(task, name, held)
    if held is not None:
        at = earlier.at if earlier is not None and made is None else ""
        return SeenFile(
            **common, size=held.stamp.size, sha256=held.sha256, evidence="computed" if made else "cached", hashed_at=at,
            blake3=held.blake3 if task.blake3 or name in task.pairs else None,
        )  # fmt: skip
    claim = task.claims.get(name)
    if claim is not None and claim.sha256 is not None and task.hashing in ("quick", "claims"):
        return SeenFile(**{**common, "source": claim.source}, size=entry.size, sha256=claim.sha256, evidence="claimed")
    return SeenFile(**common, size=entry.size, evidence="claimed" if task.hashing == "quick" else "")


def _judge_claims(
    task: Task, made: Mapping[str, hashing.Digest], earlier: Mapping[str, digests.Kept], findings: Findings
) -> None:
    held: dict[str, hashing.Digest | digests.Kept] = {**earlier, **made}
    checked = 0
    for name, claim in task.claims.items():
        found = held.get(name)
        digest = None if found is None else found.sha256 if claim.sha256 is not None else found.git
        if digest is None:
            continue
        checked += 1
        if digest != claim.digest:
            detail = f"{name} is {digest[:12]}, {claim.source} says {claim.digest[:12]}"
            findings.wrong("claimed_digests", detail, name, "delete the file and download it again")
    if checked:
        told = (
            "1 file holds what its name or sidecar claims"
            if checked == 1
            else f"{checked} files hold what their names or sidecars claim"
        )
        findings.right("claimed_digests", told)


def _failures(
    failed: Mapping[str, hashing.Failed], made: Mapping[str, hashing.Digest], findings: Findings
) -> Iterator[Unobserved]:
    for name, outcome in failed.items():
        fix = (
            "wait until nothing writes it, then look again"
            if outcome.changed
            else "give lockllm read access to the file"
        )
        if outcome.changed:
            findings.wrong("files_stable", f"{name} {outcome.reason}", name, fix)
        yield Unobserved(("checkpoint", "files", name), outcome.reason, fix)
    if made:
        findings.right("files_stable", f"{len(made)} files stayed as they were")
