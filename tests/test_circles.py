"""No two modules import each other, by any way round: imports inside functions count too."""

from __future__ import annotations

import ast
from pathlib import Path

import lockllm

ROOT = Path(lockllm.__file__).parent


def modules() -> dict[str, ast.Module]:
    """Every module of the package, parsed."""
    parsed = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        parsed[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text("utf-8"))
    return parsed


def typing_only(tree: ast.Module) -> set[ast.AST]:
    """The nodes below `if TYPE_CHECKING:`, which never run."""
    guarded: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            guarded.update(inner for statement in node.body for inner in ast.walk(statement))
    return guarded


def imports(tree: ast.Module, names: frozenset[str]) -> set[str]:
    """The modules of ours that one module imports, wherever the statement is."""
    found = set()
    guarded = typing_only(tree)
    for node in ast.walk(tree):
        if node in guarded:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                found.add(member if member in names else node.module)
    return found & names


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []
    for start, first in arrows.items():
        if start in index:
            continue
        work = [(start, iter(sorted(first)))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            module, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    work.append((target, iter(sorted(arrows[target]))))
                    break
                if target in stack:
                    low[module] = min(low[module], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == index[module]:
                    group = []
                    while not group or group[-1] != module:
                        group.append(stack.pop())
                    if len(group) > 1:
                        groups.append(sorted(group))
    return groups


def test_no_modules_import_each_other_in_a_circle() -> None:
    parsed = modules()
    arrows = {name: imports(tree, frozenset(parsed)) - {name} for name, tree in parsed.items()}
    assert circles(arrows) == []


def test_a_circle_is_found_whatever_its_length() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(circles(arrows)) == [["a", "b", "c"], ["d", "e"]]
