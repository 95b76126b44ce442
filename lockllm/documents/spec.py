"""llm.toml: what a person wants locked. Strict in everything, and all problems are told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from lockllm.documents import toml
from lockllm.documents.terms import MOST_PROBLEMS, Waiver, read_globs, read_policy, read_waivers, shown
from lockllm.errors import SpecError
from lockllm.facts import gpu_names, keys, registry
from lockllm.facts.check import CHECKS
from lockllm.facts.fact import Fact, Path, Policy
from lockllm.facts.observation import Raw
from lockllm.facts.types import GPU, PACKAGE, RELEASE, VERSION

_CHECKPOINT = ("repo", "path", "revision", "include", "exclude")
MOST_VARIANTS = 500
"""Variants of one spec: each is resolved whole."""
_TABLES = ("checkpoint", "engine", "serve", "host", "cuda", "sampling", "policy", "waive", "variant", "env_open")
_RANGE = re.compile(r"\s*(===|==|!=|<=|>=|<|>|~=)")
_BUILD = re.compile(
    r"(\s*(===|==|!=|<=|>=|<|>|~=)?\s*b?\d[\w.+*!-]*\s*)(,(\s*(===|==|!=|<=|>=|<|>|~=)\s*b?\d[\w.+*!-]*\s*))*\Z"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?\Z")
POSITIVE: frozenset[Path] = frozenset(
    {("serve", f"{size}_parallel_size") for size in ("tensor", "pipeline", "data", "expert")}
    | {("serve", "max_num_seqs")}
)
"""Counts of which none makes no server."""
Problem = Callable[[Path, str, str], None]


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A spec as written, one variant of it. `values` are parsed facts; what is `auto` is resolved by the engine's rule."""

    name: str = "llm.toml"
    repo: str | None = None
    path: str | None = None
    revision: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    env_open: tuple[str, ...] = ()  # globs over names of variables that may differ between hosts
    engine: str | None = None
    engine_version: str | None = None  # a specifier, or an exact version
    values: Mapping[Path, Any] = {}
    auto: frozenset[Path] = frozenset()
    requires: Mapping[Path, str] = {}
    policy: Mapping[str, Policy] = {}
    waive: tuple[Waiver, ...] = ()
    variants: Mapping[str, Spec] = {}  # each already overlaid
    lines: Mapping[Path, int] = {}
    paths: Mapping[Path, str] = {}  # of a tokenizer, a draft model or an adapter that is a folder or file here
    template: str | None = None  # the text of the file or text that `serve.chat_template` names, as the engine keeps it
    template_flag: str = ""  # the option that puts it in force

    def where(self, key: str) -> str:
        """`llm.toml, line 9` for a dotted key."""
        line = self.lines.get(keys.parse(key))
        return f"{self.name}, line {line}" if line else self.name


class Engines(Protocol):
    """Which engines there are: this room knows none by name. `lockllm.engines` is one."""

    def known(self, name: object) -> bool:
        """Whether there is an engine of that name."""

    def names(self) -> Sequence[str]:
        """Their names, for an error that lists them."""


def read(text: str, name: str = "llm.toml", *, table: tuple[str, ...] = (), engines: Engines | None = None) -> Spec:
    """The spec in a TOML text, or in one table of it (`("tool", "lockllm")` of a pyproject.toml). Raises SpecError.

    Without `engines` any name of an engine is taken.
    """
    data: Any = toml.load(text, name, SpecError)
    for part in table:
        data = data.get(part, {}) if isinstance(data, dict) else {}
    if not isinstance(data, dict) or not data:
        what = f"there is no [{'.'.join(table)}]" if table else "the file is empty"
        raise SpecError(what, where=name, fix="write one with `lockllm init PATH`")
    problems: list[SpecError] = []

    def problem(path: Path, what: str, fix: str) -> None:
        problems.append(SpecError(what, where=toml.place(name, text, (*table, *path)), fix=fix))
        if len(problems) == MOST_PROBLEMS:
            raise _all(problems)

    variants = data.pop("variant", {})
    spec = _read(data, name, problem, engines)
    overlaid: dict[str, Spec] = {}
    if not isinstance(variants, dict) or not all(isinstance(each, dict) for each in variants.values()):
        problem(("variant",), "variant is not a table of tables", "write [variant.NAME.host]")
        variants = {}
    if len(variants) > MOST_VARIANTS:
        what = f"there are {len(variants):,} variants, at most {MOST_VARIANTS:,} are read"
        problem(("variant",), what, "keep those that are in use")
        variants = {}
    for variant, overlay in variants.items():
        if not _NAME.match(variant):
            problem(("variant", variant), f"{variant!r} is not a valid variant name", "write letters, digits, - and _")
            continue

        def nested(path: Path, what: str, fix: str, variant: str = variant, overlay: Any = overlay) -> None:
            if _within(overlay, path):
                problem(("variant", variant, *path), f"variant {variant}: {what}", fix)

        overlaid[variant] = _read(_overlay(data, overlay), name, nested, engines)
    lines = {path: line for path in _paths(spec) if (line := toml.line_of(text, (*table, *path))) is not None}
    if not problems and spec.repo is None and spec.path is None:
        problem(
            ("checkpoint",),
            "the spec names no checkpoint",
            'write [checkpoint] and repo = "OWNER/NAME" or path = "DIR"',
        )
    if not problems and spec.engine is None:
        one_of = f" (one of {', '.join(engines.names())})" if engines is not None else ""
        problem(("engine",), "the spec names no engine", f'write [engine] and name = "vllm"{one_of}')
    if problems:
        raise _all(problems)
    return msgspec.structs.replace(spec, variants=overlaid, lines=lines)


def _all(problems: list[SpecError]) -> SpecError:
    first, *rest = sorted(problems, key=_line)
    return SpecError(first.what, where=first.where, fix=first.fix, also=tuple(rest))


def _line(problem: SpecError) -> int:
    digits = problem.where.rpartition(", line ")[2]
    return int(digits) if digits.isdigit() else 0


def is_range(text: object) -> bool:
    """Whether a version is given as a range (`>=550.54.14`), not as one version."""
    return isinstance(text, str) and bool(_RANGE.match(text))


def _read(data: Mapping[str, Any], name: str, problem: Problem, engines: Engines | None) -> Spec:
    fields: dict[str, Any] = {"name": name}
    facts = _Facts(problem)
    for group, table in data.items():
        if group == "policy":
            fields["policy"] = _policy(table, problem)
        elif group == "env_open":
            fields["env_open"] = read_globs(table, ("env_open",), problem)
        elif group == "waive":
            fields["waive"] = _waivers(table, problem)
        elif group not in registry.GROUP or not any(row.settable for row in _rows(group)):
            meant = registry.nearest(group, [*_TABLES, *registry.GROUP])
            problem((group,), f"there is no table {group}", f"did you mean [{meant}]?" if meant else "remove it")
        elif not isinstance(table, dict):
            problem((group,), f"{group} is not a table", f"write [{group}]")
        elif group == "checkpoint":
            fields |= _checkpoint(table, problem)
        else:
            facts.read((group,), table)
    engine, version = facts.values.pop(("engine", "name"), None), facts.values.pop(("engine", "version"), None)
    requires = dict(facts.requires)
    if engine is not None and engines is not None and not engines.known(engine):
        names = list(engines.names())
        meant = registry.nearest(str(engine), names)
        hint = f"did you mean {meant}?" if meant else f"write one of {', '.join(names)}"
        problem(("engine", "name"), f"there is no engine {engine!r}", hint)
    version = requires.get(("engine", "version"), version)
    if version is not None and not _BUILD.match(str(version)):
        problem(
            ("engine", "version"),
            f"engine.version is {version!r}",
            'write a range such as ">=0.10,<0.11" or one version',
        )
    return Spec(
        **fields, engine=engine, engine_version=version, values=facts.values, auto=frozenset(facts.auto), requires=requires,
        paths=facts.paths,
    )  # fmt: skip


class _Facts:
    """The facts of a spec, read table by table."""

    def __init__(self, problem: Problem) -> None:
        self.values: dict[Path, Any] = {}
        self.auto: set[Path] = set()
        self.requires: dict[Path, str] = {}
        self.paths: dict[Path, str] = {}
        self._problem = problem

    def read(self, base: Path, table: Mapping[str, Any]) -> None:
        for key, raw in table.items():
            path = registry.current((*base, key))
            row = registry.find(path)
            if key == "path" and _stands_beside(base):
                self._path(base, raw, table)
            elif isinstance(raw, dict) and (not row.known or registry.family(path) is not None or row.type.schema):
                self.read(path, raw)
            else:
                self._fact(path, row, raw)

    def _path(self, base: Path, raw: Any, table: Mapping[str, Any]) -> None:
        """Where a model beside the checkpoint lies: its files are locked, its place is not."""
        path = (*base, "path")
        if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
            self._problem(path, f"{keys.dotted(path)} must be a text, found {shown(raw)}", "write it in quotes")
        elif "repo" in table:
            self._problem(path, f"{keys.dotted(base)} names a repo and a path", "keep one of them")
        else:
            self.paths[base] = raw

    def _fact(self, path: Path, row: Fact[Any], raw: Any) -> None:
        if not row.known or not row.settable or not row.lockable:
            self._unknown(path, row)
        elif isinstance(raw, str) and raw == "auto" and path[0] in ("serve", "tokenizer", "chat_template"):
            self.auto.add(path)
        elif is_range(raw) and row.type in (VERSION, RELEASE, PACKAGE):
            if not _BUILD.match(raw):
                self._problem(path, f"{row.key} is not a range: {raw!r}", 'write one such as ">=550.54.14"')
            self.requires[path] = raw.strip()
        else:
            value = registry.read(row, raw)
            if isinstance(value, Raw):
                try:
                    row.type.parse(raw)
                except (ValueError, TypeError) as error:
                    self._problem(path, f"{row.key} must be {error}, found {shown(raw)}", _how(row, raw, str(error)))
            else:
                self.values[path] = self._gpu(path, value) if row.type is GPU else value
                self._possible(path, row, value)

    def _gpu(self, path: Path, value: Any) -> Any:
        """The whole name of a GPU that is written short. One that may be several is a problem."""
        if not isinstance(value, str):
            return value
        meant = gpu_names.fits(value)
        if len(meant) > 1 and value.strip() not in meant:
            names = ", ".join(meant[:6])
            self._problem(path, f"{keys.dotted(path)} {value!r} may be several GPUs", f"write one of {names}")
        same = any(gpu_names.canonical(name) == gpu_names.canonical(value) for name in meant)
        return meant[0] if len(meant) == 1 and not same else value

    def _unknown(self, path: Path, row: Fact[Any]) -> None:
        known = [each.key for each in registry.ROWS if each.settable and each.group == path[0]]
        if row.known:
            self._problem(path, f"{row.key} is determined by lockllm, not set", "remove it; `lockllm lock` fills it")
            return
        meant = registry.nearest(row.key, known)
        if path[0] == "serve":
            hint = f"did you mean {meant}? An option of the engine without a neutral name goes under [serve.args]"
            fix = hint if meant else "an option of the engine without a neutral name goes under [serve.args]"
        else:
            fix = f"did you mean {meant}?" if meant else f"see `lockllm explain {path[0]}`"
        self._problem(path, f"there is no fact {row.key}", fix)

    def _possible(self, path: Path, row: Fact[Any], value: Any) -> None:
        ranges: dict[Path, tuple[int, int]] = {
            ("sampling", "temperature"): (0, 100), ("sampling", "top_p"): (0, 1), ("sampling", "min_p"): (0, 1),
            ("sampling", "top_k"): (-1, 10**9), ("serve", "gpu_memory_share"): (0, 1), ("serve", "max_model_len"): (1, 10**10),
        }  # fmt: skip
        bounds = (1, 10**9) if path in POSITIVE else ranges.get(path)
        if bounds is not None and not bounds[0] <= value <= bounds[1]:
            self._problem(
                path, f"{row.key} is {value}, which cannot be", f"write a number from {bounds[0]} to {bounds[1]:,}"
            )


def _stands_beside(base: Path) -> bool:
    return base in (("tokenizer",), ("draft",)) or (base[0] == "adapters" and len(base) == 2)


def _checkpoint(table: Mapping[str, Any], problem: Problem) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, raw in table.items():
        path = ("checkpoint", key)
        if key in ("include", "exclude"):
            fields[key] = read_globs(raw, path, problem)
        elif key in _CHECKPOINT:
            if isinstance(raw, str) and raw.strip() and "\0" not in raw:
                fields[key] = raw
            else:
                problem(path, f"checkpoint.{key} must be a text, found {shown(raw)}", "write it in quotes")
        elif registry.find(path).known:
            problem(path, f"checkpoint.{key} is determined by lockllm, not set", "remove it; `lockllm lock` fills it")
        else:
            meant = registry.nearest(key, list(_CHECKPOINT))
            problem(path, f"there is no fact checkpoint.{key}", f"did you mean {meant}?" if meant else "remove it")
    if "repo" in fields and "path" in fields:
        problem(("checkpoint", "path"), "checkpoint names a repo and a path", "keep one of them")
    if "repo" in fields and not _REPO.match(fields["repo"]):
        problem(("checkpoint", "repo"), f"{fields['repo']!r} is not a repository", 'write "OWNER/NAME"')
    if "revision" in fields and "path" in fields and "repo" not in fields:
        problem(("checkpoint", "revision"), "a path has no revision", "remove it, or name a repo")
    return fields


def _policy(table: Any, problem: Problem) -> dict[str, Policy]:
    policies = read_policy(table, problem)
    for text, policy in policies.items():
        glob = keys.Glob(text)
        if glob.group == "check":
            _of_checks(glob, policy, problem)
            continue
        hit = [row for row in (*registry.ROWS, *(each.row for each in registry.FAMILIES)) if glob.matches(row.path)]
        exact = registry.row_of(text) if glob.exact else None
        if (
            not hit
            and (exact is None or not exact.known)
            and not any(_reaches(glob, each.path) for each in registry.FAMILIES)
        ):
            meant = registry.nearest(text, [row.key for row in registry.ROWS])
            problem(
                ("policy", text),
                f"policy {text} names no fact",
                f"did you mean {meant}?" if meant else "see `lockllm explain`",
            )
        if policy is Policy.COMPATIBLE and exact is not None and exact.known and exact.type.compatible is None:
            problem(
                ("policy", text),
                f"policy compatible is not defined for {text}: {exact.type.name}",
                "write exact, report or ignore",
            )
    return policies


def _of_checks(glob: keys.Glob, policy: Policy, problem: Problem) -> None:
    if not any(glob.matches(keys.parse(row.name)) for row in CHECKS):
        meant = registry.nearest(glob.text, [row.name for row in CHECKS])
        problem(
            ("policy", glob.text),
            f"there is no check {glob.text}",
            f"did you mean {meant}?" if meant else "see `lockllm explain check`",
        )
    elif policy is Policy.COMPATIBLE:
        problem(
            ("policy", glob.text),
            f"policy compatible is not defined for {glob.text}: a finding",
            "write exact, report or ignore",
        )


def _waivers(raw: Any, problem: Problem) -> tuple[Waiver, ...]:
    waivers = read_waivers(raw, problem)
    for waiver in waivers:
        try:
            known = registry.row_of(waiver.fact).known
        except ValueError:
            known = False
        if not known:
            meant = registry.nearest(waiver.fact, [row.key for row in registry.ROWS])
            problem(
                ("waive",),
                f"a waiver names no fact: {waiver.fact}",
                f"did you mean {meant}?" if meant else "see `lockllm explain`",
            )
    return waivers


def _reaches(glob: keys.Glob, family: Path) -> bool:
    return (
        glob.matches((*family, "x"))
        or glob.matches((*family, "x", "y"))
        or glob.text.startswith(keys.dotted(family) + ".")
    )


def _rows(group: str) -> list[Fact[Any]]:
    return [row for row in (*registry.ROWS, *(each.row for each in registry.FAMILIES)) if row.group == group]


def _overlay(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: _overlay(base.get(key), value) for key, value in over.items()}}
    return over


def _within(table: Any, path: Path) -> bool:
    for part in path:
        if not isinstance(table, dict) or part not in table:
            return False
        table = table[part]
    return True


def _paths(spec: Spec) -> list[Path]:
    fixed = [("checkpoint", key) for key in _CHECKPOINT] + [("engine", "name"), ("engine", "version")]
    return [*fixed, *spec.values, *spec.auto, *spec.requires, *((*base, "path") for base in spec.paths)]


def _how(row: Fact[Any], raw: Any, wanted: str) -> str:
    words = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8}
    if "number" in wanted and isinstance(raw, str):
        number = words.get(raw.strip().lower(), raw.strip())
        if str(number).lstrip("-").replace(".", "", 1).isdigit():
            return f"write it without quotes: {keys.dotted(row.path[1:])} = {number}"
    if wanted == "true or false" and isinstance(raw, str) and raw.lower() in ("true", "false"):
        return f"write it without quotes: {keys.dotted(row.path[1:])} = {raw.lower()}"
    return f"write {wanted}"
