"""The JSON Schemas: checked in as they are made, and true of what is written and read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from lockllm.documents import toml
from lockllm.errors import LockError
from lockllm.facts import registry
from lockllm.output import json as as_json
from lockllm.output import render_diff, render_report, schema
from tests.output.samples import CHECKS, DIFFS, DISAGREE, INSPECTED, REPORTS
from tests.output.test_injection import planted, planted_diff, planted_observation

ROOT = Path(__file__).parent.parent.parent
SPEC = """
[checkpoint]
repo = "Qwen/Qwen2.5-7B-Instruct"
revision = "main"
include = ["*.safetensors"]
[engine]
name = "vllm"
version = ">=0.10,<0.11"
[serve]
tensor_parallel_size = "auto"
dtype = "auto"
enable_prefix_caching = false
seed = 0
[serve.args]
hf_overrides = { rope = 1 }
[serve.speculative]
method = "ngram"
[host]
gpu = ["NVIDIA H100 80GB HBM3"]
driver = ">=550.54.14"
[cuda]
runtime = "12.8"
[sampling]
temperature = 0
[policy]
"packages.*" = "exact"
host.driver = "report"
[[waive]]
fact = "host.gpu_product"
found = "NVIDIA H100 PCIe"
reason = "two spare nodes"
until = "2027-03-31"
[variant.small.host]
gpu = "NVIDIA L4"
"""
WRONG_SPECS = [
    ('[checkpoint]\nrepo = "a/b"\n', "engine"),
    ('[checkpoint]\ncommit = "x"\n[engine]\nname = "vllm"\n', "commit"),
    ('[checkpoint]\n[engine]\nname = "torch"\n', "torch"),
    ('[checkpoint]\n[engine]\nname = "vllm"\n[serve]\nseed = "zero"\n', "zero"),
    ('[checkpoint]\n[engine]\nname = "vllm"\n[serve]\nsed = 1\n', "sed"),
    ('[checkpoint]\n[engine]\nname = "vllm"\n[chekpoint]\n', "chekpoint"),
    ('[checkpoint]\n[engine]\nname = "vllm"\n[policy]\n"host.*" = "maybe"\n', "maybe"),
    ('[checkpoint]\n[engine]\nname = "vllm"\n[[waive]]\nfact = "host.gpu"\n', "found"),
]
LOCK = """lock_version = 1
[unpinned]
"kernels.attention" = "only the start log shows it"
[checkpoint]
repo = "Qwen/Qwen2.5-7B-Instruct"
commit = "b3a67e0f9b6f8e2ef411068c6c9e7e2ef9fc3a67"
[serve]
max_num_seqs = 1024
not_known_yet = { a = 1 }
[newer_table]
x = 1
[absent]
packages = ["flash-attn"]
[requires]
"host.driver" = ">=550.54.14"
[policy]
"host.driver" = "compatible"
[checkpoint.files]
"config.json" = { size = 663, sha256 = "587c" }
[prompt_probes]
version = 1
tools.token_count = 107
"""


def data(text: str) -> dict[str, Any]:
    """A TOML text as JSON can hold it: dates are texts."""
    found: dict[str, Any] = json.loads(json.dumps(toml.load(text, "a text", LockError), default=str))
    return found


def errors(name: str, document: Any) -> list[str]:
    validator = Draft202012Validator(schema.of(name), format_checker=FormatChecker())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


@pytest.mark.parametrize("name", schema.NAMES)
def test_a_schema_is_checked_in_as_it_is_made(name: str, golden: Callable[[Path, str], None]) -> None:
    Draft202012Validator.check_schema(schema.of(name))
    golden(ROOT / "schemas" / f"{name}.json", schema.text(name))


def test_no_schema_is_checked_in_that_is_not_made() -> None:
    assert {path.stem for path in (ROOT / "schemas").glob("*.json")} == set(schema.NAMES)


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_valid(name: str) -> None:
    assert errors("report", json.loads(render_report(REPORTS[name], "json"))) == []


@pytest.mark.parametrize("name", DIFFS)
def test_every_diff_is_valid(name: str) -> None:
    assert errors("diff", json.loads(render_diff(DIFFS[name], "json"))) == []


def test_what_hostile_texts_are_planted_in_is_valid() -> None:
    bad = '\n# via x\n[policy]\x1b"\ud800\u202e'
    assert errors("report", json.loads(render_report(planted(bad), "json"))) == []
    assert errors("diff", json.loads(render_diff(planted_diff(bad), "json"))) == []
    assert errors("observation", json.loads(as_json.observation(planted_observation(bad)))) == []


def test_an_inspection_is_valid() -> None:
    assert errors("inspect", json.loads(as_json.inspection(INSPECTED, (*CHECKS, DISAGREE)))) == []


def test_a_spec_is_valid_and_its_mistakes_are_not() -> None:
    assert errors("spec", data(SPEC)) == []
    for text, word in WRONG_SPECS:
        assert any(word in error for error in errors("spec", data(text))), text


def test_a_lock_is_valid_with_facts_of_a_newer_release() -> None:
    assert errors("lock", data(LOCK)) == []
    assert errors("lock", data(LOCK.replace("lock_version = 1", "lock_version = 2"))) != []
    assert errors("lock", data(LOCK.replace("1024", '"many"'))) != []


def test_the_example_of_a_lock_is_valid() -> None:
    example = ROOT / "llm.lock.example"
    if not example.exists():
        pytest.skip("there is no example yet")
    assert errors("lock", data(example.read_text())) == []


def test_an_observation_is_read_as_strictly_as_its_schema_says() -> None:
    right = {"observation_version": 1, "facts": {"engine.version": [{"value": None, "by": "library"}]}}
    assert errors("observation", right) == []
    for wrong in (
        {"facts": {}},
        {"observation_version": 1},
        {"observation_version": 1, "facts": {"a": [{"source": "x"}]}},
        {"observation_version": 1, "facts": {"a": [{"value": 1, "by": "ear"}]}},
        {"observation_version": 1, "facts": {}, "fact": {}},
    ):
        assert errors("observation", wrong) != []


def test_every_fact_that_is_locked_stands_in_the_lock_s_schema() -> None:
    made = schema.of("lock")
    for row in registry.ROWS:
        table: Any = made
        for part in row.path if row.lockable else ():
            table = table["properties"][part]
        assert not row.lockable or table["description"]
