"""Files and functions stay small enough to read in one go."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "lockllm"
MODULE, ROWS, FUNCTION = 800, 5000, 60  # lines: a module, a module of rows and tables, a function


def test_no_module_is_longer_than_a_person_reads_in_one_go() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    limit = {name: ROWS if name.startswith("facts/") or _mostly_data(PACKAGE / name) else MODULE for name in lengths}
    assert {name: length for name, length in lengths.items() if length > limit[name]} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION:
                    found[f"{path.relative_to(PACKAGE)}:{node.name}"] = length
    assert found == {}


def test_no_word_of_the_code_names_the_machine_it_was_written_on() -> None:
    root = PACKAGE.parent
    words = ("/root/", "file:///", f"{root}/")
    files = [
        path for folder in ("lockllm", "examples", "docs") for path in (root / folder).rglob("*") if path.is_file()
    ]
    kept = [path for path in files if path.suffix in {".py", ".md", ".toml", ".yaml", ".json"}]
    assert [str(path) for path in kept if any(word in path.read_text(errors="replace") for word in words)] == []


def _mostly_data(path: Path) -> bool:
    """Whether most of a module's lines are tables at its top level."""
    tree = ast.parse(path.read_text())
    data = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    lines = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in data)
    return lines * 2 > len(path.read_text().splitlines())
