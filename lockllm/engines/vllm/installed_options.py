"""The options of an installed vLLM that no table has, read from its own source.

The shape is that of 0.6.0 to 0.33.0: `vllm serve` fills one parser, by `add_argument` alone (to 0.8.4) or from the
annotations and defaults of configuration classes (`get_kwargs` of `engine/arg_utils.py`, since 0.8.5).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lockllm.engines import Installed
from lockllm.engines.kernel.argparse import Option, canonical
from lockllm.engines.kernel.releases import order
from lockllm.engines.kernel.values import Kind
from lockllm.engines.source.installed import TOO_ODD, Grammar, dest, gather
from lockllm.engines.source.modules import UNKNOWN, Call, Class, Function
from lockllm.engines.source.parsers import Added, Follower, Parser
from lockllm.engines.vllm import options
from lockllm.engines.vllm.config_classes import default_of, inverses, kwargs

_SERVE = "vllm.entrypoints.cli.serve"
_PARSERS = ("vllm.entrypoints.openai.cli_args", "vllm.entrypoints.common.cli_args")
_HARMLESS = (
    "pre_register_and_update", "load_general_plugins", "show_filtered_argument_or_group_from_help",
    "show_subcommand_help",
)  # fmt: skip
"""Calls that take the parser and add nothing in any release read; a plugin's own options are no part of the package."""
_EXPECTED = frozenset({"--dtype", "--tensor-parallel-size", "--max-model-len", "--port"})
_KINDS = {
    "loads": Kind.JSON, "parse_dataclass": Kind.JSON, "union_dict_and_str": Kind.JSON_OR_TEXT,
    "int_or_name": Kind.LOOSE, "human_readable_int": Kind.HUMAN, "human_readable_int_or_auto": Kind.HUMAN_AUTO,
}  # fmt: skip
"""What the functions that read an argument make of it."""


def installed(version: str, sources: Mapping[str, str]) -> Installed | None:
    """The options of that release; None where the tables have it, and nothing is read."""
    return None if is_listed(version) else read(version, sources)


def read(version: str, sources: Mapping[str, str]) -> Installed:
    """The options of a release by the source of its package."""
    try:
        follower, path, parser = followed(sources)
        return gather(follower, version, path or "vllm/entrypoints", parser, _grammar(follower, version))
    except TOO_ODD:
        return Installed(
            version=version, problem=f"the options of vLLM {version} are of a shape that cannot be followed"
        )


def followed(sources: Mapping[str, str]) -> tuple[Follower, str, Parser]:
    """The parser of `vllm serve`, filled, the file that fills it, and what followed it."""
    follower = Follower("vllm", sources, _HARMLESS)
    follower.intrinsics["get_kwargs"] = lambda call: kwargs(follower, _first(call))
    follower.intrinsics["get_field"] = lambda call: default_of(follower, _first(call), call.args[1])
    path, parser = _parser(follower)
    return follower, path, parser


def is_listed(version: str) -> bool:
    """Whether the options of that very version were read; its candidates and post-releases count as it, no build between."""
    return "dev" not in version and order(version)[0] in {order(read)[0] for read in options.READ}


def _parser(follower: Follower) -> tuple[str, Parser]:
    """The parser of `vllm serve`, filled, and the file that fills it."""
    top = Parser()
    serve = follower.module(_SERVE)
    for node in serve.classes.values() if serve is not None else ():
        made = follower.member(Class(serve, node), "subparser_init") if serve is not None else UNKNOWN
        if isinstance(made, Function):
            follower.follow(made, (top,))
            if "serve" in top.inner:
                return made.module.path, top.inner["serve"]
    for each in _PARSERS:
        module = follower.module(each)
        made = follower.top(module, "make_arg_parser") if module is not None else UNKNOWN
        if isinstance(made, Function):
            parser = Parser()
            follower.follow(made, (parser,))
            return made.module.path, _with_config(parser)
    return "", top


def _with_config(parser: Parser) -> Parser:
    """The option that `vllm serve` adds by itself in releases where `vllm/scripts.py` starts it (to 0.8)."""
    if not any("--config" in each.flags for each in parser.added):
        parser.added.append(Added(flags=("--config",), named={}, path="vllm/scripts.py"))
    return parser


def _grammar(follower: Follower, version: str) -> Grammar:
    pairs = inverses(follower)
    return Grammar(
        label="vLLM", expected=_EXPECTED, known=options.options(options.nearest(version) or options.NEWEST),
        kinds=_KINDS, name=_name,
        finish=lambda made, _: msgspec.structs.replace(made, off=(*made.off, *_inverse(made, pairs))),
    )  # fmt: skip


def _name(each: Added) -> str:
    """An older spelling keeps its name; a new one goes by what it sets."""
    known = next((canonical(flag) for flag in each.flags if canonical(flag) in options.history()), None)
    return known or dest(each) or canonical(max(each.flags, key=lambda flag: flag[:2] == "--"))


def _inverse(made: Option, pairs: Mapping[str, str]) -> tuple[str, ...]:
    """`--disable-x` beside `--enable-x` (since 0.33.0)."""
    if not made.off:
        return ()
    return tuple(
        other + flag.removeprefix(prefix)
        for flag in made.flags
        for prefix, other in pairs.items()
        if flag.startswith(prefix)
    )


def _first(call: Call) -> Class | None:
    told = call.args[0] if call.args else call.named.get("cls")
    return told if isinstance(told, Class) else None
