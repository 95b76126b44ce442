"""What the paths hold that a command's options and variables name: locked is the content, wherever it lies."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from lockllm.checkpoint import cache as digests
from lockllm.checkpoint import hashing, links, stamps
from lockllm.checkpoint.bounded import Malformed, open_regular
from lockllm.checkpoint.reading import Cache, memory
from lockllm.engines import Given, PathGiven
from lockllm.engines.kernel.collect import is_path
from lockllm.facts.fact import Path as Key
from lockllm.facts.fact import Stage
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen

Place = Callable[[str], "str | None"]
"""Where a path of the command is to be opened; None where it cannot be reached from here."""

_MOST_LIVE = 64 << 20
"""Hashed at stage live at most: it is to take less than a second."""
_KEPT = 64 << 20
"""A projector or draft model of this size is hashed as weights are: its digest is kept, and read again from the cache."""
_MOST_FILES = 10_000
_MOST = 64 << 30


class Content(msgspec.Struct, frozen=True):
    """What one path holds: a digest, the name that it is, or why neither is known."""

    digest: str | None = None
    name: str | None = None
    reason: str = ""
    due: Stage | None = None
    evidence: str = "computed"


def readings(
    given: Given, located: Place, by: By, *, live: bool = False, cache: Cache = "off"
) -> Iterator[Reading | Unobserved]:
    """A reading for every fact that is given as one path or several, or why there is none.

    `cache`: where the digests of large files come from and go to, as for those of a checkpoint.
    """
    grouped: dict[Key, list[PathGiven]] = {}
    for one in given.paths:
        grouped.setdefault(one.fact.path, []).append(one)
    for path, held in grouped.items():
        contents = [content(each, located, live=live, cache=cache) for each in held]
        missing = next(((one, each) for one, each in zip(held, contents, strict=True) if each.reason), None)
        if missing is not None:
            one, why = missing
            gap = Unobserved(path, f"{one.path} ({one.source}) {why.reason}", "check the server's mounts")
            yield gap if why.due is None else msgspec.structs.replace(gap, due=why.due)
            continue
        values = [value(one, each) for one, each in zip(held, contents, strict=True)]
        evidence = "cached" if any(each.evidence == "cached" for each in contents) else "computed"
        yield seen(path, values[0] if len(values) == 1 else values, _source(held), by, evidence)


def value(one: PathGiven, found: Content) -> str:
    """How a content stands in the fact."""
    return one.form.format(f"sha256:{found.digest}" if found.digest is not None else found.name)


def content(one: PathGiven, located: Place, *, live: bool = False, cache: Cache = "off") -> Content:
    """What one path holds."""
    where = located(one.path)
    if where is None:
        absent = Content(reason="is inside the container")
        return Content(name=one.path) if _may_be_name(one) else absent
    try:
        if os.path.isdir(links.inner(where)):
            if one.file_only:
                return Content(name=one.path)
            if one.inside:
                return _of_file(os.path.join(where, one.inside), live, cache)
            return Content(digest=_folder(where))
        return _of_file(where, live, cache)
    except (FileNotFoundError, NotADirectoryError):
        if _may_be_name(one):
            return Content(name=one.path)
        return Content(reason="is not there")
    except (OSError, ValueError) as error:
        return Content(reason=f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _may_be_name(one: PathGiven) -> bool:
    return one.or_name and (one.file_only or not is_path(one.path))


def _source(held: list[PathGiven]) -> str:
    """`argument --lora a.gguf`: the option and what was typed."""
    words = " ".join(each.path for each in held)
    return f"{held[0].source} {words}"


def _of_file(path: str, live: bool, cache: Cache) -> Content:
    size = _size(path) if live or cache != "off" else 0
    if live and size > _MOST_LIVE:
        return Content(reason=f"is larger than {_MOST_LIVE >> 20} MiB, and is not hashed at stage live", due=Stage.ALL)
    if size > _KEPT:
        return _large(path, size, cache)
    return Content(digest=_file(path))


def _large(path: str, size: int, cache: Cache) -> Content:
    """The digest of a large file: one that is kept where nothing moved since, else computed and kept."""
    if size > _MOST:
        raise ValueError(f"it is larger than {_MOST >> 30} GiB")
    root = links.real(path)
    kept = memory(root, cache)
    found = digests.look_up(kept, "", root)[0] if kept is not None else None
    if found is not None and found.sha256:
        stamps.holds(path, stamps.Held("sha256", found.sha256, None, found.stamp))
        return Content(digest=found.sha256, evidence="cached")
    settle = digests.settler(kept) if kept is not None and kept.file is not None else None
    made = hashing.digest([hashing.Job("", root, size, settle=settle)])[""]
    if isinstance(made, hashing.Failed):
        raise ValueError(made.reason)
    if kept is not None:
        digests.keep(kept, {"": (root, made)})
        digests.write(kept)
    stamps.holds(path, stamps.Held("sha256", made.sha256, None, made.stamp))
    return Content(digest=made.sha256)


def _size(path: str) -> int:
    with _opened(path) as stream:
        return os.fstat(stream.fileno()).st_size


def _opened(path: str) -> BinaryIO:
    try:
        return open(open_regular(path), "rb")
    except Malformed as problem:
        raise ValueError(f"it {problem}") from problem


def _file(path: str) -> str:
    digest = hashlib.sha256(usedforsecurity=False)
    size = 0
    with _opened(path) as stream:
        first = stamps.stamp(os.fstat(stream.fileno()))
        while block := stream.read(1 << 20):
            size += len(block)
            if size > _MOST:
                raise ValueError(f"it is larger than {_MOST >> 30} GiB")
            digest.update(block)
    stamps.holds(path, stamps.Held("sha256", digest.hexdigest(), None, first))
    return digest.hexdigest()


def _folder(path: str) -> str:
    """As `checkpoint.content_sha256`: over the byte-sorted lines `<sha256>  <path>`."""
    lines: list[bytes] = []
    for name in sorted(_walk(path)):
        if len(lines) > _MOST_FILES:
            raise ValueError("it holds too many files")
        lines.append(f"{_file(os.path.join(path, name))}  {name}\n".encode("utf-8", "surrogateescape"))
    return hashlib.sha256(b"".join(sorted(lines)), usedforsecurity=False).hexdigest()


def _walk(path: str) -> Iterator[str]:
    base = links.inner(path)
    for folder, _, names in os.walk(base):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), base)
