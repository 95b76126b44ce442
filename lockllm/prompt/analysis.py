"""What a template reads and how it takes content, by its syntax tree. Runs only inside the bounded child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockllm.prompt.scopes import read_from_outside

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

_FUNCTIONS = frozenset({
    "range", "dict", "lipsum", "cycler", "joiner", "namespace", "raise_exception", "strftime_now",
})  # fmt: skip
_REQUEST = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
_MEDIA = ("image", "audio", "video", "vision")


def analyze(env: Environment, source: str) -> dict[str, Any]:
    """Names that the template looks up outside itself, and the content format that vLLM and SGLang take from it."""
    from jinja2.meta import find_undeclared_variables
    from jinja2.nodes import Filter

    tree = env.parse(source)
    known = dict(env.globals)
    env.globals.clear()
    try:
        names = find_undeclared_variables(tree)
    finally:
        env.globals.update(known)
    chance = "lipsum" in names or any(each.name == "random" for each in tree.find_all(Filter))
    return {
        "clock": "strftime_now" in names,
        "chance": chance,
        "tokens": sorted(name for name in names if name.endswith("_token")),
        "arguments": sorted(_given_by_callers(tree)),
        "arguments_once": sorted(_arguments(tree, names - _FUNCTIONS - _REQUEST)),
        "reads": sorted(names & _REQUEST),
        "format_by_loops": _format_by_loops(tree),
        "format_by_names": "openai" if any(word in source for word in _MEDIA) else _format_by_names(tree),
    }


def _given_by_callers(tree: nodes.Template) -> set[str]:
    """The names that a caller can give a value: some way through the template reads them before it sets them itself."""
    names = read_from_outside(tree) - _FUNCTIONS - _REQUEST
    return {name for name in names if not name.endswith("_token")}


def _arguments(tree: nodes.Template, names: set[str]) -> set[str]:
    """The same by the rule that locks of edition 1 were made with: a name that one branch sets is the template's own."""
    from jinja2.nodes import Filter, Name, Test

    own = {each.name for each in tree.find_all(Name) if each.ctx != "load"}
    asked = {
        each.node.name
        for each in tree.find_all((Test, Filter))
        if isinstance(each.node, Name) and each.name in {"defined", "undefined", "none", "default", "d"}
    }
    return {name for name in names if (name not in own or name in asked) and not name.endswith("_token")}


def _format_by_loops(tree: nodes.Template) -> str:
    """`openai` where a loop walks over the content of a message: vLLM `renderers/hf.py`, 0.6.4 to 0.33."""
    from jinja2.nodes import For, Name

    lists = _renamed(tree, "messages")
    if lists is None:
        return "string"
    items: set[str] = set()
    for loop in tree.find_all(For):
        if any(_walks(loop.iter, name) for name in lists):
            if not isinstance(loop.target, Name):
                return "string"  # vLLM's reading of the tree ends in an error here, and it falls back
            items.add(loop.target.name)
    for loop in tree.find_all(For):
        if any(_walks(loop.iter, name, "content") for name in items):
            return "openai" if isinstance(loop.target, Name) else "string"
    return "string"


def _format_by_names(tree: nodes.Template) -> str:
    """As vLLM's, but only for messages of three names: SGLang `srt/parser/jinja_template_utils.py`."""
    from jinja2.nodes import For

    found = any(_walks(loop.iter, name, "content") for loop in tree.find_all(For) for name in ("message", "msg", "m"))
    return "openai" if found else "string"


def _renamed(tree: nodes.Template, name: str) -> set[str] | None:
    """The name and every name that it is assigned to; None where vLLM's reading ends: assigned to something else."""
    from jinja2.nodes import Assign, Name

    seen = {name}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        for each in tree.find_all(Assign):
            if not _walks(each.node, current):
                continue
            if not isinstance(each.target, Name):
                return None
            if each.target.name not in seen:
                seen.add(each.target.name)
                waiting.append(each.target.name)
    return seen


def _walks(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Whether an expression is that variable, or that key of it, seen through filters, tests and slices."""
    from jinja2.nodes import Const, Filter, Getattr, Getitem, Name, Slice, Test

    while isinstance(node, (Filter, Test)) or (isinstance(node, Getitem) and isinstance(node.arg, Slice)):
        node = node.node
    if key is None:
        return isinstance(node, Name) and node.ctx == "load" and node.name == name
    if isinstance(node, Getitem):
        return isinstance(node.arg, Const) and node.arg.value == key and _walks_name(node.node, name)
    return isinstance(node, Getattr) and node.attr == key and _walks_name(node.node, name)


def _walks_name(node: nodes.Node, name: str) -> bool:
    from jinja2.nodes import Name

    return isinstance(node, Name) and node.ctx == "load" and node.name == name
