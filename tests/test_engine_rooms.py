"""An engine stands alone: none imports another, what they share imports none, and nothing else is told of one."""

from __future__ import annotations

import ast
import re
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
    assert folders - set(FOLDERS) == {"kernel", "launch", "shown", "source"}


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


NAMED = re.compile(
    r"vllm|sglang|sgl_|(?<!x)llama[._-]?cpp|llama-server|text-generation|(?<![a-z])tgi(?![a-z])|ollama|tensorrt|trtllm|lmdeploy|"
    r"transformers",
    re.IGNORECASE,
)
"""How an engine is named in code: by itself, in a program, a variable, a path, an image, a pattern. Prose has blanks."""
ALLOWED = {
    "transformers": "the library, whose release decides how files are read",
    "packages.transformers": "the library",
    "transformers_version": "a key of generation_config.json",
    "TRANSFORMERS_OFFLINE": "a variable of the library",
    "tensorrt-llm": "the name of a checkpoint's format",
    "llama.cpp": "what a lone .gguf file is most likely for",
    "llama-cpp-python": "a distribution whose module has another name",
    "llama_cpp": "that module",
    "VLLM_ENABLE_CUDA_COMPATIBILITY": "what the dynamic loader is told",
    "VLLM_CUDA_COMPATIBILITY_PATH": "what the dynamic loader is told",
    "VLLM_NCCL_SO_PATH": "what the dynamic loader is told",
    "VLLM_SYSTEM_START_DATE": "a variable that chooses a renderer",
    "application/vnd.ollama.image.": "the format of a store",
    "registry.ollama.ai/": "the format of a store",
}
"""What stands outside the engines and is no knowledge of one, and why: libraries, formats, variables that are handed on."""
CATALOGUE = PACKAGE / "facts" / "variables"
"""The catalogue of variables: rows of data, each with its reader."""


def literals(path: Path) -> Iterator[str]:
    """The texts in a module's code, docstrings left out."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in docs:
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def test_nothing_outside_the_engines_names_one_in_code() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if ROOM in path.parents or CATALOGUE in path.parents:
            continue
        name = str(path.relative_to(PACKAGE.parent))
        told = {text.strip() for text in literals(path) if NAMED.search(text) and not re.search(r"\s", text.strip())}
        odd = told - ALLOWED.keys()
        if odd:
            found[name] = odd
    assert found == {}
