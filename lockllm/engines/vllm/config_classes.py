"""How vLLM makes options of its configuration classes: `get_kwargs` of `engine/arg_utils.py`, 0.8.5 to 0.33.0."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.engines.source.constants import literals
from lockllm.engines.source.evaluate import Scope
from lockllm.engines.source.installed import placed
from lockllm.engines.source.modules import UNKNOWN, Class, Field, Foreign, Generic, Module, Unknown, spelled
from lockllm.engines.source.parsers import Follower

_ARGUMENTS = "vllm.engine.arg_utils"
_UTILITIES = ("vllm.utils.argparse_utils", "vllm.utils")
_BUILTIN = frozenset({"str", "int", "float", "bool", "dict", "list", "set", "tuple", "bytes", "object", "type"})
_LONGEST = 2_000
"""Of an annotation that stands as a text."""
_WRAPPERS = frozenset({"Annotated", "SkipValidation", "Final", "Required"})


def kwargs(follower: Follower, owner: Class | None) -> Any:
    """The arguments of `add_argument` for each field of a configuration class."""
    if owner is None:
        return UNKNOWN
    arguments = follower.module(_ARGUMENTS)
    special = _special(follower, arguments) if arguments is not None else {}
    names: Mapping[str, Any] = arguments.names if arguments is not None else {}
    found: dict[str, dict[str, Any]] = {}
    for name, field in follower.fields(owner).items():
        hints = hints_of(follower, field)
        if any(isinstance(each, Generic) and each.name in ("ClassVar", "InitVar") for each in hints):
            continue
        told = _takes(follower, hints, names)
        if told.get("choices") and None in hints:
            told["choices"].append(None)
        if told.get("type") == Foreign("int") and name in special:
            told["type"] = Foreign(special[name])
        found[name] = {"default": placed(follower, field), **told}
    return found


def hints_of(follower: Follower, field: Field) -> list[Any]:
    """The types that the annotation of a field names, one by one."""
    return list(_hints(follower, _annotation(follower, field), field.owner))


def config_class(follower: Follower, field: Field) -> Class | None:
    """The configuration class that a field holds."""
    return _dataclass(follower, hints_of(follower, field))


def default_of(follower: Follower, owner: Class | None, name: Any) -> Any:
    """The default of a field and its place; UNKNOWN where only a run makes it."""
    return placed(follower, follower.fields(owner).get(name) if owner is not None else None)


def inverses(follower: Follower) -> dict[str, str]:
    """`--enable-` -> `--disable-` and back, where the parser's own switch for booleans pairs them (since 0.33.0)."""
    for name in _UTILITIES:
        module = follower.module(name)
        for node in module.tree.body if module is not None else ():
            if isinstance(node, ast.ClassDef) and any(spelled(base) == "BooleanOptionalAction" for base in node.bases):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Dict) and module is not None:
                        told = follower.value(inner, Scope(module=module))
                        if isinstance(told, dict) and all(
                            str(each).startswith("--") for each in (*told, *told.values())
                        ):
                            return {str(key): str(value) for key, value in told.items()}
    return {}


def _takes(follower: Follower, hints: list[Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """What an option of these types takes, in the order in which `get_kwargs` asks."""
    if "is_dict_subclass" in names:
        hints = [Foreign("dict") if _is_dict(follower, each) else each for each in hints]
    types = {_type(each) for each in hints}
    if (inner := _dataclass(follower, hints)) is not None:
        return {"type": Foreign("json.loads"), "config": inner}
    if types == {"bool", "str", "None"} and "NEEDS_HELP" in names:
        return {"type": Foreign("str"), "nargs": "?", "const": True}
    if "bool" in types:
        return {"action": Foreign("argparse.BooleanOptionalAction")}
    if "Literal" in types:
        return _literal(next(each for each in hints if _type(each) == "Literal"), types, names)
    for sequence in ("tuple", "list", "set"):
        if sequence in types:
            return _sequence(next(each for each in hints if _type(each) == sequence))
    for number in ("int", "float"):
        if number in types:
            return {"type": Foreign(number)}
    foreign = any(each not in _BUILTIN and each not in ("None", "") for each in types)
    if "dict" in types:
        other = "union_dict_and_str" in names and ("str" in types or foreign)
        return {"type": Foreign("union_dict_and_str" if other else "json.loads")}
    if any(isinstance(each, Unknown) for each in hints):
        return {"type": UNKNOWN}
    numbered = any(isinstance(each, Class) and _derives(follower, each, "IntEnum") for each in hints)
    return {"type": Foreign("int_or_name" if numbered else "str")}


def _literal(hint: Generic, types: set[str], names: Mapping[str, Any]) -> dict[str, Any]:
    values = literals(hint)
    kind = Foreign(type(values[0]).__name__ if values else "str")
    open_ = "str" in types and "literal_to_kwargs" in names
    return {"type": kind} if open_ or values is None else {"type": kind, "choices": list(values)}


def _sequence(hint: Any) -> dict[str, Any]:
    inner = hint.args[0] if isinstance(hint, Generic) and hint.args else Foreign("str")
    kind = inner if isinstance(inner, Foreign) and inner.name in ("int", "float", "str") else Foreign("str")
    several = _type(hint) != "tuple" or not isinstance(hint, Generic) or Ellipsis in hint.args
    found: dict[str, Any] = {"type": kind, "nargs": "+" if several else len(hint.args)}
    if isinstance(inner, Generic) and _type(inner) == "Literal":
        found |= {"choices": list(values)} if (values := literals(inner)) is not None else {}
    return found


def _annotation(follower: Follower, field: Field) -> Any:
    return follower.value(field.annotation, Scope(module=field.owner.module, owner=None))


def _hints(follower: Follower, value: Any, owner: Class, depth: int = 0) -> Iterator[Any]:
    """The types of an annotation, one by one: unions and wrappers taken apart, texts read as annotations."""
    if not depth and not follower.few(value):
        yield UNKNOWN
    elif isinstance(value, str) and depth < 8:
        try:
            inner = ast.parse(value[:_LONGEST], mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            yield UNKNOWN
            return
        yield from _hints(follower, follower.value(inner, Scope(module=owner.module)), owner, depth + 1)
    elif isinstance(value, Generic) and value.name in ("Union", "Optional") and depth < 8:
        for each in value.args:
            yield from _hints(follower, each, owner, depth + 1)
        if value.name == "Optional":
            yield None
    elif isinstance(value, Generic) and value.name in _WRAPPERS and value.args and depth < 8:
        yield from _hints(follower, value.args[0], owner, depth + 1)
    else:
        yield value


def _type(hint: Any) -> str:
    """`int`, `list`, `Literal`, `None`; the name of a class; `""` of what is not known."""
    if hint is None:
        return "None"
    name = hint.last if isinstance(hint, Foreign) else hint.name if isinstance(hint, (Generic, Class)) else ""
    return {"List": "list", "Dict": "dict", "Set": "set", "Tuple": "tuple", "Type": "type", "NoneType": "None"}.get(
        name, name
    )


def _dataclass(follower: Follower, hints: list[Any]) -> Class | None:
    return next((each for each in hints if isinstance(each, Class) and _is_dataclass(follower, each)), None)


def _is_dataclass(follower: Follower, each: Class) -> bool:
    """Whether a class is made a dataclass, by `dataclass` or by vLLM's own `config`."""
    return any(
        spelled(mark.func if isinstance(mark, ast.Call) else mark) in ("dataclass", "config")
        for held in follower.line(each)
        for mark in held.node.decorator_list
    )


def _is_dict(follower: Follower, hint: Any) -> bool:
    return isinstance(hint, Class) and _derives(follower, hint, "dict")


def _derives(follower: Follower, each: Class, name: str) -> bool:
    """Whether a class has a base of that name."""
    bases = (base for held in follower.line(each) for base in held.node.bases)
    return any(spelled(base.value if isinstance(base, ast.Subscript) else base) == name for base in bases)


def _special(follower: Follower, arguments: Module) -> dict[str, str]:
    """Fields whose whole number is read by a function of its own: `if name == "max_model_len": … = human_readable_int`."""
    found: dict[str, str] = {}
    for function in (each for name in ("get_kwargs", "_compute_kwargs") for each in arguments.names.get(name, ())):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = list(ast.walk(function))
        follower.spend(len(nodes) // 4)
        sets = {
            target.id: node.value
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Set)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in nodes:
            if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and spelled(node.test.left) == "name":
                right = node.test.comparators[0]
                right = sets.get(right.id, right) if isinstance(right, ast.Name) else right
                which = [right] if isinstance(right, ast.Constant) else list(getattr(right, "elts", ()))
                reader = next((_reader(each) for each in node.body if _reader(each)), "")
                if reader:
                    found |= {str(each.value): reader for each in which if isinstance(each, ast.Constant)}
    return found


def _reader(node: ast.stmt) -> str:
    """The function of `kwargs[name]["type"] = human_readable_int`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name):
        return ""
    return node.value.id if node.value.id.startswith("human_readable_int") else ""
