"""A person's spec is edited in place: the keys that were asked for change, and nothing else does."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockllm.documents.spec_edit import edit
from lockllm.errors import SpecError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SPEC = """\
# What we serve, and why.

[checkpoint]
repo = "org/model"     # ours

# two GPUs a node
[serve]
seed = 1   # keep
args.sleep = true

# the big nodes
[host]
gpu = "NVIDIA H100 80GB HBM3"

[policy]
"packages.*" = "exact"
"""


def test_a_value_changes_where_it_is_and_keeps_its_comment() -> None:
    assert edit(SPEC, {("serve", "seed"): 7}) == SPEC.replace("seed = 1 ", "seed = 7 ")


def test_a_new_key_follows_the_last_one_and_no_comment_changes_its_table() -> None:
    edited = edit(SPEC, {("serve", "dtype"): "bfloat16", ("serve", "args", "x.y"): [1, 2]})
    assert 'args.sleep = true\nargs."x.y" = [1, 2]\ndtype = "bfloat16"\n\n# the big nodes\n[host]\n' in edited


def test_a_new_table_stands_at_the_end_under_a_header() -> None:
    edited = edit(SPEC, {("sampling", "top_p"): 0.5, ("variant", "big", "serve", "seed"): 3})
    assert edited == SPEC + "\n[sampling]\ntop_p = 0.5\n\n[variant.big.serve]\nseed = 3\n"


def test_a_key_is_removed_alone() -> None:
    assert edit(SPEC, {("serve", "seed"): None, ("serve", "none"): None, ("none", "x"): None}) == SPEC.replace(
        "seed = 1   # keep\n", ""
    )


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("", "[serve]\nseed = 7\n"),
        ('engine.name = "vllm"', 'engine.name = "vllm"\n\n[serve]\nseed = 7\n'),
        ("serve = {seed = 1} # c\n", "serve = {seed = 7} # c\n"),
        ("[serve]\r\nseed = 1\r\n", "[serve]\r\nseed = 7\r\n"),
        ("[serve]\na = 1\n[host]\n[serve.args]\nb = 1\n", "[serve]\na = 1\nseed = 7\n[host]\n[serve.args]\nb = 1\n"),
    ],
)
def test_every_way_to_write_a_table_is_edited_in_place(text: str, edited: str) -> None:
    assert edit(text, {("serve", "seed"): 7}) == edited


def test_the_table_of_a_pyproject_is_edited_in_its_place() -> None:
    text = '[project]\nname = "x"\n\n[tool.lockllm.engine]\nname = "vllm"\n\n[tool.ruff]\nline-length = 9\n'
    edited = edit(text, {("engine", "version"): "1", ("serve", "seed"): 7}, table=("tool", "lockllm"))
    assert tomllib.loads(edited)["tool"] == {
        "lockllm": {"engine": {"name": "vllm", "version": "1"}, "serve": {"seed": 7}}, "ruff": {"line-length": 9},
    }  # fmt: skip
    assert "\n[project]" not in edited[1:]


def test_nothing_foreign_stands_unescaped_in_a_spec() -> None:
    edited = edit(SPEC, {("serve", "dtype"): "a\n[policy]\n\u202eb"})
    assert edited.isascii()
    assert edited.count("[policy]\n") == 1


def test_what_cannot_be_edited_in_place_is_told_with_the_lines_to_write() -> None:
    with pytest.raises(SpecError) as caught:
        edit("serve = 1\n", {("serve", "seed"): 7, ("host", "gpu"): None})
    assert caught.value.fix == "edit it by hand: write serve.seed = 7; remove host.gpu"


NAMES = st.sampled_from(["seed", "dtype", "a-b", "x.y", "é"])
PATHS = st.one_of(
    st.tuples(st.sampled_from(["serve", "host", "sampling"]), NAMES),
    st.tuples(st.just("serve"), st.sampled_from(["args", "env"]), NAMES),
    st.tuples(st.just("variant"), st.sampled_from(["a", "b"]), st.just("serve"), NAMES),
)
VALUES = st.one_of(
    st.integers(-9, 9), st.booleans(), st.text(max_size=6), st.lists(st.integers(0, 9), max_size=3), st.none()
)
LINES = st.sampled_from(
    ["", "# note", "  # indented", "seed = 1 # one", 'dtype = "x"', "args.seed = 2", "a-b = [1,\n 2]"]
)
TABLES = st.sampled_from(["serve", "host", "sampling", "serve.args", "variant.a.serve", "variant.b"])


@st.composite
def specs(draw: st.DrawFn) -> str:
    """A spec as people write them: tables in any order, comments anywhere."""
    parts = draw(st.lists(LINES.filter(lambda line: "=" not in line), max_size=2))
    for table in draw(st.lists(TABLES, max_size=4, unique=True)):
        parts += [f"[{table}]", *draw(st.lists(LINES, max_size=4, unique=True))]
    text = "\n".join(parts) + "\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return "# note\n"
    return text


@given(specs(), st.dictionaries(PATHS, VALUES, max_size=4))
def test_the_edited_text_says_what_was_asked_and_keeps_every_comment(text: str, changes: dict[Any, Any]) -> None:
    wanted = tomllib.loads(text)
    for path, value in changes.items():
        here: Any = wanted
        for part in path[:-1]:
            here = here.setdefault(part, {})
        if value is None:
            here.pop(path[-1], None)
        else:
            here[path[-1]] = value
    try:
        edited = edit(text, changes)
    except SpecError:
        return  # told, and nothing is written

    def filled(data: Any) -> Any:
        return {k: v for k, each in data.items() if (v := filled(each)) != {}} if isinstance(data, dict) else data

    assert filled(tomllib.loads(edited)) == filled(wanted)
    gone = [path for path, value in changes.items() if value is None]
    if not gone:
        notes = re.findall(r"#.*", text)
        assert re.findall(r"#.*", edited) == notes
