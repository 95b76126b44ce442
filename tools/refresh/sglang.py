"""What a release of SGLang has: options, choices, constant defaults, variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lockllm.engines.kernel.argparse import Option
from lockllm.engines.kernel.release_data import shape_word
from lockllm.engines.kernel.releases import spans
from lockllm.engines.kernel.values import Kind
from lockllm.engines.sglang import installed_options, options
from lockllm.engines.source.modules import Unknown
from lockllm.facts import variables
from tools.refresh.snapshot import Snapshot
from tools.refresh.values import choices, constant

_ELSEWHERE = re.compile(
    r"""(?:getenv|environ(?:\.get)?|get_[a-z_]*env[a-z_]*|env_flag)\s*[(\[]\s*["']((?:SGL|SGLANG)_[A-Z0-9_]+)["']"""
)


def read(release: str, sources: Mapping[str, str]) -> Snapshot:
    """What a release has, by the source of its package."""
    told = installed_options.read(release, sources)
    if told.table is None:
        raise SystemExit(told.problem)
    _, _, parser = installed_options.followed(sources)
    values: dict[str, frozenset[str]] = {}
    defaults: dict[str, Any] = {}
    unread: set[str] = set()
    for each in parser.added:
        option = told.table.flags[each.flags[0]][0]
        name = option.name
        if name not in values and (few := choices(each.named.get("choices"))) is not None:
            values[name] = few
        if isinstance(each.named.get("choices"), Unknown):
            unread.add(name)
        stated = each.named.get("default", False if each.named.get("action") == "store_true" else None)
        default = constant(getattr(stated, "value", stated))
        default = False if default is None and name in told.standing else default  # its action states none
        if name not in defaults and default is not ...:
            defaults[name] = default
    return Snapshot(
        release=release, values=values, defaults=defaults, variables=frozenset(_variables(sources)), doubts=told.doubts,
        unread=frozenset(unread),
        options={each.name: _spelling(each, told.standing.get(each.name, "")) for each in told.table.options},
    )  # fmt: skip


def _spelling(option: Option, standing: str) -> str:
    kind = Kind.TEXT if option.kind is Kind.JSON_OR_TEXT else option.kind
    takes = standing or shape_word(option.take, kind, options.TAKES)
    own = "--" + option.name.replace("_", "-")
    mark = [] if own in option.flags else ["-"]
    return " ".join([takes, *mark, *(flag for flag in option.flags if flag != own)])


def _variables(sources: Mapping[str, str]) -> Iterator[str]:
    """The names of the class `Envs` of `srt/environ.py`, and SGLang's own variables that other files read."""
    for node in ast.walk(ast.parse(sources.get("sglang/srt/environ.py") or "")):
        if isinstance(node, ast.ClassDef) and node.name == "Envs":
            for each in node.body:
                targets = each.targets if isinstance(each, ast.Assign) else []
                yield from (target.id for target in targets if isinstance(target, ast.Name))
    for name in sources:
        if name.startswith("sglang/") and name.endswith(".py"):
            yield from _ELSEWHERE.findall(sources[name])


def wrong_marks(told: Snapshot, releases: Sequence[str]) -> Iterator[str]:
    """Classed variables whose marks (`>=`, `<=`) say otherwise than this release does."""
    for row in variables.rows("sglang") if told.variables else ():
        if row.name.endswith("*") or not row.name.startswith(variables.PREFIXES["sglang"]):
            continue
        says = spans(row.since or releases[0], row.until, told.release, releases)
        if says is not (row.name in told.variables):
            yield f"{row.name}: its marks say that {told.release} {'reads it' if says else 'does not read it'}"
