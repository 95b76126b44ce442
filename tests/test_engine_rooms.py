"""An engine stands alone: none imports another, what they share imports none, and nothing else is told of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockllm import engines

PACKAGE = Path(__file__).parent.parent / "lockllm"
ROOM = PACKAGE / "engines"
FOLDERS = sorted(each.module.split(".")[-2] for each in engines.built_in().values())


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def engines_imported(path: Path) -> set[str]:
    parts = (name.split(".") for name in imported(path) if name.startswith("lockllm.engines."))
    return {each[2] for each in parts if each[2] in FOLDERS}


def test_every_folder_of_the_room_is_an_engine_or_shared_by_them() -> None:
    folders = {each.name for each in ROOM.iterdir() if (each / "__init__.py").exists()}
    assert folders - set(FOLDERS) == {"kernel", "launch", "shown"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_engine_imports_another(folder: str) -> None:
    found = {str(path): engines_imported(path) - {folder} for path in (ROOM / folder).rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_what_engines_share_imports_no_engine() -> None:
    shared = [path for path in ROOM.rglob("*.py") if path.relative_to(ROOM).parts[0] not in FOLDERS]
    assert {str(path): names for path in shared if (names := engines_imported(path))} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_an_engine_is_is_read_without_its_rules(folder: str) -> None:
    light = {"__future__", "re", "collections.abc", "typing", "lockllm.engines.protocol"}
    path = ROOM / folder / "__init__.py"
    modules = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    modules |= {
        each.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for each in node.names
    }
    assert modules <= light


def test_each_engine_is_found_by_its_name_alone() -> None:
    assert {name: engines.identity(name).name for name in engines.available()} == {
        name: name for name in engines.available()
    }
    assert not any(map(engines.known, ("kernel", "launch", "llama_cpp", "LLAMA.CPP", "../vllm", "", None, ["vllm"])))
    with pytest.raises(KeyError):
        engines.load("kernel")
