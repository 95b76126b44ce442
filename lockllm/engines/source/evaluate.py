"""Expressions of a package's source, worked out as far as they are constant. What only a run would tell is UNKNOWN."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from lockllm.engines.source.constants import KNOWN, constant, large, parts, plain, plain_default, power, same, truth
from lockllm.engines.source.modules import (
    UNKNOWN,
    Call,
    Class,
    Field,
    Foreign,
    Function,
    Generic,
    Imported,
    Module,
    Package,
    Unknown,
)

_MOST_STEPS = 100_000
"""Those of the largest release read are 14,000."""
_MOST_PARTS = 10_000
_DEEPEST = 60
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What code of a shape that nobody saw may trip."""
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset("replace lower upper strip lstrip rstrip removeprefix removesuffix split title".split()),
    list: frozenset("append extend remove insert copy index".split()),
    dict: frozenset("items keys values get pop update copy setdefault".split()),
    set: frozenset("add discard remove union copy update".split()),
    tuple: frozenset({"index"}),
}
"""Methods of plain values that are worked out."""
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARE: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: lambda a, b: a is b or (a == b and constant(a)),
    ast.IsNot: lambda a, b: not (a is b or (a == b and constant(a))),
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class Scope(msgspec.Struct, kw_only=True, eq=False):
    """Where an expression stands: its module, the class whose body it is in, the names of its function."""

    module: Module
    owner: Class | None = None  # names of its body are seen
    local: dict[str, Any] = {}
    function: Function | None = None


class TooMuch(Exception):
    """The source asks for more steps than any that was seen."""


class Evaluator(Package):
    """Works out expressions of one package. `intrinsics`: functions, by name, that are known and not followed."""

    def __init__(self, name: str, sources: Mapping[str, str]) -> None:
        super().__init__(name, sources)
        self.intrinsics: dict[str, Callable[[Call], Any]] = dict(KNOWN)
        self._bodies: dict[ast.ClassDef, dict[str, ast.stmt]] = {}
        self.unsure = 0  # conditions of a run that stand before what is worked out
        self._steps = 0
        self._depth = 0
        self._open: set[tuple[str, str]] = set()

    def value(self, node: ast.AST | None, scope: Scope) -> Any:
        """The value of an expression."""
        self.spend(1)
        evaluate = getattr(self, f"_{type(node).__name__.lower()}", None)
        if evaluate is None or self._depth > _DEEPEST:
            self.doubt(node, scope)
            return UNKNOWN
        self._depth += 1
        try:
            return evaluate(node, scope)
        except ODD:
            self.doubt(node, scope)
            return UNKNOWN
        finally:
            self._depth -= 1

    def doubt(self, node: ast.AST | None, scope: Scope) -> None:
        """Take note of code that is not followed."""

    def spend(self, steps: int) -> None:
        """Count work; TooMuch where it comes to more than any release needs."""
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise TooMuch

    def few(self, *values: Any) -> bool:
        """Whether values are of few parts, however deep: only those are compared, hashed, sorted or taken apart."""
        count = sum(map(parts, values))
        self.spend(count // 8)
        return count <= _MOST_PARTS

    def top(self, module: Module, name: str) -> Any:
        """What a module calls `name` at its top level."""
        self.spend(1)
        if name in module.classes:
            return Class(module, module.classes[name])
        if (module.name, name) in self._open:
            return UNKNOWN
        self._open.add((module.name, name))
        try:
            if name not in module.names:
                return self._beside(module, name)
            told = [self._bound(each, module) for each in module.names[name]]
        finally:
            self._open.discard((module.name, name))
        return told[0] if all(self._same(told[0], other) for other in told[1:]) else UNKNOWN

    def fields(self, owner: Class) -> dict[str, Field]:
        """The annotated names of a class and its bases, a base's first, as `dataclasses.fields` lists them."""
        found: dict[str, Field] = {}
        for each in reversed(self.line(owner)):
            for node in each.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    name = node.target.id
                    found[name] = Field(name, node.annotation, node.value, each)
        return found

    def line(self, owner: Class) -> list[Class]:
        """A class of the package, then its bases."""
        found: list[Class] = []
        waiting = [owner]
        while waiting and len(found) < 40:
            each = waiting.pop(0)
            if any(each.node is other.node for other in found):
                continue
            found.append(each)
            bases = [self.value(base, Scope(module=each.module)) for base in each.node.bases]
            waiting += [base for base in bases if isinstance(base, Class)]
        return found

    def member(self, owner: Class, name: str, after: Class | None = None) -> Any:
        """A name of a class's body or of its bases'. `after`: of the bases behind that class (`super()`)."""
        line = self.line(owner)
        if after is not None:
            line = line[next((at for at, each in enumerate(line) if each.node is after.node), -1) + 1 :]
        for each in line:
            node = self._body(each.node).get(name)
            if isinstance(node, ast.FunctionDef):
                return Function(each.module, node, owner=each, bound=owner)
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                return plain_default(self.value(node.value, Scope(module=each.module, owner=each)))
        return UNKNOWN

    def _body(self, node: ast.ClassDef) -> Mapping[str, ast.stmt]:
        """The statement that binds each name of a class's body: the last one."""
        if node not in self._bodies:
            found: dict[str, ast.stmt] = {}
            for each in node.body:
                if isinstance(each, ast.FunctionDef):
                    found[each.name] = each
                elif isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
                    targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                    found.update({to.id: each for to in targets if isinstance(to, ast.Name)})
            self._bodies[node] = found
        return self._bodies[node]

    def _same(self, one: Any, other: Any) -> bool:
        return self.few(one, other) and same(one, other)

    def called(self, call: Call) -> Any:
        """What a call gives: worked out where the function is known, else the call as it stands."""
        known = self.known(call)
        return call if known is None else known(call)

    def known(self, call: Call) -> Callable[[Call], Any] | None:
        """What works out a call of a known function: another library's by its whole name, the package's own by its last."""
        name = call.function.name if isinstance(call.function, Foreign) else call.name
        return self.intrinsics.get(name) if self.few(*call.args) else None

    def _beside(self, module: Module, name: str) -> Any:
        """A name that no statement binds: of a module whose names were taken over, or a module of its own."""
        for star in module.stars:
            other = self.module(star)
            told = self.top(other, name) if other is not None else UNKNOWN
            if not isinstance(told, Unknown):
                return told
        if name in module.checked:
            return Foreign(name)
        inner = f"{module.name}.{name}"
        return Imported(inner) if module.package == module.name and self.module(inner) is not None else UNKNOWN

    def _bound(self, binding: Any, module: Module) -> Any:
        if isinstance(binding, ast.ClassDef):
            return Class(module, binding)
        if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return Function(module, binding)
        if isinstance(binding, Imported):
            return self._imported(binding)
        return binding if isinstance(binding, Unknown) else self.value(binding, Scope(module=module))

    def _imported(self, what: Imported) -> Any:
        if not self.is_own(what.module):
            return Foreign(f"{what.module}.{what.name}" if what.name else what.module)
        if not what.name:
            return what
        module = self.module(what.module)
        return self.top(module, what.name) if module is not None else UNKNOWN

    def _constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def _name(self, node: ast.Name, scope: Scope) -> Any:
        if node.id in scope.local:
            return scope.local[node.id]
        if scope.owner is not None and not isinstance(found := self._in_body(scope.owner, node.id), Unknown):
            return found
        told = self.top(scope.module, node.id)
        return Foreign(node.id) if isinstance(told, Unknown) and node.id in _BUILTINS else told

    def _in_body(self, owner: Class, name: str) -> Any:
        return self.member(owner, name) if isinstance(self._body(owner.node).get(name), ast.Assign) else UNKNOWN

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        base = self.value(node.value, scope)
        if isinstance(base, Imported):
            module = self.module(base.module)
            return self.top(module, node.attr) if module is not None else UNKNOWN
        if isinstance(base, Foreign) and not large(base.name + node.attr):
            return Foreign(f"{base.name}.{node.attr}")
        if isinstance(base, Class):
            return base.name if node.attr == "__name__" else self.member(base, node.attr)
        return UNKNOWN

    def _list(self, node: ast.List, scope: Scope) -> Any:
        return list(self._items(node.elts, scope))

    def _tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        return tuple(self._items(node.elts, scope))

    def _set(self, node: ast.Set, scope: Scope) -> Any:
        items = list(self._items(node.elts, scope))
        return set(items) if self.few(items) else UNKNOWN

    def _items(self, nodes: list[ast.expr], scope: Scope) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.value(node.value, scope)
                if not isinstance(inner, (list, tuple, set)):
                    raise TypeError("only a run tells its items")
                self.spend(len(inner))
                yield from inner
            else:
                yield self.value(node, scope)

    def _dict(self, node: ast.Dict, scope: Scope) -> Any:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            told = self.value(value, scope)
            if key is not None:
                name = self.value(key, scope)
                if not self.few(name):
                    return UNKNOWN
                found[name] = told
            elif isinstance(told, dict):
                self.spend(len(told))
                found.update(told)
            else:
                return UNKNOWN
        return found

    def _joinedstr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        told = [self.value(each, scope) for each in node.values]
        texts = list(map(str, told)) if all(map(constant, told)) else []
        return "".join(texts) if texts and sum(map(len, texts)) <= _MOST_PARTS else UNKNOWN

    def _formattedvalue(self, node: ast.FormattedValue, scope: Scope) -> Any:
        return self.value(node.value, scope) if node.format_spec is None and node.conversion == -1 else UNKNOWN

    def _binop(self, node: ast.BinOp, scope: Scope) -> Any:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        if isinstance(node.op, ast.BitOr) and not (isinstance(left, (int, set, dict)) and type(left) is type(right)):
            return Generic(Foreign("Union"), (left, right))
        known = _OPERATORS.get(type(node.op))
        if known is None or large(left) or large(right):
            return power(node.op, left, right)
        self.spend(sum(len(each) // 8 for each in (left, right) if hasattr(each, "__len__")))
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        return known(left, right) if numbers or isinstance(node.op, (ast.Add, ast.BitOr)) else UNKNOWN

    def _unaryop(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        if isinstance(node.op, ast.Not):
            told = truth(value)
            return UNKNOWN if told is None else not told
        return -value if isinstance(node.op, ast.USub) else UNKNOWN

    def _compare(self, node: ast.Compare, scope: Scope) -> Any:
        values = [self.value(each, scope) for each in (node.left, *node.comparators)]
        known = _COMPARE.get(type(node.ops[0]))
        if len(values) != 2 or known is None or not all(map(plain, values)) or not self.few(*values):
            return UNKNOWN
        return known(*values)

    def _boolop(self, node: ast.BoolOp, scope: Scope) -> Any:
        before, told = self.unsure, UNKNOWN
        try:
            for each in node.values:
                told = self.value(each, scope)
                if (holds := truth(told)) is None:
                    self.unsure += 1
                elif holds is isinstance(node.op, ast.Or):
                    break
            return told if self.unsure == before else UNKNOWN
        finally:
            self.unsure = before

    def _ifexp(self, node: ast.IfExp, scope: Scope) -> Any:
        told = truth(self.value(node.test, scope))
        if told is not None:
            return self.value(node.body if told else node.orelse, scope)
        self.unsure += 1
        try:
            first, second = self.value(node.body, scope), self.value(node.orelse, scope)
        finally:
            self.unsure -= 1
        return first if self._same(first, second) else UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base = self.value(node.value, scope)
        if isinstance(base, Unknown):
            return UNKNOWN
        index = self.value(node.slice, scope)
        if not self.few(index):
            return UNKNOWN
        if isinstance(base, (dict, list, tuple, str)):
            return base[index]
        return Generic(base, index if isinstance(index, tuple) else (index,))

    def _lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        self.doubt(node, scope)
        return Function(scope.module, node)

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        try:
            args = tuple(self._items(node.args, scope))
        except TypeError:
            args = (UNKNOWN,)
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            told = self.value(keyword.value, scope)
            if keyword.arg is not None:
                named[keyword.arg] = told
            elif isinstance(told, dict) and all(isinstance(name, str) for name in told):
                self.spend(len(told))
                named.update(told)
            else:
                named["**"] = UNKNOWN
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, scope)
            told = self._method(base, node.func.attr, args, named, scope)
            if told is not NotImplemented:
                return told
        function = self.value(node.func, scope)
        if isinstance(function, Unknown):
            function = Foreign(getattr(node.func, "id", f"?.{getattr(node.func, 'attr', '')}"))
        return self.called(Call(function, args, named))

    def _method(self, base: Any, name: str, args: tuple[Any, ...], named: dict[str, Any], scope: Scope) -> Any:
        """A method of a plain value. NotImplemented: it is none."""
        if name not in _METHODS.get(type(base), ()):
            return NotImplemented
        if any(isinstance(each, Unknown) for each in args) and type(base) is str:
            return UNKNOWN
        if not self.few(base, *args, named) or (type(base) is str and _growth(base, args) > _MOST_PARTS):
            return UNKNOWN
        return getattr(base, name)(*args, **named)


def _growth(text: str, args: Iterable[Any]) -> int:
    """How long a text may become by one of its methods (`"aa".replace("a", long)`)."""
    return (len(text) + 1) * max((len(each) for each in args if isinstance(each, str)), default=1)


_BUILTINS = frozenset(
    "str int float bool dict list set tuple object bytes type None frozenset sorted len print super isinstance getattr "
    "hasattr staticmethod classmethod property range any all min max sum zip map filter repr enumerate".split()
)
