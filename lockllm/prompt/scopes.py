"""The names that a template reads from outside, followed branch by branch. Runs only inside the bounded child.

jinja2's own `find_undeclared_variables` mixes the scopes: a parameter of a macro counts as undeclared where the template
also sets that name, and a name that one branch sets counts as the template's own on every other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import nodes

_OF_MACROS = frozenset({"caller", "varargs", "kwargs"})
_OF_TEMPLATES = frozenset({"self", "super", "loop"})
_LEAVING = ("Break", "Continue")
_UNSCOPED = ("Block", "ScopedEvalContextModifier")


def read_from_outside(tree: nodes.Template) -> set[str]:
    """Every name that some way through the template reads before the template itself has set it."""
    walk = _Walk()
    walk.scope(tree.body, set(_OF_TEMPLATES))
    return walk.names


class _Walk:
    """One walk over a syntax tree. `held` are the names that are set for sure where the walk is."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._macros: list[list[tuple[Any, set[str]]]] = []

    def scope(self, body: Iterable[nodes.Node], held: set[str]) -> set[str]:
        """The statements of one scope, and then its macros: they run once all of it is set. Gives what is set at its end."""
        self._macros.append([])
        at_end = self._body(body, held) or held
        for macro, own in self._macros.pop():
            self.scope(macro.body, at_end | own)
        return at_end

    def _body(self, body: Iterable[nodes.Node], held: set[str]) -> set[str] | None:
        """What is set after these statements; None where no way leads to their end."""
        for node in body:
            after = self._statement(node, held)
            if after is None:
                return None
            held = after
        return held

    def _statement(self, node: Any, held: set[str]) -> set[str] | None:
        kind = type(node).__name__
        step = getattr(self, f"_{kind.lower()}", None)
        if step is not None:
            after: set[str] | None = step(node, held)
            return after
        if kind in _LEAVING:
            return None
        if hasattr(node, "body"):
            inner = self._inside(node, held)
            return inner if kind in _UNSCOPED else held
        self._reads(node, held)
        return held

    def _inside(self, node: Any, held: set[str]) -> set[str]:
        """A block with a body that no rule knows: what stands beside the body is read first."""
        for child in node.iter_child_nodes(exclude=("body",)):
            self._reads(child, held)
        return self.scope(node.body, set(held))

    def _reads(self, node: Any, held: set[str]) -> None:
        """Every name in an expression."""
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if type(each).__name__ == "Name":
                if each.ctx == "load" and each.name not in held:
                    self.names.add(each.name)
                continue
            waiting.extend(each.iter_child_nodes())

    def _output(self, node: Any, held: set[str]) -> set[str] | None:
        for each in node.nodes:
            self._reads(each, held)
        return None if any(map(_raises, node.nodes)) else held

    def _assign(self, node: Any, held: set[str]) -> set[str]:
        self._reads(node.node, held)
        return held | self._targets(node.target, held)

    def _assignblock(self, node: Any, held: set[str]) -> set[str]:
        if node.filter is not None:
            self._reads(node.filter, held)
        self.scope(node.body, set(held))
        return held | self._targets(node.target, held)

    def _if(self, node: Any, held: set[str]) -> set[str] | None:
        """What every branch sets that comes to its end is set."""
        self._reads(node.test, held)
        ends = [self._body(node.body, set(held))]
        for branch in node.elif_:
            self._reads(branch.test, held)
            ends.append(self._body(branch.body, set(held)))
        ends.append(self._body(node.else_, set(held)))
        reached = [each for each in ends if each is not None]
        return set.intersection(*reached) if reached else None

    def _for(self, node: Any, held: set[str]) -> set[str]:
        """Nothing that a loop sets is there after it."""
        self._reads(node.iter, held)
        inner = held | self._targets(node.target, held) | {"loop"}
        if node.test is not None:
            self._reads(node.test, inner)
        self.scope(node.body, inner)
        self.scope(node.else_, set(held))
        return held

    def _macro(self, node: Any, held: set[str]) -> set[str]:
        after = held | {node.name}
        self._callable(node, after)
        return after

    def _callblock(self, node: Any, held: set[str]) -> set[str]:
        self._reads(node.call, held)
        self._callable(node, held)
        return held

    def _callable(self, node: Any, held: set[str]) -> None:
        for each in node.defaults:
            self._reads(each, held)
        self._macros[-1].append((node, {each.name for each in node.args} | _OF_MACROS))

    def _with(self, node: Any, held: set[str]) -> set[str]:
        for each in node.values:
            self._reads(each, held)
        inner = set(held)
        for target in node.targets:
            inner |= self._targets(target, held)
        self.scope(node.body, inner)
        return held

    def _import(self, node: Any, held: set[str]) -> set[str]:
        self._reads(node.template, held)
        return held | {node.target}

    def _fromimport(self, node: Any, held: set[str]) -> set[str]:
        self._reads(node.template, held)
        return held | {each if isinstance(each, str) else each[1] for each in node.names}

    def _targets(self, node: Any, held: set[str]) -> set[str]:
        """The names that an assignment sets; `namespace.name = …` reads the namespace."""
        kind = type(node).__name__
        if kind == "Name":
            return {node.name}
        if kind == "NSRef":
            if node.name not in held:
                self.names.add(node.name)
            return set()
        return set().union(*(self._targets(each, held) for each in node.iter_child_nodes()))


def _raises(node: Any) -> bool:
    """Whether an expression ends the rendering."""
    return type(node).__name__ == "Call" and getattr(node.node, "name", "") == "raise_exception"
