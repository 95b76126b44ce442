"""Config files in YAML are read by PyYAML's own safe loader, as the engines read them, and within bounds."""

from __future__ import annotations

import contextlib
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lockllm.engines.kernel.pyyaml import YamlError, read
from lockllm.engines.sglang.engine import given as sglang
from lockllm.engines.sglang.engine import recognise as recognise_sglang
from lockllm.engines.tensorrt_llm.engine import given as trtllm
from lockllm.engines.tensorrt_llm.engine import recognise as recognise_trtllm
from lockllm.engines.vllm.engine import given as vllm
from lockllm.engines.vllm.engine import recognise as recognise_vllm

TEXTS = [
    "",
    "# nothing\n",
    "a: 1\nb: no\nc: off\nd: on\ne: ~\nf:\n",
    "octal: 010\nhex: 0x1F\nbinary: 0b101\nsixty: 1:30\nunder: 1_000\nplus: +7\n",
    "float: 1e3\nother: 1.0e+3\nnot: 1.e3\ninfinity: .inf\n",
    "quoted: '010'\ndouble: \"a\\tb\\u0041\"\ntext: |\n  one\n   two\nfolded: >-\n  one\n  two\n\n  three\n",
    "list: [a, 'b', 3]\nmap: {x: 1, y: [2]}\nblock:\n- 1\n- a: 2\n  b: 3\n",
    "base: &base {x: 1, y: 2}\nover:\n  <<: *base\n  y: 3\nagain: *base\n",
    "merged:\n  <<: [{a: 1}, {a: 2, b: 3}]\n",
    "--- \na: 1\n...\n",
    "%YAML 1.1\n---\na: 1\n",
    "{a: 1, 'b': [x,\n y]}",
    "? long\n: value\n",
    "url: http://h:80/x#y\ncomment: a # b\nhash: a#b\n",
    "tagged: !!str 12\nnumber: !!int '7'\n",
    "a: -1\nb: -x\n",
    "plain: goes\n  on here\nnext: 1\n",
    "empty: ''\nspaces:   x   \n",
    "y: 1\nn: 2\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_read_is_what_pyyaml_reads(text: str) -> None:
    assert read(text).value == yaml.safe_load(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(st.characters(codec="ascii"), max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc-_", max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from([True, False, None]),
)
def test_what_pyyaml_writes_is_read_back(value: object, flow: bool | None) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow)
    assert read(text).value == yaml.safe_load(text)


def test_a_date_is_its_text_and_a_key_is_a_text() -> None:
    found = read("revision: 2024-01-02\nat: 2024-01-02 03:04:05\n2: a\ntrue: b\nnull: c\n").value
    assert found == {"revision": "2024-01-02", "at": "2024-01-02 03:04:05", "2": "a", "true": "b", "null": "c"}
    assert json.dumps(found)


def test_of_a_key_that_stands_twice_the_last_counts_and_it_is_said() -> None:
    found = read("seed: 1\nother: 2\nseed: 3\nnested: {a: 1, a: 2}\n")
    assert found.value == yaml.safe_load("seed: 3\nother: 2\nnested: {a: 2}\n")
    assert found.notes == (
        "line 3: seed stands there again, and the last one counts",
        "line 4: a stands there again, and the last one counts",
    )
    assert read("base: &b {x: 1}\nover: {<<: *b, x: 2}\n").notes == ()


@pytest.mark.parametrize(
    "text, why",
    [
        ("a: 1\n---\nb: 2\n", "it holds several documents"),
        ("a: [1, 2\n", "line 2: expected ',' or ']', but got '<stream end>'"),
        ("a: b: c\n", "line 1: mapping values are not allowed here"),
        ("\ta: 1\n", "line 1: found character '\\t' that cannot start any token"),
        ("a: *x\n", "line 1: found undefined alias 'x'"),
        ("a: !!python/object:os.system x\n", "could not determine a constructor for the tag"),
        ("a: !!binary aGk=\n", "it holds a !!binary, which no option takes"),
        ("a: !!set {x}\n", "it holds a !!set, which no option takes"),
        ("a: \x01\n", "it holds U+0001, which is no character of YAML"),
        ("[" * 50 + "]" * 50, "it is nested too deeply"),
        ("[" * 100_000, "it is nested too deeply"),
        ("x" * (1 << 21), "it is too long"),
        ("a: &a [*a]\n", "it is nested too deeply"),
        ("a: &a [1]\nb: [" + "*a, " * 200 + "]\n", "it holds more than 100 aliases"),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)),
            "too many values",
        ),
        ("{a: 1}: b\n", "unhashable"),
    ],
    ids=lambda value: value[:24],
)
def test_what_pyyaml_refuses_or_has_no_end_is_refused_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(YamlError) as refused:
        read(text)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_merges_upon_merges_have_an_end() -> None:
    text = "a0: &a0 {x: 1, y: 2}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 30))
    found: object = None
    with contextlib.suppress(YamlError):  # a PyYAML that keeps every pair of a merge
        found = read(text).value["a29"]
    assert found in (None, {"x": 1, "y": 2})


@pytest.mark.parametrize(
    "module, recognise, words",
    [
        (vllm, recognise_vllm, ("vllm", "serve", "m", "--config", "c.yaml")),
        (sglang, recognise_sglang, ("python", "-m", "sglang.launch_server", "--model-path", "m", "--config", "c.yaml")),
        (trtllm, recognise_trtllm, ("trtllm-serve", "m", "--config", "c.yaml")),
    ],
)
def test_each_engine_that_reads_yaml_says_what_stands_twice(
    module: object, recognise: object, words: tuple[str, ...]
) -> None:
    form = recognise(words)  # type: ignore[operator]
    found = module(form, {}, {"c.yaml": "dtype: float16\nseed: 1\ndtype: bfloat16\n"}, None, False)  # type: ignore[operator]
    assert "c.yaml: line 3: dtype stands there again, and the last one counts" in found.warnings
    assert {r.fact.key: r.value for r in found.readings}["serve.dtype"] == "bfloat16"
