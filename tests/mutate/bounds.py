"""Moves each version bound of the engines' rules by one, and tells which moves no test of the engine notices.

    python -m tests.mutate.bounds [ENGINE ...] [--most N]

A bound is a text such as "0.12.0" or "b6500" in a module of rules: in a call, a comparison, a table or a named constant.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ENGINES = ROOT / "lockllm" / "engines"
ROOMS = frozenset({"kernel", "launch", "shown", "source"})  # what stands beside the engines
_BOUND = re.compile(r"b?\d+(\.\d+){1,3}|b\d{3,5}")
_DATA = re.compile(r"_rows\.py\Z|\A(options|value_options)\.py\Z")


def bounds(path: Path) -> Iterator[ast.Constant]:
    """The version bounds of a module, in the order of its lines."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and _BOUND.fullmatch(node.value)
        ):
            yield node


def moved(text: str, by: int) -> str:
    """The bound, a step later or earlier in its last number that can move."""
    head, number = re.fullmatch(r"(.*?)(\d+)", text).groups()  # type: ignore[union-attr]
    if int(number) + by >= 0:
        return f"{head}{int(number) + by}"
    above, _, _ = text.rpartition(".")
    return f"{moved(above, by)}.99" if "." in above else f"{head}{number}.1"


def mutants(engine: Path) -> Iterator[tuple[Path, ast.Constant, str]]:
    """Every module of an engine with one bound moved: the module, the bound, and what it becomes."""
    modules = sorted(engine.rglob("*.py")) if engine.is_dir() else [engine]
    for path in modules:
        if not _DATA.search(path.name):
            for node in bounds(path):
                for by in (1, -1):
                    yield path, node, moved(node.value, by)


def tests_of(engine: str) -> list[str]:
    folder = ROOT / "tests" / "engines" / engine
    return [
        *([str(folder.relative_to(ROOT))] if folder.is_dir() else []),
        "tests/observe/test_raw_hosts.py",
        "tests/engines/test_captures.py",
    ]


def survives(copy: Path, path: Path, node: ast.Constant, text: str, tests: list[str]) -> bool:
    """Whether every test passes with the bound moved."""
    target = copy / path.relative_to(ROOT)
    whole = target.read_text()
    lines = whole.splitlines(keepends=True)
    raw = lines[node.lineno - 1].encode()
    assert node.end_col_offset is not None
    lines[node.lineno - 1] = (raw[: node.col_offset] + f'"{text}"'.encode() + raw[node.end_col_offset :]).decode()
    target.write_text("".join(lines))
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        words, cwd=copy, capture_output=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy), "HOME": str(copy)}
    )
    target.write_text(whole)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*")
    parser.add_argument("--most", type=int, default=10**6, help="stop after so many")
    chosen = parser.parse_args()
    tried = alive = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "mutants")
        )
        for engine in sorted(ENGINES.iterdir()):
            name = engine.stem
            if name.startswith("_") or name in ROOMS or (chosen.engines and name not in chosen.engines):
                continue
            for path, node, text in mutants(engine):
                if tried == chosen.most:
                    break
                tried += 1
                if survives(copy, path, node, text, tests_of(name)):
                    alive += 1
                    print(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value} -> {text} is not noticed", flush=True)
    print(f"{tried - alive} of {tried} moved bounds are noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
