"""llm.lock: read strictly, and written by these bytes alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lockllm.documents import long_table, toml
from lockllm.documents.terms import MOST_PROBLEMS, Waiver, globbed, leaves, read_globs, read_policy, read_waivers
from lockllm.errors import LockError
from lockllm.facts import keys, registry
from lockllm.facts.fact import Fact, Path, Policy
from lockllm.facts.observation import Raw
from lockllm.facts.types import FILE

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

T = TypeVar("T")

VERSION = 1
HEADER = "# Locked by lockllm from {spec}. Edit that file, then run `lockllm lock`.\n"
LONG = (("checkpoint", "files"), ("checkpoint", "blake3"), ("prompt_probes",))
"""Tables that stand at the end, one fact a line."""
EDITION = 2
"""The rules that a new lock is judged by. A lock keeps its own: rules that came later only report on it."""
_RESERVED = (
    "lock_version",
    "edition",
    "spec",
    "facts",
    "accepted",
    "env_open",
    "unpinned",
    "absent",
    "asked",
    "requires",
    "policy",
    "waive",
)
_MOST_FACTS = 20_000  # besides files
# Of a policy or waiver and a fact of the group that it names: each takes more than a microsecond.
_MOST_PAIRS = 1_000_000
_SETTINGS = ("include", "exclude")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_PLAIN_NAME = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*\Z", re.ASCII)  # nearly all; it is ten times faster than the rest
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]|\A[A-Za-z]:[\\/]|\A[\\/]|(?:\A|[\\/])\.\.(?:[\\/]|\Z)")


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that identifies one serving system, as far as it was pinned."""

    values: Mapping[Path, Any] = {}  # parsed by each fact's type, or Raw
    absent: frozenset[Path] = frozenset()  # looked for and not there when the lock was made
    asked: Mapping[Path, Any] = {}  # what was typed when the lock was made, as it was typed
    unpinned: Mapping[Path, str] = {}  # why a fact or family is not held
    requires: Mapping[Path, str] = {}  # ranges of the spec, for `compatible`
    policy: Mapping[str, Policy] = {}  # by key or glob; what is not named is exact
    waive: tuple[Waiver, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    env_open: tuple[str, ...] = ()  # globs over names of variables that may differ
    via: Mapping[Path, str] = {}  # where a value comes from: a comment, never judged
    spec: str = "llm.toml"  # the spec's file name, beside the lock
    accepted: tuple[
        Path, ...
    ] = ()  # facts taken from a host where the spec resolves to another value: kept until upgraded
    edition: int = 1  # the rules that it is judged by: 1 where the lock names none
    name: str = ""  # the file that it was read from: the spec beside it may name the checkpoint
    warnings: tuple[str, ...] = ()

    def __getitem__(self, fact: Fact[T]) -> T:
        value: T = self.values[fact.path]
        return value

    def get(self, key: FactKey) -> Any:
        """The value of a dotted key, or None."""
        value = self.values.get(keys.parse(key))
        return value.value if isinstance(value, Raw) else value

    def selects(self, name: str) -> bool:
        """Whether a file of the checkpoint is one that `include` and `exclude` let in: `*` crosses `/`, a trailing `/` covers a folder."""
        included = not self.include or keys.file_globs(self.include).match(name) is not None
        return included and keys.file_globs(self.exclude).match(name) is None

    @property
    def order(self) -> list[Path]:
        """All that is held, absent or present, in registry order."""
        return registry.ordered({*self.values, *self.absent})


def read(text: str, name: str = "llm.lock") -> Lock:
    """The lock that a text holds. Raises LockError with all problems at once."""
    data = toml.load(text, name, LockError)
    _version(data, name, text)
    problems: list[LockError] = []

    def problem(path: Path, what: str, fix: str) -> None:
        problems.append(LockError(what, where=toml.place(name, text, path), fix=fix))
        if len(problems) == MOST_PROBLEMS:
            raise _all(problems)

    values: dict[Path, Any] = {}
    warnings: list[str] = []
    settings: dict[str, tuple[str, ...]] = {}
    for group, table in data.items():
        if group in _RESERVED:
            continue
        if not isinstance(table, dict):
            meant = registry.nearest(group, [*_RESERVED, *registry.GROUP])
            problem(
                (group,),
                f"{group} is not a table of facts",
                f"did you mean {meant}?" if meant else "run `lockllm lock`",
            )
            continue
        if group == "checkpoint":
            table = dict(table)
            for key in _SETTINGS:
                if key in table:
                    settings[key] = read_globs(table.pop(key), ("checkpoint", key), problem)
            values.update(_take_files(table))
        for path, raw in _leaves((group,), table):
            values[registry.current(path)] = _value(registry.current(path), raw, name, warnings, problem)
    lock = Lock(
        values=values,
        absent=_absent(data.get("absent", {}), problem),
        asked=_asked(data.get("asked", {}), problem),
        unpinned=_reasons("unpinned", data.get("unpinned", {}), problem),
        requires=_reasons("requires", data.get("requires", {}), problem),
        policy=read_policy(data.get("policy", {}), problem),
        waive=read_waivers(data.get("waive", []), problem, digests=data.get("edition", 1) != 1),
        include=settings.get("include", ()),
        exclude=settings.get("exclude", ()),
        env_open=read_globs(data.get("env_open", []), ("env_open",), problem),
        via=_vias(text),
        spec=_spec_name(data.get("spec", "llm.toml"), problem),
        accepted=_accepted(data.get("accepted", []), problem),
        edition=_edition(data.get("edition", 1), problem),
        warnings=tuple(warnings),
    )
    _whole(lock, data.get("facts"), problem)
    _within_bounds(lock, problem)
    for path in sorted(lock.absent & values.keys()):
        problem(path, f"{keys.dotted(path)} is locked and also listed in [absent]", "run `lockllm lock`")
    if problems:
        raise _all(problems)
    return lock


def _within_bounds(lock: Lock, problem: Any) -> None:
    if (count := _facts_besides_files(lock)) > _MOST_FACTS:
        problem(
            (), f"the file holds {count:,} facts besides files, at most {_MOST_FACTS:,} are read", "run `lockllm lock`"
        )
    if (pairs := _pairs(lock)) > _MOST_PAIRS:
        what = f"policies and waivers are held against facts {pairs:,} times: that is too often"
        problem(("policy",), what, "name the group in each")


def write(lock: Lock) -> str:
    """The bytes of a lock: registry order, one fact a line, short tables first. The same lock gives the same text."""
    _no_prefixes(lock)
    head = f"lock_version = {VERSION}\n"
    if lock.edition > 1:
        head += f"edition = {lock.edition}\nspec = {keys.quoted(lock.spec)}\nfacts = {_count(lock)}\n"
        if lock.accepted:
            head += f"accepted = {toml.value([keys.dotted(path) for path in registry.ordered(lock.accepted)])}\n"
    if lock.env_open:
        head += f"env_open = {toml.value(lock.env_open)}\n"
    parts = [HEADER.format(spec=_printable(lock.spec)), head]
    if lock.unpinned:
        parts.append(
            _table("unpinned", ((keys.dotted(path), lock.unpinned[path]) for path in registry.ordered(lock.unpinned)))
        )
    ordered = registry.ordered(lock.values)
    groups = list(dict.fromkeys(path[0] for path in ordered if _long(path) is None))
    if (lock.include or lock.exclude) and "checkpoint" not in groups:
        groups.insert(0, "checkpoint")
    for group in groups:
        lines = [_line(lock, path, 1) for path in ordered if path[0] == group and _long(path) is None]
        if group == "checkpoint":
            lines += [
                f"{key} = {toml.value(globs)}"
                for key, globs in (("include", lock.include), ("exclude", lock.exclude))
                if globs
            ]
        parts.append(f"[{keys.segment(group)}]\n" + "\n".join(lines) + "\n")
    if lock.absent:
        parts.append(_write_absent(lock.absent))
    if lock.asked:
        typed = ((path, toml.value(lock.asked[path])) for path in registry.ordered(lock.asked))
        parts.append("[asked]\n" + "".join(f"{keys.quoted(keys.dotted(path))} = {value}\n" for path, value in typed))
    if lock.requires:
        parts.append(
            _table("requires", ((keys.dotted(path), lock.requires[path]) for path in registry.ordered(lock.requires)))
        )
    if lock.policy:
        parts.append(_table("policy", ((glob, policy.value) for glob, policy in sorted(lock.policy.items()))))
    parts += [_write_waiver(waiver) for waiver in lock.waive]
    for long in LONG:
        lines = [_line(lock, path, len(long)) for path in ordered if _long(path) == long]
        if lines:
            parts.append(f"[{keys.dotted(long)}]\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def safe_name(name: str) -> bool:
    """Whether a file name of a lock stays inside the checkpoint: relative, no `..`, no control characters, no drive."""
    return bool(name) and len(name) <= 4096 and (_PLAIN_NAME.match(name) is not None or not _UNSAFE.search(name))


def _version(data: dict[str, Any], name: str, text: str) -> None:
    version = data.get("lock_version")
    if type(version) is int and version == VERSION:
        return
    where = toml.place(name, text, ("lock_version",))
    if version is None:
        raise LockError("the file holds no lock_version", where=where, fix="make a lock with `lockllm lock`")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise LockError(f"lock_version is {version!r}", where=where, fix="make a new lock with `lockllm lock`")
    if version > VERSION:
        raise LockError(
            f"lock_version {version} is newer than this lockllm reads ({VERSION})",
            where=where,
            fix="upgrade lockllm on this host",
        )


def _leaves(path: Path, table: Mapping[str, Any]) -> Iterable[tuple[Path, Any]]:
    return leaves(path, table, lambda here: not _holds_table(here))


def _facts_besides_files(lock: Lock) -> int:
    held = len(lock.values) + len(lock.absent)
    return held if held <= _MOST_FACTS else sum(path[:2] != LONG[0] for path in (*lock.values, *lock.absent))


def _pairs(lock: Lock) -> int:
    """How often a policy or waiver is held against a fact."""
    if not lock.policy and not lock.waive:
        return 0
    groups = Counter(path[0] for path in (*lock.values, *lock.absent))
    globs = [*map(keys.Glob, lock.policy), *(glob for glob, _ in globbed(lock.waive))]
    return sum(count for group, count in groups.items() for glob in globs if glob.enters(group))


def _holds_table(path: Path) -> bool:
    row = registry.find(path)
    return row.type is FILE or (row.path in {each.path for each in registry.ROWS} and "type" not in row.type.schema)


def _take_files(checkpoint: dict[str, Any]) -> dict[Path, Any]:
    """The lines of files that are as `lock` writes them, taken out at once: there may be ten thousand. Odd ones stay."""
    files = checkpoint.get("files")
    taken: dict[Path, Any] = {}
    if not isinstance(files, dict):
        return taken
    for name, raw in files.items():
        if raw.__class__ is dict and len(raw) == 2 and raw.get("size").__class__ is int and 0 <= raw["size"] < 2**63:
            digest = raw.get("sha256")
            if digest.__class__ is str and _SHA256.match(digest) and safe_name(name):
                taken[("checkpoint", "files", name)] = raw
    if len(taken) < len(files):
        checkpoint["files"] = {name: raw for name, raw in files.items() if ("checkpoint", "files", name) not in taken}
    elif taken:
        del checkpoint["files"]
    return taken


def _value(path: Path, raw: Any, name: str, warnings: list[str], problem: Any) -> Any:
    row = registry.find(path)
    if row.type is FILE:
        if not safe_name(path[-1]):
            problem(
                path,
                f"{path[-1]!r} is not a valid file name inside a checkpoint",
                "remove the line, or run `lockllm lock`",
            )
        try:
            value = row.type.parse(raw)
            if "sha256" not in value:
                raise ValueError('{ size = BYTES, sha256 = "…" }')
            return value
        except ValueError as error:
            problem(path, f"{row.key} must be {error}", "run `lockllm lock`")
            return Raw(raw)
    value = registry.read(row, raw)
    if not row.known:
        warnings.append(f"{name}: this release does not know {row.key}; it is compared by plain equality")
    elif isinstance(value, Raw):
        warnings.append(f"{name}: {row.key} is not of type {row.type.name}; it is compared by plain equality")
    return value


def _absent(raw: Any, problem: Any) -> frozenset[Path]:
    found: set[Path] = set()
    if not isinstance(raw, dict):
        problem(("absent",), "absent is not a table", "run `lockllm lock`")
        return frozenset()
    for group, rests in raw.items():
        if not isinstance(rests, list) or not all(isinstance(rest, str) for rest in rests):
            problem(("absent", group), f"absent.{group} must be a list of texts", "run `lockllm lock`")
            continue
        for rest in rests:
            try:
                alone = rest == group and registry.find((group, rest)).known is False
                found.add((group,) if alone else registry.current((group, *keys.parse(rest))))
            except ValueError:
                problem(("absent", group), f"{rest!r} is not a key", "run `lockllm lock`")
    return frozenset(found)


def _reasons(table: str, raw: Any, problem: Any) -> dict[Path, str]:
    found: dict[Path, str] = {}
    if not isinstance(raw, dict):
        problem((table,), f"{table} is not a table", "run `lockllm lock`")
        return found
    for path, reason in leaves((), raw):
        key = path[0] if len(path) == 1 else keys.dotted(path)
        if not isinstance(reason, str):
            problem((table, *path), f"{table} of {key} must be a text", "run `lockllm lock`")
            continue
        try:
            found[registry.current(keys.parse(key))] = reason
        except ValueError:
            problem((table, *path), f"{key!r} is not a key", "run `lockllm lock`")
    return found


def _all(problems: list[LockError]) -> LockError:
    first, *rest = problems
    return LockError(first.what, where=first.where, fix=first.fix, also=tuple(rest))


_VIA_MARK = "  # via "
_VIA = re.compile(r"""^((?:"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.-])+) = (.*)  # via ([ -~]{1,80})$""")


def _vias(text: str) -> dict[Path, str]:
    table: Path = ()
    found: dict[Path, str] = {}
    head, _, files = text.partition(long_table.HEADER)
    for line in (text if _VIA_MARK in files else head).splitlines():
        if line.startswith("["):
            try:
                table = keys.parse(line.strip().strip("[]"))
            except ValueError:
                table = ()
        elif _VIA_MARK in line and (match := _VIA.match(line)) and _is_whole(match.group(2)):
            try:
                path = (*table, *keys.parse(match.group(1)))
                found[registry.current(path)] = match.group(3)
            except ValueError:
                continue
    return found


def _is_whole(value: str) -> bool:
    """Whether a value ends here: an odd quote would put the comment inside a text."""
    return value.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0


def _spec_name(raw: Any, problem: Any) -> str:
    """The spec's file name. It is a field and no comment: which checkpoint is looked at may depend on it."""
    if isinstance(raw, str) and raw not in ("", ".", "..") and not re.search(r"[\x00-\x1f\x7f/\\]", raw):
        return raw
    problem(("spec",), f"spec must be the name of a file beside the lock, found {raw!r}", "run `lockllm lock`")
    return "llm.toml"


def _accepted(raw: Any, problem: Any) -> tuple[Path, ...]:
    """The keys of the facts that were taken from a host."""
    try:
        if isinstance(raw, list) and all(isinstance(each, str) for each in raw):
            return tuple(registry.current(keys.parse(each)) for each in raw)
    except ValueError:
        pass
    problem(("accepted",), "accepted must be a list of keys", "run `lockllm lock`")
    return ()


def _edition(raw: Any, problem: Any) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool) and 1 <= raw <= EDITION:
        return raw
    newer = isinstance(raw, int) and not isinstance(raw, bool) and raw > EDITION
    what = f"edition {raw} is newer than this lockllm knows ({EDITION})" if newer else f"edition is {raw!r}"
    problem(("edition",), what, "upgrade lockllm on this host" if newer else "run `lockllm lock`")
    return 1


def _asked(raw: Any, problem: Any) -> dict[Path, Any]:
    typed: dict[Path, Any] = {}
    if not isinstance(raw, dict):
        problem(("asked",), "asked is not a table", "run `lockllm lock`")
        return typed
    for key, value in raw.items():
        try:
            typed[registry.current(keys.parse(key))] = value
        except ValueError:
            problem(("asked", key), f"{key!r} is not a key", "run `lockllm lock`")
    return typed


def _count(lock: Lock) -> int:
    return len(lock.values) + len(lock.absent) + len(lock.asked)


def _whole(lock: Lock, counted: Any, problem: Any) -> None:
    """A lock that lost lines is refused: what it no longer names would never be looked at.

    A lock with more lines than its count is complete: two branches that add one line each merge to that without a conflict.
    """
    if lock.edition < 2:
        return
    fix = f"restore it from git; after merging by hand, write facts = {_count(lock)}"
    if counted is None:
        problem(("facts",), "the lock does not say how many facts it holds", fix)
    elif isinstance(counted, bool) or not isinstance(counted, int) or counted > _count(lock):
        problem(
            ("facts",), f"the lock holds {_count(lock):,} facts and says facts = {counted!r}: lines are missing", fix
        )
    files = {path[-1]: value for path, value in lock.values.items() if path[:2] == LONG[0]}
    stated = lock.values.get(("checkpoint", "content_sha256"))
    if isinstance(stated, str) and (held := _content_sha256(files)) is not None and held != stated:
        what = f"checkpoint.content_sha256 is {stated[:12]}, the files listed below give {held[:12]}: a line was changed or lost"
        problem(("checkpoint", "content_sha256"), what, "restore it from git, or run `lockllm lock --upgrade`")


def _content_sha256(files: Mapping[str, Any]) -> str | None:
    """The digest over the listed files as `checkpoint.content_sha256` has it; None where an entry holds no digest."""
    from hashlib import sha256

    if any(isinstance(value, Raw) or "sha256" not in value for value in files.values()):
        return None
    lines = sorted(f"{value['sha256']}  {name}\n".encode("utf-8", "surrogateescape") for name, value in files.items())
    return sha256(b"".join(lines)).hexdigest()


def _long(path: Path) -> Path | None:
    return next((long for long in LONG if path[: len(long)] == long and len(path) > len(long)), None)


def _line(lock: Lock, path: Path, depth: int) -> str:
    row = registry.find(path)
    text = f"{keys.dotted(path[depth:])} = {toml.value(registry.dump(row, lock.values[path]))}"
    via = lock.via.get(path)
    group = registry.GROUP.get(path[0])
    if not via or depth > 1 or (group is not None and not group.via):
        return text
    return f"{text}  # via {' '.join(_printable(via).split())[:80].rstrip()}"


def _printable(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def _table(name: str, lines: Iterable[tuple[str, str]]) -> str:
    return f"[{name}]\n" + "".join(f"{keys.quoted(key)} = {keys.quoted(text)}\n" for key, text in lines)


def _write_absent(absent: Iterable[Path]) -> str:
    groups: dict[str, list[str]] = {}
    for path in registry.ordered(absent):
        groups.setdefault(path[0], []).append(keys.dotted(path[1:]) if len(path) > 1 else path[0])
    lines = ["[absent]\n"]
    for group, rests in groups.items():
        lines.append(f"{keys.segment(group)} = [\n" + "".join(f"  {keys.quoted(rest)},\n" for rest in rests) + "]\n")
    return "".join(lines)


def _write_waiver(waiver: Waiver) -> str:
    lines = [
        "[[waive]]",
        f"fact = {keys.quoted(waiver.fact)}",
        f"found = {toml.value(waiver.found)}",
        f"reason = {keys.quoted(waiver.reason)}",
    ]
    if waiver.until:
        lines.append(f"until = {waiver.until}")
    return "\n".join(lines) + "\n"


def _no_prefixes(lock: Lock) -> None:
    for path in lock.values:
        for length in range(1, len(path)):
            if path[:length] in lock.values:
                above = keys.dotted(path[:length])
                raise LockError(
                    f"{above} and {keys.dotted(path)} cannot both be locked", where=lock.spec, fix="name one of them"
                )
