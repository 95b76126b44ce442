"""One spelling of a key, and globs over keys."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockllm.facts import keys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

segments = st.text(min_size=1, max_size=8, alphabet=st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("checkpoint", "files", "config.json"), 'checkpoint.files."config.json"'),
        (("packages", "flash-attn"), "packages.flash-attn"),
        (("env", "VLLM_USE_V1"), "env.VLLM_USE_V1"),
        (("serve", "args", 'a"b\\c'), r'serve.args."a\"b\\c"'),
        (("a", "ü\n"), '"a"."ü"'.replace('"a"', "a").replace("ü", "\\u00FC\\u000A")),
        (("a", ""), 'a.""'),
    ],
)
def test_a_key_has_one_spelling(path: keys.Path, key: str) -> None:
    assert keys.dotted(path) == key
    assert keys.parse(key) == path


@given(st.lists(segments, min_size=1, max_size=4))
def test_a_spelled_key_is_read_back_by_us_and_by_toml(path: list[str]) -> None:
    key = keys.dotted(tuple(path))
    assert key.isascii()
    assert keys.parse(key) == tuple(path)
    data = tomllib.loads(f"{key} = 1")
    for part in path:
        data = data[part]
    assert data == 1


@pytest.mark.parametrize(
    ("text", "path"),
    [("a . b", ("a", "b")), ("a.'b.c'", ("a", "b.c")), ("é.b", ("é", "b")), ("*.b?", ("*", "b?")), (" a ", ("a",))],
)
def test_people_may_spell_more_freely(text: str, path: keys.Path) -> None:
    assert keys.parse(text) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', "a.'b", 'a"b', '"\\x"', '"\\uD83"'])
def test_what_spells_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        keys.parse(text)


@pytest.mark.parametrize(
    ("glob", "hits", "misses"),
    [
        ("*", ["a", "a.b.c"], []),
        ("host", ["host", "host.gpu", 'host.a."b.c"'], ["hosts.gpu", "a.host"]),
        ("host.*", ["host.gpu", "host.a.b"], ["host", "hosts.a"]),
        ("*.dtype", ["serve.dtype", "checkpoint.dtype", "serve.dtype.x"], ["serve.kv_cache_dtype", "dtype", "a.b.dtype"]),
        ("serve.*_size", ["serve.tensor_parallel_size"], ["serve.dtype"]),
        ('checkpoint.files."*.json"', ['checkpoint.files."config.json"', 'checkpoint.files."a/b.json"'],
         ['checkpoint.files."a.jsonl"', "checkpoint.files"]),
        ("packages.nvidia-*", ["packages.nvidia-nccl-cu12"], ["packages.torch"]),
        ("serve.dtype", ["serve.dtype", "serve.dtype.x"], ["serve.dtypes", "serve"]),
        ("serve.d[tu]ype", ["serve.dtype"], ["serve.dxype"]),
        ("Serve.dtype", [], ["serve.dtype"]),
    ],
)  # fmt: skip
def test_a_glob_matches_segment_by_segment(glob: str, hits: list[str], misses: list[str]) -> None:
    matcher = keys.Glob(glob)
    assert [key for key in hits if not matcher.matches(keys.parse(key))] == []
    assert [key for key in misses if matcher.matches(keys.parse(key))] == []


def test_the_more_precise_glob_weighs_more() -> None:
    texts = ["*", "*.driver", "host.*", "host.d*", "host.driver"]
    assert sorted(texts, key=lambda text: keys.Glob(text).weight) == [
        "*",
        "*.driver",
        "host.*",
        "host.d*",
        "host.driver",
    ]
    assert [keys.Glob(text).exact for text in texts] == [False, False, False, False, True]
