"""An installed package's own source, as text: its modules, and what a name in one of them is. Nothing is imported or run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

Node: TypeAlias = ast.AST
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

_CHANGE = frozenset("append extend insert remove add update discard pop clear setdefault sort reverse".split())
"""Methods that change what a name holds."""
_TOKEN = re.compile(
    r""""{3}(?:[^"\\]|\\.|"(?!""))*(?:"{3})?|'{3}(?:[^'\\]|\\.|'(?!''))*(?:'{3})?"""
    r"""|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|\#[^\n]*|\w+|[^\w ]""",
    re.DOTALL,
)
_MOST_TOKENS = 200_000
"""Of all files together, some 800 bytes of tree each; the largest release read has 142,000."""


class Unknown:
    """The value of an expression that cannot be told without running it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


class Foreign(msgspec.Struct, frozen=True):
    """A name of no file of the package: a builtin (`int`), or another library's (`json.loads`)."""

    name: str

    @property
    def last(self) -> str:
        """`loads`."""
        return self.name.rpartition(".")[2]


class Class(msgspec.Struct, frozen=True, eq=False):
    """A class of the package."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


class Function(msgspec.Struct, frozen=True, eq=False):
    """A function of the package. `owner`: the class that holds it; `bound`: the class that it is called on."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    owner: Class | None = None
    bound: Class | None = None

    @property
    def name(self) -> str:
        """Its name; `""` of a lambda."""
        return getattr(self.node, "name", "")


class Generic(msgspec.Struct, frozen=True):
    """A type with arguments: `list[int]`, `Literal["a", "b"]`, `A | B` (whose base is `Union`)."""

    base: Any
    args: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The last part of its base's name."""
        return self.base.last if isinstance(self.base, Foreign) else getattr(self.base, "name", "")


class Call(msgspec.Struct, frozen=True):
    """A call that is kept as it stands: `optional_type(int)`, `Field(default=4)`."""

    function: Any
    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        """The last part of what is called."""
        return self.function.last if isinstance(self.function, Foreign) else getattr(self.function, "name", "")


class Imported(msgspec.Struct, frozen=True):
    """A name that an import binds: a module, or what a module calls `name`."""

    module: str
    name: str = ""


class Field(msgspec.Struct, frozen=True, eq=False):
    """A field of a class: its annotation, its default where it has one, and the class that declares it."""

    name: str
    annotation: ast.expr
    default: ast.expr | None
    owner: Class


class Module:
    """One file of the package, parsed.

    `names` holds what each name of its top level may be bound to; `checked` those that only a type checker sees (an
    annotation names them by a text); `stars` the modules whose names it takes over.
    """

    def __init__(self, name: str, path: str, text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape is a warning on the user's terminal
            self.tree = ast.parse(text)
        self.name = name
        self.path = path
        self.names: dict[str, list[Any]] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.checked: set[str] = set()
        self.stars: list[str] = []
        _bind(self.tree.body, self)

    @property
    def package(self) -> str:
        """The package that its relative imports start from."""
        return self.name if self.path.endswith("/__init__.py") else self.name.rpartition(".")[0]

    def imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Imported]]:
        """What an import in this module binds."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    Imported(alias.name if alias.asname else alias.name.partition(".")[0]),
                )
            return
        above = self.package.split(".")
        base = above[: max(0, len(above) - node.level + 1)] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            yield alias.asname or alias.name, Imported(module, alias.name)


class Package:
    """The modules of one package. `sources` gives the text of a file by its path below the folder of packages."""

    def __init__(self, name: str, sources: Mapping[str, str]) -> None:
        self.name = name
        self.sources = sources
        self._modules: dict[str, Module | None] = {}
        self._tokens = 0

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None where there is none, or no source that parses."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def is_own(self, name: str) -> bool:
        """Whether a module belongs to the package."""
        return name == self.name or name.startswith(self.name + ".")

    def _read(self, name: str) -> Module | None:
        if not self.is_own(name):
            return None
        base = name.replace(".", "/")
        for path in (f"{base}/__init__.py", f"{base}.py"):
            if (text := self.sources.get(path)) is not None:
                self._tokens += sum(1 for _ in _TOKEN.finditer(text))
                if self._tokens > _MOST_TOKENS or not _is_quick(text):
                    return None
                try:
                    return Module(name, path, text)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return None
        return None


def _is_quick(text: str) -> bool:
    """Whether Python parses a text in a time that grows with its length: long names, f-strings and lines take its square."""
    longest = max(map(len, text.split("\n")))
    return longest <= 10_000 and text.count("{") <= 20_000 and text.count("\\\n") <= 5_000


def _bind(body: list[ast.stmt], module: Module, sure: bool = True) -> None:
    """Every name that statements bind. Of `if TYPE_CHECKING` only what a run binds counts; what an `if` binds is unsure."""
    for node in body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            module.stars += [what.module for _, what in module.imports(node)]
        elif isinstance(node, ast.If):
            checking = _type_checking(node.test)
            for branch, unused in ((node.body, checking is True), (node.orelse, checking is False)):
                if unused:
                    module.checked |= _names(branch, module)
                else:
                    _bind(branch, module, sure and checking is not None)
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                _bind(handler.body, module, False)
            _bind([*node.body, *node.orelse, *node.finalbody], module, sure)  # what an `except` stands in for is there
        else:
            for name, what in _bound(node, module):
                if isinstance(what, ast.ClassDef):
                    module.classes.setdefault(name, what)
                if sure:
                    module.names[name] = []
                module.names.setdefault(name, []).append(what)


def _bound(node: ast.stmt, module: Module) -> Iterator[tuple[str, Any]]:
    """The names that one statement binds, with what it binds them to; UNKNOWN for those that it may change otherwise."""
    if isinstance(node, _DEFINITIONS):
        yield node.name, node
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from module.imports(node)
        return
    plain: dict[str, Any] = {}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        plain = {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    yield from ((name, value) for name, value in plain.items() if value is not None)
    yield from ((name, UNKNOWN) for name in _touched(node) if name not in plain)


def spelled(node: ast.AST) -> str:
    """The last part of a name: `c` of `a.b.c`; empty where it is none."""
    return getattr(node, "id", getattr(node, "attr", ""))


def _touched(node: ast.AST) -> Iterator[str]:
    """The names that code binds or changes as it runs; what a function or a class inside it does is its own."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (*_DEFINITIONS, ast.Lambda)):
            yield getattr(each, "name", "")
            continue
        if isinstance(each, ast.alias):
            yield each.asname or each.name.partition(".")[0]
        elif isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            yield each.id
        elif isinstance(each, ast.Subscript) and not isinstance(each.ctx, ast.Load):
            yield getattr(each.value, "id", "")
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _CHANGE:
            yield getattr(each.func.value, "id", "")
        waiting += ast.iter_child_nodes(each)


def _names(body: list[ast.stmt], module: Module) -> set[str]:
    return {name for node in body for name, _ in _bound(node, module)}


def _type_checking(test: ast.expr) -> bool | None:
    """True for `TYPE_CHECKING`, false for `not TYPE_CHECKING`, None for any other condition."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _type_checking(test.operand)
        return None if inner is None else not inner
    return True if spelled(test) == "TYPE_CHECKING" else None
