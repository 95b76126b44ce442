"""A misspelt key is an error of types: the keys are written from the registry's rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from lockllm.facts import fact_keys, registry, row_keys
from tests.conftest import ROOT

OTHER_NAMES = {
    "chat_template.jinja", "chat_template.json", "tokenizer.json", "tokenizer.model.v", "tokenizer.model.v*",
    "tokenizer.ggml.tokens", "tokenizer.chat_template",
}  # fmt: skip
"""Names of files and of GGUF's own keys that begin like a key."""
UNLISTED = {
    "serve.kv_cache_layout", "serve.async_scheduling", "serve.disable_custom_all_reduce", "serve.compilation_level",
    "serve.compilation_mode", "serve.cudagraph_mode", "serve.world_size", "serve.kv_cache_blocks", "serve.kv_cache_tokens",
    "serve.cuda_graphs", "chat_template.render_fingerprint",
}  # fmt: skip
"""What logs and endpoints say that no row names: shown in an observation, never locked."""
OTHER_TUPLES = {
    ("tokenizer", "path"), ("serve", "api_server"), ("rocm", "cpu"), ("serve", "default_chat_template_kwargs"),
    ("serve", "gpu_memory_utilization"), ("cuda", "hip", "xpu"),
    ("tokenizer", "template", "processor", "code", "adapter"), ("quantization", "quantization_config"),
}  # fmt: skip
"""Words, platforms and places in a spec that begin like the path of a fact."""
MODULES = sorted(path for path in (ROOT / "lockllm").rglob("*.py") if path.name != "row_keys.py")

HEAD = '''"""The keys of the registry's rows: a misspelt one is an error of types.

Generated from the rows by `pytest tests/facts --update-golden`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

RowKey: TypeAlias = Literal[
'''


def test_the_keys_are_those_of_the_rows(golden: Callable[[Path, str], None]) -> None:
    text = HEAD + "".join(f"    {_quoted(row.key)},\n" for row in registry.ROWS) + "]\n"
    golden(ROOT / "lockllm" / "facts" / "row_keys.py", text)


@pytest.mark.parametrize("key", get_args(fact_keys.MemberKey))
def test_a_member_that_code_names_is_one_of_a_family(key: str) -> None:
    row = registry.row_of(key)
    assert row.known
    assert registry.family(row.path) is not None
    assert key not in get_args(row_keys.RowKey)


def test_every_key_and_path_that_code_names_is_a_fact() -> None:
    """Types hold the keys of calls and tables; this holds those that a table of plain texts or a tuple names."""
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}
    unlisted = {tuple(key.split(".")) for key in UNLISTED}
    keys = {(name, key) for name, tree in trees.items() for key in {*_keys(tree)} - OTHER_NAMES - UNLISTED}
    paths = {(name, path) for name, tree in trees.items() for path in {*_paths(tree)} - OTHER_TUPLES - unlisted}
    assert sorted(keys) == []
    assert sorted(paths) == []


def test_no_start_pays_for_the_keys() -> None:
    imports = "from lockllm.facts.fact_keys import"
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if imports in line and not line.startswith("    ")] == [], path


EVERY = (*registry.ROWS, *(each.row for each in registry.FAMILIES))


def _keys(tree: ast.AST) -> Iterator[str]:
    """The texts that are spelled like a key, and name no fact, family or beginning of one."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.fullmatch(r"[a-z_]+(\.[a-z_0-9]*[a-z0-9])+", text):
            path = tuple(text.split("."))
            if path[0] in registry.GROUP and not _is_fact(path):
                yield text


def _paths(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(tree):
        words = (
            [each.value for each in node.elts if isinstance(each, ast.Constant)] if isinstance(node, ast.Tuple) else []
        )
        if (
            isinstance(node, ast.Tuple)
            and len(words) == len(node.elts) > 1
            and all(isinstance(each, str) for each in words)
        ):
            path = tuple(map(str, words))
            if path[0] in registry.GROUP and path[1] not in registry.GROUP and not _is_fact(path):
                yield path


def _is_fact(path: tuple[str, ...]) -> bool:
    return registry.find(path).known or any(row.path[: len(path)] == path for row in EVERY)


def _quoted(key: str) -> str:
    return f"'{key}'" if '"' in key else f'"{key}"'
