"""Findings about how files lie: what is missing, dangling, unfinished, outside, or no file at all."""

from __future__ import annotations

from collections.abc import Iterator

from lockllm.checkpoint import placeholders, weights
from lockllm.checkpoint.bounded import Malformed, read_head
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry
from lockllm.checkpoint.layout import Found
from lockllm.checkpoint.selection import BUILT, CONFIG, ENGINE, TOKENIZER, WEIGHTS, Selection, is_leftover, select
from lockllm.facts.observation import ABSENT, By, Reading, Unobserved
from lockllm.facts.registry import seen

_AGAIN = "download the checkpoint again"
_SMALL_WEIGHTS = 2**20  # what lies in place of weights is shorter; of longer ones the header tells


def lying(found: Found, selection: Selection, findings: Findings) -> Iterator[Reading | Unobserved]:
    """Judges the listing; yields what stands in place of files that should be there."""
    for entry in found.listing.entries:
        yield from _entry(entry, entry.path in selection.kept, findings)
    if found.listing.cut:
        what, fix = f"the folder holds {found.listing.cut}", "name the checkpoint's own folder"
        findings.wrong("files_listed", what, found.layout.root, fix)
        yield Unobserved(("checkpoint", "files"), what, fix)
    kept = len(selection.kept)
    findings.right("links_resolve", f"{kept} files lie where they should")
    findings.right("regular_files", f"{kept} files are regular")
    findings.right("file_names", f"{kept} names are plain")
    for one, other in found.listing.twins:
        if one in selection.kept or other in selection.kept:
            findings.wrong(
                "file_names", f"{one!r} and {other!r} are one name on some systems", other, "remove one of them"
            )
    _incomplete(found, findings)
    _pointers(found, selection, findings)
    _sets(found, selection, findings)
    _whole(found, selection, findings)
    _commits(found, selection, findings)


def _entry(entry: Entry, is_kept: bool, findings: Findings) -> Iterator[Reading | Unobserved]:
    if not entry.problem:
        return
    fact = ("checkpoint", "files", entry.path)
    if entry.kind == "folder_link":
        if not entry.path.startswith("."):
            findings.wrong(
                "links_resolve", f"{entry.path} {entry.problem}: it is not followed", entry.path, "copy the folder"
            )
        return
    if not is_kept and entry.kind != "name":
        return
    if entry.kind == "dangling":
        findings.wrong("links_resolve", f"{entry.path} {entry.problem}", entry.path, _AGAIN)
        yield seen(fact, ABSENT, entry.problem, By.FILE)
        return
    fixes = {
        "escaping": ("links_resolve", "copy the file into the checkpoint"), "special": ("regular_files", "remove it"),
        "name": ("file_names", "rename it"), "unreadable": ("links_resolve", "give lockllm read access"),
    }  # fmt: skip
    check, fix = fixes[entry.kind]
    findings.wrong(check, f"{entry.path!r} {entry.problem}", entry.path, fix)
    yield Unobserved(fact, entry.problem, fix)


def _incomplete(found: Found, findings: Findings) -> None:
    name = "no_incomplete_downloads"
    left = [*found.place.incomplete, *(entry.path for entry in found.listing.entries if is_leftover(entry.path))]
    for each in left:
        findings.wrong(
            name, f"{each} is a download that did not end", each, "let the download end, or run `hf download` again"
        )
    findings.right(name, "no leftover of a download")


def _pointers(found: Found, selection: Selection, findings: Findings) -> None:
    """What lies in the place of content: of every file that reaches inference the first bytes are looked at."""
    for path, entry in found.listing.files.items():
        role = selection.kept.get(path)
        if role is None or not entry.real or (role in {WEIGHTS, ENGINE} and entry.size > _SMALL_WEIGHTS):
            continue
        try:
            head = read_head(entry.real, placeholders.HEAD)
        except Malformed:
            continue
        if problem := placeholders.problem(path, role, head, entry.size):
            known = "LFS pointer" in problem and role in {WEIGHTS, TOKENIZER}
            weights.replaced(path, problem, findings, since=1 if known else 2)
    findings.right("no_pointer_files", "no pointer, web page or error in place of content")


def _sets(found: Found, selection: Selection, findings: Findings) -> None:
    if not selection.format:
        return
    for kind, files in selection.second.items():
        if any(file in selection.excluded for file in files):
            detail = f"{len(files)} {kind} {'file' if len(files) == 1 else 'files'} beside the {selection.format} weights: {files[0]}"
            findings.wrong(
                "one_weight_set", detail, files[0], "remove the set that is not served, or name it with include"
            )
    findings.right("one_weight_set", f"one set of {selection.format} weights")


def _whole(found: Found, selection: Selection, findings: Findings) -> None:
    names = set(found.listing.files)
    has_weights = any(
        held in {WEIGHTS, ENGINE} or name.startswith("adapter_model") for name, held in selection.kept.items()
    )
    if not has_weights:
        findings.wrong("files_complete", "no weight file is there", "", _AGAIN)
    if selection.format in {"safetensors", "bin", "pt", BUILT} and "config.json" not in names:
        findings.wrong("files_complete", "config.json is missing", "", _AGAIN)
    if found.layout.file is not None and found.layout.file not in names:
        findings.wrong("files_complete", f"{found.layout.file} cannot be read", found.layout.file, _AGAIN)
    listed = {entry.path for entry in found.listing.entries}
    for name in sorted(_unheld(found, listed, has_weights)):
        findings.wrong("files_complete", f"{name} is missing, the Hub's listing names it", "trees/", _AGAIN)
    for name, size in found.place.sizes.items():
        entry = found.listing.files.get(name)
        if entry is not None and name in selection.kept and entry.size != size:
            detail = f"{name} has {entry.size:,} bytes, the Hub's listing says {size:,}"
            findings.wrong("claimed_digests", detail, name, "delete the file and download it again")
    findings.right("files_complete", f"{len(selection.kept)} files, none is missing")


def _unheld(found: Found, listed: set[str], has_weights: bool) -> set[str]:
    """What the Hub listed and is not there: configuration, and weights where there are none at all."""
    if not found.place.sizes:
        return set()
    wanted = {CONFIG} if has_weights else {CONFIG, WEIGHTS}
    return {name for name, held in select({*listed, *found.place.sizes}).kept.items() if held in wanted} - listed


def _commits(found: Found, selection: Selection, findings: Findings) -> None:
    commits = {found.place.commits[name] for name in selection.kept if name in found.place.commits}
    if len(commits) > 1:
        short = ", ".join(sorted(commit[:12] for commit in commits))
        findings.wrong(
            "one_commit", f"files were downloaded from {len(commits)} commits: {short}", ".cache/huggingface", _AGAIN
        )
    elif found.layout.commit is not None:
        findings.right("one_commit", f"all of {found.layout.commit[:12]}", found.layout.source)
