"""The options of an installed SGLang that no table has, read from its own source.

The shape is that of 0.3.4 to 0.5.23: `ServerArgs.add_cli_args` adds each option by hand (to 0.5.10), or from annotations
(`add_cli_args_from_dataclass`), of `ServerArgs` itself (0.5.12 to 0.5.18) or of the namespaces that it collects (since 0.5.20).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.engines import Installed
from lockllm.engines.kernel.argparse import Option, Take, canonical
from lockllm.engines.kernel.releases import order
from lockllm.engines.kernel.values import Kind
from lockllm.engines.sglang import options
from lockllm.engines.source.constants import literals
from lockllm.engines.source.evaluate import Scope
from lockllm.engines.source.installed import TOO_ODD, Grammar, dest, gather, named, placed
from lockllm.engines.source.modules import UNKNOWN, Call, Class, Field, Foreign, Function, Generic, Module, Unknown
from lockllm.engines.source.parsers import Added, Follower, Parser, arity

_ARGUMENTS = "sglang.srt.server_args"
_EXPECTED = frozenset({"--model-path", "--dtype", "--tp-size", "--port"})
_KINDS = {"loads": Kind.STRICT_JSON, "json_list_type": Kind.STRICT_JSON, "human_readable_int": Kind.SI}
"""What the functions that read an argument make of it."""


def installed(version: str, sources: Mapping[str, str]) -> Installed | None:
    """The options of that release; None where the tables have it, and nothing is read."""
    return None if is_listed(version) else read(version, sources)


def read(version: str, sources: Mapping[str, str]) -> Installed:
    """The options of a release by the source of its package."""
    try:
        follower, path, parser = followed(sources)
        grammar = _grammar(version)
        told = gather(follower, version, path, parser, grammar)
        return msgspec.structs.replace(told, standing=_standings(follower, parser, grammar))
    except TOO_ODD:
        return Installed(
            version=version, problem=f"the options of SGLang {version} are of a shape that cannot be followed"
        )


def followed(sources: Mapping[str, str]) -> tuple[Follower, str, Parser]:
    """The parser of the server, filled, the file that fills it, and what followed it."""
    follower = Follower("sglang", sources, ("load_general_plugins",))
    module = follower.module(_ARGUMENTS)
    owner = follower.top(module, "ServerArgs") if module is not None else UNKNOWN
    made = follower.member(owner, "add_cli_args") if isinstance(owner, Class) else UNKNOWN
    parser = Parser()
    if module is not None and isinstance(owner, Class) and isinstance(made, Function):
        fields = _fields(follower, module, owner)
        follower.intrinsics["add_cli_args_from_dataclass"] = lambda call: _annotated(follower, call, fields, owner)
        follower.intrinsics["_declared_default"] = lambda call: placed(follower, fields.get(call.args[0]))
        follower.follow(made, (parser,))
    return follower, module.path if module is not None else "sglang/srt/server_args.py", parser


def is_listed(version: str) -> bool:
    """Whether the options of that very version were read; its candidates and post-releases count as it, no build between."""
    return "dev" not in version and order(version)[0] in {order(read)[0] for read in options.VERSIONS}


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
        takes = {"default": placed(follower, field), "dest": name, **takes}
        follower.add(parser, flags, takes, field.owner.module.path)


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


def _grammar(version: str) -> Grammar:
    return Grammar(
        label="SGLang", expected=_EXPECTED, known=options.of(version), kinds=_KINDS, name=_option_name, finish=_finish
    )


def _option_name(each: Added) -> str:
    """What an option sets, else its first long spelling."""
    long = [options.ALIASES.get(flag[2:], flag[2:]) for flag in each.flags if flag.startswith("--")]
    return dest(each) or canonical(long[0] if long else each.flags[0])


def _finish(made: Option, _: Added) -> Option:
    """Options whose text the server itself reads as JSON."""
    is_json = made.kind is Kind.TEXT and made.name.replace("_", "-") in options.JSON
    return msgspec.structs.replace(made, kind=Kind.JSON_OR_TEXT) if is_json else made


def _standings(follower: Follower, parser: Parser, grammar: Grammar) -> dict[str, str]:
    """The switches on their way out, by the action that SGLang gives them."""
    found = {named(each, grammar): _standing(follower, each.named) for each in parser.added}
    return {name: how for name, how in found.items() if how}


def _standing(follower: Follower, said: Mapping[str, Any]) -> str:
    """How an option on its way out stands, by the action that SGLang gives it."""
    action = said.get("action")
    if not isinstance(action, Class) or not action.name.startswith("Deprecated"):
        return ""
    if action.name != "DeprecatedAction":
        return "retired" if arity(follower, said, _KINDS).take is Take.SWITCH else ""
    act = follower.member(action, "__call__")
    body = act.node.body if isinstance(act, Function) and not isinstance(act.node, ast.Lambda) else []
    raises = any(isinstance(node, ast.Raise) for node in body)
    return "gone" if raises or said.get("error_message") is not None else "idle"
