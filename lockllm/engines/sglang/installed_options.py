"""The options of an installed SGLang that no table has, read from its own source.

The shape is that of 0.3.4 to 0.5.23: `ServerArgs.add_cli_args` adds each option by hand (to 0.5.10), or from annotations
(`add_cli_args_from_dataclass`), of `ServerArgs` itself (0.5.12 to 0.5.18) or of the namespaces that it collects (since 0.5.20).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.engines import Default, Installed
from lockllm.engines._argparse import Option, Take, canonical, table
from lockllm.engines._evaluate import Scope, TooMuch, constant, literals, plain_default
from lockllm.engines._parsers import Added, Follower, Parser, arity, option
from lockllm.engines._releases import order
from lockllm.engines._source import UNKNOWN, Call, Class, Field, Foreign, Function, Generic, Module, Unknown
from lockllm.engines._values import Kind
from lockllm.engines.sglang import options

_ARGUMENTS = "sglang.srt.server_args"
_EXPECTED = frozenset({"--model-path", "--dtype", "--tp-size", "--port"})
_MOST_TOLD = 3
_KINDS = {"loads": Kind.STRICT_JSON, "json_list_type": Kind.STRICT_JSON, "human_readable_int": Kind.SI}
"""What the functions that read an argument make of it."""


class _Placed(msgspec.Struct, frozen=True):
    """The default of a field, and where it stands."""

    value: Any
    source: str


def installed(version: str, sources: Mapping[str, str]) -> Installed | None:
    """The options of that release; None where the tables have it, and nothing is read."""
    if is_listed(version):
        return None
    try:
        follower = Follower("sglang", sources, ("load_general_plugins",))
        module = follower.module(_ARGUMENTS)
        owner = follower.top(module, "ServerArgs") if module is not None else UNKNOWN
        made = follower.member(owner, "add_cli_args") if isinstance(owner, Class) else UNKNOWN
        parser = Parser()
        if module is not None and isinstance(owner, Class) and isinstance(made, Function):
            fields = _fields(follower, module, owner)
            follower.intrinsics["add_cli_args_from_dataclass"] = lambda call: _annotated(follower, call, fields, owner)
            follower.intrinsics["_declared_default"] = lambda call: _default_of(follower, fields.get(call.args[0]))
            follower.follow(made, (parser,))
        return _read(follower, version, module.path if module is not None else "sglang/srt/server_args.py", parser)
    except (TooMuch, RecursionError, MemoryError):
        return Installed(version=version, problem=f"the options of SGLang {version} are too many to follow")


def is_listed(version: str) -> bool:
    """Whether the options of that very version were read; its pre- and post-releases count as it."""
    return order(version)[0] in {order(read)[0] for read in options.VERSIONS}


def _fields(follower: Follower, module: Module, owner: Class) -> dict[str, Field]:
    """The fields of `ServerArgs`: those of the namespaces that it collects, and its own."""
    found: dict[str, Field] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "collect_input_fields" and node.args:
            spaces = follower.value(node.args[0], Scope(module=module))
            for space in spaces if isinstance(spaces, (list, tuple)) else ():
                found |= follower.fields(space) if isinstance(space, Class) else {}
    return {**found, **follower.fields(owner)}


def _annotated(follower: Follower, call: Call, fields: Mapping[str, Field], owner: Class) -> None:
    """`add_cli_args_from_dataclass`: an option for every field whose annotation says more than its type."""
    parser = next((each for each in call.args if isinstance(each, Parser)), None)
    told = next((each for each in call.args if isinstance(each, Class)), None)
    if parser is None:
        return
    if told is None or told.node is not owner.node:
        parser.open.append("the fields of a class that is not ServerArgs may add options")
        return
    for name, field in fields.items():
        annotation = follower.value(field.annotation, Scope(module=field.owner.module))
        if isinstance(annotation, Unknown):
            parser.open.append(f"the annotation of {name} cannot be told")
        if not isinstance(annotation, Generic) or annotation.name != "Annotated":
            continue
        said = next((each for each in annotation.args[1:] if isinstance(each, (str, Call))), None)
        if said is None or (isinstance(said, Call) and (said.name != "Arg" or said.named.get("no_cli") is True)):
            continue
        more = said.named if isinstance(said, Call) else {}
        alike = more.get("aliases") or ()
        flags = (more.get("cli_name") or "--" + name.replace("_", "-"), *(alike if isinstance(alike, list) else ()))
        takes = _takes(annotation.args[0], more)
        takes = {"default": _default_of(follower, field), "dest": name, **takes}
        parser.added.append(Added(flags=flags, named=takes, path=field.owner.module.path))


def _takes(annotation: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """What an option of that annotation takes, in the order in which SGLang asks."""
    if more.get("action") is not None:
        extra = more.get("action_kwargs")
        return {"action": more["action"], **(extra if isinstance(extra, dict) else {})}
    inner = _without_none(annotation)
    few = {"choices": more["choices"]} if more.get("choices") else {}
    reader = more.get("type_parser")
    if isinstance(inner, Generic) and inner.name == "Literal":
        values = literals(inner) or ("",)
        return {"type": reader or Foreign(type(values[0]).__name__), "choices": more.get("choices") or literals(inner)}
    if _name(inner) == "list" and reader is None:
        each = inner.args[0] if isinstance(inner, Generic) and inner.args else Foreign("str")
        return {"type": _scalar(each), "nargs": more.get("nargs") or "+", **few}
    if _name(inner) == "bool":
        return {"action": "store_true"}
    found = {"type": reader or _scalar(inner), **few}
    found |= {key: more[key] for key in ("nargs", "const") if more.get(key) is not None}
    return found


def _without_none(annotation: Any) -> Any:
    """`Optional[X]` and `X | None` are X; any other union stays."""
    if isinstance(annotation, Generic) and annotation.name == "Optional":
        return annotation.args[0]
    if isinstance(annotation, Generic) and annotation.name == "Union":
        rest = [each for each in annotation.args if each is not None]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _name(hint: Any) -> str:
    name = hint.last if isinstance(hint, Foreign) else hint.name if isinstance(hint, (Generic, Class)) else ""
    return "list" if name == "List" else name


def _scalar(hint: Any) -> Foreign:
    return hint if isinstance(hint, Foreign) and hint.name in ("int", "float") else Foreign("str")


def _default_of(follower: Follower, field: Field | None) -> Any:
    if field is None or field.default is None:
        return UNKNOWN
    value = plain_default(follower.value(field.default, Scope(module=field.owner.module, owner=field.owner)))
    return UNKNOWN if isinstance(value, Unknown) else _Placed(value, f"{field.owner.module.path}: {field.name}")


def _read(follower: Follower, version: str, path: str, parser: Parser) -> Installed:
    flags = {flag for each in parser.added for flag in each.flags}
    if not flags >= _EXPECTED:
        missing = ", ".join(sorted(_EXPECTED - flags)[:_MOST_TOLD])
        problem = f"the options of SGLang {version} cannot be read from its source: {path} adds no {missing}"
        return Installed(version=version, source=path, problem=problem)
    held = {flag: each for each in options.of(version).options for flag in each.flags}
    found: dict[str, Option] = {}
    choices: dict[str, frozenset[Any]] = {}
    defaults: dict[str, Default] = {}
    standing: dict[str, str] = {}
    doubts = list(parser.open)
    for each in parser.added:
        name = _option_name(each, held)
        told = arity(follower, each.named, _KINDS)
        if told.kind is Kind.TEXT and name.replace("_", "-") in options.JSON:
            told = msgspec.structs.replace(told, kind=Kind.JSON_OR_TEXT)
        made = option(name, each.flags, told)
        known = next((held[flag] for flag in each.flags if flag in held), None)
        if not told.sure:
            doubts.append(f"what {each.flags[0]} takes cannot be told")
        if known is not None and not (told.sure and told.read):
            made = msgspec.structs.replace(made, take=made.take if told.sure else known.take, kind=known.kind)
        if made.take is Take.SWITCH and name != each.named.get("dest"):
            made = msgspec.structs.replace(made, bare=True)  # it is told as given, not as what it sets
        if made.take is Take.SWITCH and (how := _standing(follower, each.named)):
            standing[name] = how
        before = found.get(name)
        found[name] = made if before is None else msgspec.structs.replace(
            before, flags=(*before.flags, *made.flags), off=(*before.off, *made.off)
        )  # fmt: skip
        if (few := _choices(each.named)) is not None and before is None:
            choices[name] = few
        if (default := _default(each)) is not None and before is None:
            defaults[name] = default
    return Installed(
        version=version, source=path, table=table(list(found.values())), choices=choices, defaults=defaults, standing=standing,
        doubts=tuple(dict.fromkeys(doubts)),
    )  # fmt: skip


def _option_name(each: Added, held: Mapping[str, Option]) -> str:
    """A spelling that a table has keeps its name there; a new one goes by what it sets."""
    known = next((held[flag].name for flag in each.flags if flag in held), None)
    dest = each.named.get("dest")
    named = [options.ALIASES.get(flag[2:], flag[2:]) for flag in each.flags if flag.startswith("--")]
    return known or (dest if isinstance(dest, str) else canonical(named[0] if named else each.flags[0]))


def _standing(follower: Follower, named: Mapping[str, Any]) -> str:
    """How an option on its way out stands, by the action that SGLang gives it."""
    action = named.get("action")
    if not isinstance(action, Class) or not action.name.startswith("Deprecated"):
        return ""
    if action.name != "DeprecatedAction":
        return "retired"
    act = follower.member(action, "__call__")
    body = act.node.body if isinstance(act, Function) and not isinstance(act.node, ast.Lambda) else []
    raises = any(isinstance(node, ast.Raise) for node in body)
    return "gone" if raises or named.get("error_message") is not None else "idle"


def _choices(named: Mapping[str, Any]) -> frozenset[Any] | None:
    told = named.get("choices")
    if not isinstance(told, (list, tuple, set)) or not told or not all(map(constant, told)):
        return None
    return frozenset(each for each in told if each is not None)


def _default(each: Added) -> Default | None:
    """The default of an option, where it is a constant."""
    told = each.named.get("default", False if each.named.get("action") == "store_true" else None)
    if isinstance(told, _Placed):
        return Default(told.value, told.source) if constant(told.value) else None
    return Default(told, f"{each.path}: {each.flags[0]}") if constant(told) else None
