"""Hand-written rules and the functions that each was read from: which of them changed since."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from lockllm.engines.kernel.releases import order

Sources = dict[str, dict[str, list[str]]]
"""Rule -> `file:function` -> the release in which a person read it, and the digest of its text then."""


class Rules(msgspec.Struct, frozen=True):
    """The rules of an engine: the newest release that they hold for, and where each was read."""

    through: str
    sources: Sources


def place(root: Path, room: str) -> Path:
    """The table of an engine's rules in a checkout."""
    return root / "lockllm" / "engines" / room / "rules.json"


def load(path: Path) -> Rules:
    """The table of an engine's rules."""
    return msgspec.json.decode(path.read_bytes(), type=Rules)


def text(rules: Rules) -> str:
    """The table as it is written: one function a line."""
    held = []
    for rule, functions in rules.sources.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(read)}" for name, read in functions.items())
        held.append(f"{json.dumps(rule)}: {{\n{lines}\n}}")
    return f'{{"through": {json.dumps(rules.through)},\n"sources": {{\n' + ",\n".join(held) + "\n}}\n"


def changed_sources(sources: Sources, release: str, texts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The rules whose source is another one in a release: rule, function, what happened. An older release says nothing."""
    for rule, functions in sources.items():
        for name, (read, digest) in functions.items():
            if order(release) < order(read):
                continue
            now = digest_of(name, texts)
            if not now:
                yield rule, name, "is not there"
            elif now != digest:
                yield rule, name, f"is not as it was in {read}"


def accept(rules: Rules, release: str, texts: Mapping[str, str]) -> Rules:
    """The table with every function as it is in a release that a person has read now."""
    sources = {
        rule: {
            name: [release, digest_of(name, texts)] if digest_of(name, texts) != held[1] else held
            for name, held in functions.items()
        }
        for rule, functions in rules.sources.items()
    }
    return extend(Rules(rules.through, sources), release)


def extend(rules: Rules, release: str) -> Rules:
    """The table where no function is another in a release: the rules hold for it too."""
    return Rules(max(rules.through, release, key=order), rules.sources)


def digest_of(name: str, texts: Mapping[str, str]) -> str:
    """The digest of a function (`a/b.py:Class.function`), without comments, docstring and blank lines; empty: not there."""
    path, _, dotted = name.partition(":")
    source = texts.get(path)
    if source is None:
        return ""
    body: list[ast.stmt] = ast.parse(source).body
    node: ast.stmt | None = None
    for part in dotted.split("."):
        node = next((each for each in body if part in _names(each)), None)
        if node is None:
            return ""
        body = getattr(node, "body", [])
    assert node is not None
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    lines = [line for at, line in enumerate(lines, node.lineno) if at not in _docstring(node)]
    code = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {target.id for target in targets if isinstance(target, ast.Name)}
    return {getattr(node, "name", "")}


def _docstring(node: ast.stmt) -> range:
    first = next(iter(getattr(node, "body", [])), None)
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)
