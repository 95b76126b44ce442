"""What a release of vLLM has: options, the JSON of its configuration classes, registered parsers, variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.engines.kernel.argparse import Option
from lockllm.engines.kernel.release_data import shape_word
from lockllm.engines.source.constants import literals
from lockllm.engines.source.installed import placed
from lockllm.engines.source.modules import Class, Field, Generic, Unknown, spelled
from lockllm.engines.source.parsers import Added, Follower
from lockllm.engines.vllm import installed_options, options
from lockllm.engines.vllm.config_classes import config_class, hints_of
from tools.refresh.snapshot import Snapshot
from tools.refresh.values import choices, constant

_REGISTERED = {
    "tool_call_parser": (("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),),
    "reasoning_parser": (("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),),
}
"""Option -> the module and table of what is registered for it (0.12.0 and later)."""
_READ_BY_HAND = {"speculative_config": ("vllm.config.speculative", "SpeculativeConfig")}
"""Options whose JSON goes into a class that their annotation does not name."""
_TOGETHER = frozenset({*_READ_BY_HAND, "kv_transfer_config", "ec_transfer_config", "pooler_config", "reasoning_config"})
"""Options that are None where they are left out, and whose keys with their defaults say no more than that."""
_DEEPEST = 4
_ELSEWHERE = re.compile(r"""(?:getenv|environ(?:\.get)?)\s*[(\[]\s*["'](VLLM_[A-Z0-9_]+)["']""")


def read(release: str, sources: Mapping[str, str]) -> Snapshot:
    """What a release has, by the source of its package."""
    told = installed_options.read(release, sources)
    if told.table is None:
        raise SystemExit(told.problem)
    follower, _, parser = installed_options.followed(sources)
    values: dict[str, frozenset[str]] = {}
    keys: dict[str, frozenset[str]] = {}
    defaults: dict[str, Any] = {}
    unread: set[str] = set()
    for each in parser.added:
        option = told.table.flags[each.flags[0]][0]
        if option.name not in values and (few := choices(each.named.get("choices"))) is not None:
            values[option.name] = few
        if isinstance(each.named.get("choices"), Unknown):
            unread.add(option.name)
        default = constant(_default(each))
        if option.name not in defaults and default is not ...:
            defaults[option.name] = default
        owner = each.named.get("config") or _by_hand(follower, option.name)
        if isinstance(owner, Class):
            alone = option.name in _READ_BY_HAND
            for path, inner in _classes(follower, option.name, owner, 0 if alone else _DEEPEST):
                keys[path] = frozenset(inner)
                values.update(_literals(follower, path, inner))
            if default is not None or option.name in _TOGETHER:
                defaults.update(_constants(follower, option.name, owner))
    return Snapshot(
        release=release, options={each.name: spelling(each) for each in told.table.options}, values=values, keys=keys,
        registered=_registered(follower), defaults=defaults, variables=frozenset(_variables(sources)), doubts=told.doubts,
        unread=frozenset(unread),
    )  # fmt: skip


def spelling(option: Option) -> str:
    """What an option takes, and its spellings beside `--` and its name, as the data file says it."""
    takes = shape_word(option.take, option.kind, options.TAKES)
    own = "--" + option.name.replace("_", "-")
    mark = [] if own in option.flags else ["-"]
    return " ".join([takes, *mark, *(flag for flag in option.flags if flag != own)])


def _default(each: Added) -> Any:
    told = each.named.get("default", False if each.named.get("action") == "store_true" else None)
    return getattr(told, "value", told)


def _by_hand(follower: Follower, name: str) -> Class | None:
    module, owner = _READ_BY_HAND.get(name, ("", ""))
    held = follower.module(module) if module else None
    found = follower.top(held, owner) if held is not None else None
    return found if isinstance(found, Class) else None


def _classes(follower: Follower, path: str, owner: Class, deep: int) -> Iterator[tuple[str, dict[str, Field]]]:
    """A configuration class and those inside it that refuse keys they do not know: path, and the fields that they take."""
    inner = _fields(follower, owner)
    if any(spelled(_called(mark)) == "config" for mark in owner.node.decorator_list):
        yield path, inner
    for name, field in inner.items() if deep else ():
        if (held := config_class(follower, field)) is not None:
            yield from _classes(follower, f"{path}.{name}", held, deep - 1)


def _constants(follower: Follower, path: str, owner: Class, deep: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """The constant defaults of a class, and of those that it holds where nobody says more."""
    for name, field in _fields(follower, owner).items():
        default = constant(_placed(follower, field))
        if default is not ...:
            yield f"{path}.{name}", default
        held = config_class(follower, field)
        if held is not None and default is ... and deep:
            yield from _constants(follower, f"{path}.{name}", held, deep - 1)


def _literals(follower: Follower, path: str, inner: Mapping[str, Field]) -> Iterator[tuple[str, frozenset[str]]]:
    for name, field in inner.items():
        if (few := _literal(follower, field)) is not None:
            yield f"{path}.{name}", few


def _fields(follower: Follower, owner: Class) -> dict[str, Field]:
    return {name: field for name, field in follower.fields(owner).items() if _is_set(follower, field)}


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_set(follower: Follower, field: Field) -> bool:
    """Whether the class takes the field as an argument."""
    hints = hints_of(follower, field)
    if any(isinstance(each, Generic) and each.name == "ClassVar" for each in hints):
        return False
    call = field.default
    words = call.keywords if isinstance(call, ast.Call) and spelled(call.func) in ("field", "Field") else []
    return not any(
        word.arg == "init" and isinstance(word.value, ast.Constant) and not word.value.value for word in words
    )


def _literal(follower: Follower, field: Field) -> frozenset[str] | None:
    """The words that a field takes, where its type lists all of them."""
    hints = [each for each in hints_of(follower, field) if each is not None]
    lists = [literals(each) for each in hints]
    if not lists or any(each is None for each in lists):
        return None
    return frozenset(str(word) for each in lists for word in each or ())


def _placed(follower: Follower, field: Field) -> Any:
    told = placed(follower, field)
    return getattr(told, "value", told)


def _registered(follower: Follower) -> dict[str, frozenset[str]]:
    found = {}
    for option, places in _REGISTERED.items():
        for module, name in places:
            held = follower.module(module)
            told = follower.top(held, name) if held is not None else None
            if isinstance(told, dict) and all(isinstance(each, str) for each in told):
                found[option] = frozenset(told)
    return found


def _variables(sources: Mapping[str, str]) -> Iterator[str]:
    """The keys of `environment_variables` of `vllm/envs.py`, and the variables of vLLM that other files read."""
    for node in ast.walk(ast.parse(sources.get("vllm/envs.py") or "")):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(spelled(target) == "environment_variables" for target in targets):
                yield from (str(key.value) for key in node.value.keys if isinstance(key, ast.Constant))
    for name in sources:
        if name.startswith("vllm/") and name.endswith(".py") and "/third_party/" not in name:
            yield from _ELSEWHERE.findall(sources[name])
