"""The options that a package adds to its `argparse` parser: its functions are followed statement by statement, never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from lockllm.engines.kernel.argparse import Take
from lockllm.engines.kernel.values import Kind
from lockllm.engines.source.constants import constant, iterable, truth
from lockllm.engines.source.evaluate import ODD, Evaluator, Scope, TooMuch
from lockllm.engines.source.modules import UNKNOWN, Call, Class, Foreign, Function, Unknown, spelled

_CALLS_DEEP = 12
_SHORT = 5
KINDS = {"str": Kind.TEXT, "int": Kind.INT, "float": Kind.NUMBER}
"""What the functions that options of every engine name as their `type` make of a text."""
_MOST_OPTIONS = 5_000
_WITHOUT_EFFECT = (ast.Pass, ast.Assert, ast.Global, ast.Nonlocal, ast.ClassDef)
_SWITCHES = frozenset({"store_true", "store_false", "store_const", "append_const", "count", "version", "help"})
_GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group"})
_INERT = frozenset({"parse_args", "parse_known_args", "print_help", "format_help", "print_usage", "error", "exit"})
"""Methods of a parser that add nothing to it."""
_DECORATORS = frozenset({"staticmethod", "classmethod", "property", "cache", "lru_cache"})
"""Those that leave a function what it is."""
_FLAG = re.compile(r"-{1,2}[A-Za-z0-9][\w.+:-]{0,99}\Z", re.ASCII)


class Added(msgspec.Struct, kw_only=True):
    """One `add_argument`: its spellings and what was said of it."""

    flags: tuple[str, ...]
    named: Mapping[str, Any]
    path: str  # the file that adds it
    sure: bool = True  # no condition of a run stands before it


class Parser(msgspec.Struct, kw_only=True, eq=False):
    """A parser while it is filled. `open`: why it may hold more options than were found."""

    added: list[Added] = []
    open: list[str] = []
    inner: dict[str, Parser] = {}  # subcommands

    def __post_init__(self) -> None:
        self.added, self.open, self.inner = [], [], {}


class _Left(msgspec.Struct):
    """How a block was left before its end: by `return` (with a value), `break` or `continue`; `raise` gives nothing."""

    by: type[ast.stmt]
    value: Any = UNKNOWN


class Follower(Evaluator):
    """Follows the functions of a package that fill a parser. `harmless`: calls that take one and add nothing to it."""

    def __init__(self, name: str, sources: Mapping[str, str], harmless: Iterable[str] = ()) -> None:
        super().__init__(name, sources)
        self._harmless = frozenset(harmless)
        self._calls = 0

    def follow(self, function: Function, args: Iterable[Any], named: Mapping[str, Any] | None = None) -> Any:
        """What a function gives, its parsers filled on the way."""
        node = function.node
        if isinstance(node, ast.Lambda) or self._calls >= _CALLS_DEEP:
            return UNKNOWN
        args = tuple(args)
        if (
            not {spelled(mark.func if isinstance(mark, ast.Call) else mark) for mark in node.decorator_list}
            <= _DECORATORS
        ):
            for parser in _parsers((*args, *(named or {}).values())):
                parser.open.append(f"a decorator of {function.name} may add options")
        local = self._arguments(function, args, named or {})
        scope = Scope(module=function.module, local=local, function=function)
        self._calls += 1
        try:
            told = self._run(node.body, scope)
        finally:
            self._calls -= 1
        return told.value if told is not None else None

    def add(self, parser: Parser, names: tuple[Any, ...], named: Mapping[str, Any], path: str) -> None:
        """Add an option to a parser, as `add_argument` does: a name without dashes is that of a positional argument."""
        flags = tuple(name for name in names if isinstance(name, str) and _FLAG.match(name))
        if flags:
            parser.added.append(Added(flags=flags, named=named, path=path, sure=not self.unsure))
        odd = [name for name in names if name not in flags and (not isinstance(name, str) or name.startswith("-"))]
        if odd or not names:
            parser.open.append(f"an option of {path} has a name that cannot be told")
        if len(parser.added) > _MOST_OPTIONS:
            raise TooMuch

    def called(self, call: Call) -> Any:
        """A call: followed where a parser or the arguments of options are handed on."""
        if (known := self.known(call)) is not None:
            return known(call)
        handed = [*call.args, *call.named.values()]
        parsers = list(_parsers(handed))
        if isinstance(call.function, Function) and (parsers or any(isinstance(each, dict) for each in handed)):
            if call.name in self._harmless:
                return None
            if not parsers or self._calls < _CALLS_DEEP:
                return self.follow(call.function, call.args, call.named)
        if isinstance(call.function, Function) and not handed and _is_short(call.function):
            return self.follow(call.function, ())
        for parser in parsers:
            if call.name not in self._harmless:
                parser.open.append(f"{call.name or 'a call'} may add options")
        return parsers[0] if parsers else call

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        base = self.value(node.value, scope)
        if isinstance(base, Parser):
            self.doubt(node, scope)
        return super()._attribute(node, scope)

    def _method(self, base: Any, name: str, args: tuple[Any, ...], named: dict[str, Any], scope: Scope) -> Any:
        if isinstance(base, Parser):
            return self._on_parser(base, name, args, named, scope)
        if isinstance(base, Call) and base.name == "super" and scope.function is not None:
            owner, bound = scope.function.owner, scope.function.bound
            found = self.member(bound, name, after=owner) if bound is not None and owner is not None else UNKNOWN
            return self.follow(found, args, named) if isinstance(found, Function) else UNKNOWN
        return super()._method(base, name, args, named, scope)

    def _on_parser(self, parser: Parser, name: str, args: tuple[Any, ...], named: dict[str, Any], scope: Scope) -> Any:
        if name == "add_argument":
            self.add(parser, args, named, scope.module.path)
            return Foreign("action")
        if name == "add_parser":
            key = args[0] if args and isinstance(args[0], str) else "?"
            return parser.inner.setdefault(key, Parser())
        if name in _GROUPS or name == "add_subparsers":
            return parser
        if name not in _INERT:
            parser.open.append(f"{name} of a parser in {scope.module.path} may change its options")
        return None

    def _arguments(self, function: Function, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The names of a function's parameters, with what they are called with."""
        node = function.node
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        self.spend(len(names) + len(node.args.kwonlyargs))
        decorators = {getattr(each, "id", "") for each in getattr(node, "decorator_list", ())}
        if function.owner is not None and "staticmethod" not in decorators:
            args = (function.bound or function.owner, *args)
        scope = Scope(module=function.module)
        defaults = dict(zip(names[len(names) - len(node.args.defaults) :], node.args.defaults, strict=True))
        local = {name: self.value(default, scope) for name, default in defaults.items()}
        for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            local[each.arg] = self.value(default, scope) if default is not None else UNKNOWN
        local.update(zip(names, args, strict=False))
        local.update({name: value for name, value in named.items() if name != "**"})
        return {**dict.fromkeys(names, UNKNOWN), **local}

    def _run(self, body: list[ast.stmt], scope: Scope) -> _Left | None:
        for node in body:
            try:
                told = self._statement(node, scope)
            except ODD:
                told = None
                self.doubt(node, scope)
            if told is not None:
                return told
        return None

    def _statement(self, node: ast.stmt, scope: Scope) -> _Left | None:
        self.spend(1)
        if isinstance(node, ast.Return):
            return _Left(ast.Return, self.value(node.value, scope) if node.value is not None else None)
        if isinstance(node, (ast.Break, ast.Continue, ast.Raise)):
            return _Left(type(node))
        if isinstance(node, ast.Expr):
            self.value(node.value, scope)
        elif isinstance(node, ast.Assign):
            told = self.value(node.value, scope)
            for target in node.targets:
                self._assign(target, told, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, self.value(node.value, scope), scope)
        elif isinstance(node, ast.AugAssign):
            joined = ast.BinOp(left=_loaded(node.target), op=node.op, right=node.value)
            self._assign(node.target, self.value(joined, scope), scope)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._delete(target, scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            scope.local.update({name: self._imported(what) for name, what in scope.module.imports(node)})
        elif isinstance(node, ast.FunctionDef):
            self.doubt(node, scope)
            scope.local[node.name] = Function(scope.module, node)
        elif isinstance(node, ast.If):
            return self._if(node, scope)
        elif isinstance(node, ast.For):
            return self._for(node, scope)
        elif isinstance(node, ast.With):
            for item in node.items:
                told = self.value(item.context_expr, scope)
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, told, scope)
            return self._run(node.body, scope)
        elif isinstance(node, ast.Try):
            return self._run([*node.body, *node.orelse, *node.finalbody], scope)
        elif not isinstance(node, _WITHOUT_EFFECT):
            self.doubt(node, scope)
        return None

    def _if(self, node: ast.If, scope: Scope) -> _Left | None:
        told = truth(self.value(node.test, scope))
        if told is not None:
            return self._run(node.body if told else node.orelse, scope)
        self.unsure += 1
        try:
            first, second = self._run(node.body, scope), self._run(node.orelse, scope)
        finally:
            self.unsure -= 1
        return first if first is not None and second is not None else None

    def _for(self, node: ast.For, scope: Scope) -> _Left | None:
        items = self.value(node.iter, scope)
        if not iterable(items):
            self.doubt(node, scope)
            return None
        for item in list(items):
            self._assign(node.target, item, scope)
            told = self._run(node.body, scope)
            if told is not None and told.by is ast.Break:
                return None
            if told is not None and told.by is not ast.Continue:
                return told
        return self._run(node.orelse, scope)

    def doubt(self, node: ast.AST | None, scope: Scope) -> None:
        """Code that is not followed: a parser that it names may hold more options."""
        self.spend(len(scope.local) // 8)
        parsers = {name: told for name, told in scope.local.items() if isinstance(told, Parser)}
        for each in ast.walk(node) if node is not None and parsers else ():
            self.spend(1)
            if isinstance(each, ast.Name) and each.id in parsers:
                parsers[each.id].open.append(f"{scope.module.path}, line {getattr(node, 'lineno', 0)} may add options")

    def _assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        self.spend(1)
        if isinstance(value, Parser) and not isinstance(target, ast.Name):
            value.open.append(f"{scope.module.path}, line {target.lineno} may add options")
        if isinstance(target, ast.Name):
            scope.local[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            for at, each in enumerate(target.elts):
                self._assign(each, value[at] if known else UNKNOWN, scope)
        elif isinstance(target, ast.Subscript):
            base, key = self.value(target.value, scope), self.value(target.slice, scope)
            if isinstance(base, dict) and self.few(key):
                base[key] = value

    def _delete(self, target: ast.expr, scope: Scope) -> None:
        if isinstance(target, ast.Subscript):
            base, key = self.value(target.value, scope), self.value(target.slice, scope)
            if isinstance(base, dict) and self.few(key):
                base.pop(key, None)
        elif isinstance(target, ast.Name):
            scope.local.pop(target.id, None)


class Arity(msgspec.Struct, frozen=True, kw_only=True):
    """What an option takes, as its `action`, `nargs` and `type` say it; `sure`: all of them could be told.

    `read`: whether the function that reads its argument is one that is known.
    """

    take: Take = Take.ONE
    kind: Kind = Kind.TEXT
    bare: Any = True
    sure: bool = True
    read: bool = True


def arity(follower: Follower, named: Mapping[str, Any], kinds: Mapping[str, Kind]) -> Arity:
    """How many arguments an option takes, and of which kind. `kinds`: what a function that it names makes of a text."""
    action = named.get("action")
    if isinstance(action, str) and action in _SWITCHES:
        bare = {"store_false": False, "store_const": named.get("const", UNKNOWN)}.get(action, True)
        return Arity(take=Take.SWITCH, bare=bare if constant(bare) else True)
    if action == "append":
        return Arity(take=Take.APPEND, kind=kind(named.get("type"), kinds) or Kind.TEXT)
    nargs = named.get("nargs")
    if isinstance(action, Class):
        nargs = _nargs(follower, action) if "nargs" not in named else nargs
    name = action.last if isinstance(action, Foreign) else action.name if isinstance(action, Class) else ""
    bases = follower.line(action) if isinstance(action, Class) else []
    if name == "BooleanOptionalAction" or any(_boolean(each) for each in bases):
        return Arity(take=Take.BOTH)
    if name == "StoreBoolean":
        return Arity(take=Take.BOOLEAN)
    sure = not isinstance(action, Unknown) and not isinstance(nargs, Unknown) and "**" not in named
    sure = sure and not isinstance(named.get("type"), Unknown)
    takes = {None: Take.ONE, "?": Take.MAYBE, "+": Take.MANY, "*": Take.ANY, 0: Take.SWITCH, 1: Take.MANY}
    take = takes.get(nargs, Take.MANY) if not isinstance(nargs, Unknown) else Take.ONE
    bare = named.get("const_value", named.get("const", True))
    made = kind(named.get("type"), kinds)
    bare = () if take is Take.ANY else bare if constant(bare) and bare is not None else True
    return Arity(take=take, kind=made or Kind.TEXT, bare=bare, sure=sure, read=made is not None)


def kind(function: Any, kinds: Mapping[str, Kind]) -> Kind | None:
    """The kind of argument that a `type=` makes, by the name of the function; None where that says nothing."""
    if isinstance(function, Call):
        return kind(function.args[0], kinds) if function.args else None
    if function is None:
        return Kind.TEXT
    name = function.last if isinstance(function, Foreign) else getattr(function, "name", "")
    return kinds.get(name, KINDS.get(name))


def _is_short(function: Function) -> bool:
    """Whether a function only names what it gives: the choices of an option, gathered elsewhere."""
    body = [] if isinstance(function.node, ast.Lambda) else function.node.body
    return 0 < len(body) <= _SHORT and isinstance(body[-1], ast.Return)


def _parsers(values: Iterable[Any]) -> Iterator[Parser]:
    """The parsers among values, those in a collection too."""
    for each in values:
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, (list, tuple)) else (each,)
        yield from (told for told in inner if isinstance(told, Parser))


def _loaded(target: ast.expr) -> ast.expr:
    return ast.Name(id=target.id, ctx=ast.Load()) if isinstance(target, ast.Name) else target


def _boolean(action: Class) -> bool:
    return any(spelled(base) == "BooleanOptionalAction" for base in action.node.bases)


def _nargs(follower: Follower, action: Class) -> Any:
    """The `nargs` that an action's own `__init__` sets where none is given."""
    made = follower.member(action, "__init__")
    if not isinstance(made, Function) or isinstance(made.node, ast.Lambda):
        return None
    told = follower._arguments(made, (), {}).get("nargs")
    return None if isinstance(told, Unknown) else told
