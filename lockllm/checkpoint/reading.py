"""The digests of the files that reach inference: computed, kept from earlier, or merely claimed; and what contradicts them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from lockllm.checkpoint import cache as digests
from lockllm.checkpoint import hashing, hub
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry
from lockllm.checkpoint.selection import ADAPTER, ENGINE, PROJECTOR, WEIGHTS
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Reading, Unobserved
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


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be hashed, and how."""

    root: str
    given: str
    files: Mapping[str, Entry]
    roles: Mapping[str, str]  # the kept files
    claims: Mapping[str, hub.Claim]
    hashing: Hashing
    cache: Cache
    blake3: bool


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
    kept = _cache(task)
    earlier: dict[str, digests.Kept] = {}
    jobs = []
    for name, entry in task.files.items():
        if name not in task.roles or not _is_hashed(task, name, entry):
            continue
        found, _ = digests.look_up(kept, name, entry.real) if kept is not None and kept.kept else (None, None)
        claim = task.claims.get(name)
        by_git = claim is not None and claim.sha256 is None and entry.size <= _SMALL
        if found is not None and (not by_git or found.git) and (not task.blake3 or found.blake3):
            earlier[name] = found
        else:
            jobs.append(hashing.Job(name, entry.real, entry.size, by_git, task.blake3))
    outcomes = hashing.digest(jobs, progress=progress)
    made = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, hashing.Digest)}
    if kept is not None and made:
        digests.keep(kept, {name: (task.files[name].real, outcome) for name, outcome in made.items()})
    failed = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, hashing.Failed)}
    files = [
        _file(task, name, made.get(name), earlier.get(name))
        for name in task.files
        if name in task.roles and name not in failed
    ]
    _judge_claims(task, made, earlier, findings)
    return files, list(_failures(failed, made, findings)), kept.reason if kept is not None else ""


def readings(files: list[SeenFile]) -> Iterator[Reading]:
    """Readings of each file, and of its BLAKE3 digest where there is one."""
    for file in files:
        if file.evidence:
            value = {"size": file.size, **({"sha256": file.sha256} if file.sha256 is not None else {})}
            yield seen(("checkpoint", "files", file.path), value, file.source, By.FILE, file.evidence)
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


def _cache(task: Task) -> digests.Cache | None:
    if task.cache == "off" or task.hashing == "none":
        return None
    where = digests.folder(os.environ, os.path.expanduser("~"))
    return digests.opened(task.root, where, everywhere=task.cache == "any", read=task.cache != "renew")


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
    common = {"path": name, "role": task.roles[name], "source": source}
    if held is not None:
        at = earlier.at if earlier is not None and made is None else ""
        return SeenFile(
            **common, size=held.stamp.size, sha256=held.sha256, evidence="computed" if made else "cached", hashed_at=at,
            blake3=held.blake3 if task.blake3 else None,
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
        findings.right("claimed_digests", f"{checked} files hold what their names or sidecars claim")


def _failures(
    failed: Mapping[str, hashing.Failed], made: Mapping[str, hashing.Digest], findings: Findings
) -> Iterator[Unobserved]:
    for name, outcome in failed.items():
        mend = (
            "wait until nothing writes it, then look again"
            if outcome.changed
            else "give lockllm read access to the file"
        )
        if outcome.changed:
            findings.wrong("files_stable", f"{name} {outcome.reason}", name, mend)
        yield Unobserved(("checkpoint", "files", name), outcome.reason, mend)
    if made:
        findings.right("files_stable", f"{len(made)} files stayed as they were")
