"""Reading the long table at once is reading it as the parser does, errors included."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockllm.documents import long_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHA = "a" * 64
LINES = (
    f'"config.json" = {{ size = 1, sha256 = "{SHA}" }}',
    f'"a/b.safetensors" = {{ size = 0, sha256 = "{SHA}" }}',
    f'"é.json" = {{ size = 12, sha256 = "{SHA}" }}  # via Hub',
    f'"tab\\t" = {{ size = 3, sha256 = "{SHA}" }}',
    f'plain = {{ size = 3, sha256 = "{SHA}" }}',
    f'"config.json" = {{ size = 01, sha256 = "{SHA}" }}',
    f'"big" = {{ size = 99999999999999999999, sha256 = "{SHA}" }}',
    '"config.json" = { size = 1 }',
    "config.json = 1",
    "",
    "# a comment",
    "[checkpoint.files]",
    '[checkpoint.files."config.json"]',
    "[checkpoint]",
    "[[checkpoint.files]]",
    "[[checkpoint]]",
    "[checkpoint.blake3]",
    f'"config.json" = "{SHA}"',
    f'"a/b.safetensors" = "{SHA}"',
    "[serve]",
    'checkpoint.files."config.json" = 1',
    'x = """',
    "y = '''",
    "z = [",
    "]",
    "lock_version = 1",
)


def outcome(read: Any, text: str) -> object:
    try:
        data = read(text)
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return data, list(data.get("checkpoint", {}).get("files", {})) if isinstance(data.get("checkpoint"), dict) else None


@settings(max_examples=600)
@given(st.lists(st.sampled_from(LINES), max_size=12), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_any_text_reads_as_the_parser_reads_it(lines: list[str], begins: bool, end: str) -> None:
    text = end.join([*(["lock_version = 1", "[checkpoint.files]", *LINES[:2]] if begins else []), *lines, ""])
    assert outcome(lambda each: long_table.loads(each, tomllib.loads), text) == outcome(tomllib.loads, text)


@pytest.mark.parametrize("twice", [LINES[0], '[checkpoint.files."config.json"]\nsize = 1'])
def test_a_file_that_stands_twice_is_the_parsers_error(twice: str) -> None:
    text = f"lock_version = 1\n\n[checkpoint.files]\n{LINES[0]}\n{LINES[1]}\n{twice}\n"
    with pytest.raises(tomllib.TOMLDecodeError):
        long_table.loads(text, tomllib.loads)
