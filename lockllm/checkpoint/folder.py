"""What lies in a folder: every file below it, where links lead, and what is no file at all. Nothing is opened."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence

import msgspec

from lockllm.checkpoint import bounded, links
from lockllm.checkpoint.stamps import Stamp, stamp
from lockllm.facts.checkpoint import MOST_FILES

MOST = MOST_FILES
"""Entries that are listed below one root."""
_DEEP = 24


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One file below the root, or what stands in its place. `problem` says why it cannot be read as a file."""

    path: str  # logical, relative, with `/`
    real: str  # where its bytes are
    size: int = 0
    first_link: str | None = None  # what the name itself links to, one level only
    stamp: Stamp | None = None  # of the bytes, when they were listed
    atime_ns: int = 0
    link_ns: int = 0  # when the link that bears the name was last changed
    problem: str = ""
    kind: str = "file"  # file, dangling, escaping, special, folder_link, unreadable, name


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """All entries below a root, sorted by path. `cut` where there are more than are listed."""

    entries: tuple[Entry, ...]
    cut: str = ""
    twins: tuple[tuple[str, str], ...] = ()  # names that are one on other file systems

    @property
    def files(self) -> dict[str, Entry]:
        """The entries that are files, by path."""
        return {entry.path: entry for entry in self.entries if not entry.problem}


def listing(root: str, allowed: tuple[str, ...] = ()) -> Listing:
    """Lists a folder. Links may lead anywhere below `root` (without links) or below one of `allowed`."""
    entries: list[Entry] = []
    cut = ""
    for entry in _walk(root, "", (root, *allowed), 0):
        if len(entries) >= MOST:
            cut = f"more than {MOST:,} entries"
            break
        if entry.kind == "deep":
            cut = f"folders nested deeper than {_DEEP}"
            continue
        entries.append(entry)
    entries.sort(key=lambda entry: entry.path)
    return Listing(entries=tuple(entries), cut=cut, twins=twins(entries))


def _walk(root: str, below: str, allowed: tuple[str, ...], depth: int) -> Iterator[Entry]:
    folder = os.path.join(root, below) if below else root
    if depth > _DEEP:
        yield Entry(path=below, real=folder, kind="deep")
        return
    try:
        with os.scandir(folder) as found:
            children = sorted(found, key=lambda child: child.name)
    except OSError as error:
        if not below:
            raise
        yield Entry(path=below, real=folder, kind="unreadable", problem=bounded.why(error))
        return
    for child in children:
        path = f"{below}/{child.name}" if below else child.name
        if not plain(child.name):
            yield Entry(
                path=path, real=child.path, kind="name", problem="its name holds control characters or no UTF-8"
            )
        elif child.is_dir(follow_symlinks=False):
            if not child.name.startswith("."):
                yield from _walk(root, path, allowed, depth + 1)
        else:
            yield _entry(path, child.path, child.is_symlink(), allowed)


def one(root: str, name: str, allowed: tuple[str, ...]) -> Entry | None:
    """The entry of one name in a folder, or None where nothing has that name."""
    place = os.path.join(root, name)
    return _entry(name, place, os.path.islink(place), allowed) if os.path.lexists(place) else None


def _entry(path: str, place: str, is_link: bool, allowed: tuple[str, ...]) -> Entry:
    target, first = place, None
    try:
        if is_link:
            first = os.readlink(place)
            target = links.real(place)
        status = os.stat(target, follow_symlinks=False)
    except FileNotFoundError:
        problem = f"links to {first}, which is not there" if is_link else "is gone"
        return Entry(path=path, real=target, first_link=first, kind="dangling", problem=problem)
    except OSError as error:
        return Entry(path=path, real=target, first_link=first, kind="unreadable", problem=bounded.why(error))
    if stat.S_ISLNK(status.st_mode):
        return Entry(
            path=path, real=target, first_link=first, kind="dangling", problem=f"links to {first}, in a circle"
        )
    if is_link and not any(links.inside(target, folder) for folder in allowed):
        return Entry(path=path, real=target, first_link=first, kind="escaping", problem=f"links to {target}, outside")
    if stat.S_ISDIR(status.st_mode):
        return Entry(path=path, real=target, first_link=first, kind="folder_link", problem="is a link to a folder")
    if not stat.S_ISREG(status.st_mode):
        problem = f"is {bounded.kind(status.st_mode)}"
        return Entry(path=path, real=target, first_link=first, kind="special", problem=problem)
    return Entry(
        path=path, real=target, size=status.st_size, first_link=first, stamp=stamp(status), atime_ns=status.st_atime_ns,
        link_ns=os.lstat(place).st_ctime_ns if is_link else 0,
    )  # fmt: skip


def plain(name: str) -> bool:
    """Whether a file name is text: no control characters, no bytes that are no UTF-8, no marks that turn text around."""
    if name.isascii() and name.isprintable():
        return True
    return not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in name)


def twins(entries: Sequence[Entry]) -> tuple[tuple[str, str], ...]:
    """Pairs of names that differ only in case or composition."""
    seen: dict[str, str] = {}
    twins = []
    for entry in entries:
        folded = unicodedata.normalize("NFC", entry.path).casefold()
        other = seen.setdefault(folded, entry.path)
        if other != entry.path:
            twins.append((other, entry.path))
    return tuple(twins)
