"""Laws of a source that is read and never run: whatever it holds, it gives options or says why it does not."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockllm.engines.sglang import engine as sglang
from lockllm.engines.vllm import engine as vllm
from tests.engines.future import SGLANG, SGLANG_VERSION, VERSION, VLLM

ENGINES = {"vllm": (vllm, VLLM, VERSION), "sglang": (sglang, SGLANG, SGLANG_VERSION)}
WORDS = st.sampled_from(
    ["(", ")", "[", "{", ":", ",", "*", "**", "None", "1", "'x'", "for x in y:\n", "lambda: 1", "\n", "    ", "self", "del ", "super()"]
) | st.text(max_size=5)  # fmt: skip


@pytest.mark.parametrize("name", list(ENGINES))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_spoiled_source_is_never_an_error(name: str, data: st.DataObject) -> None:
    engine, files, version = ENGINES[name]
    path = data.draw(st.sampled_from(sorted(files)))
    text = files[path]
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 20))
    told = engine.installed(version, {**files, path: text[:at] + data.draw(WORDS) + text[at + cut :]})
    assert told is not None
    assert (told.table is None) == bool(told.problem)


@pytest.mark.parametrize("name", list(ENGINES))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_expressions_in_each_others_places_are_never_an_error(name: str, data: st.DataObject) -> None:
    engine, files, version = ENGINES[name]
    path = data.draw(st.sampled_from(sorted(files)))
    tree = ast.parse(files[path])
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    pick = st.integers(0, len(nodes) - 1) if nodes else st.nothing()
    one, other = nodes[data.draw(pick)], nodes[data.draw(pick)]

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return other if node is one else super().visit(node)

    try:
        text = ast.unparse(ast.fix_missing_locations(Swap().visit(tree)))
    except (AttributeError, RecursionError, TypeError, ValueError):
        return
    told = engine.installed(version, {**files, path: text})
    assert told is not None
    assert (told.table is None) == bool(told.problem)
