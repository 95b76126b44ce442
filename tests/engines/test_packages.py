"""What renders, tokenizes, draws or computes is among the packages of every engine that is a Python program."""

from __future__ import annotations

import pytest

from lockllm import engines
from lockllm.documents.lock import Lock
from lockllm.engines.kernel import packages
from lockllm.facts.fact import Stage
from lockllm.facts.observation import By, Observation
from lockllm.facts.registry import seen
from lockllm.judge.verify import verify

PYTHON = ("vllm", "sglang", "tgi", "tensorrt-llm", "lmdeploy", "transformers")
ASKED = (
    "jinja2", "tokenizers", "fastokens", "tiktoken", "sentencepiece", "mistral-common", "openai-harmony", "xgrammar",
    "outlines", "outlines-core", "llguidance", "lm-format-enforcer", "cachetools", "torchvision", "numpy", "torch",
)  # fmt: skip


@pytest.mark.parametrize("engine", PYTHON)
def test_every_python_engine_names_them_once(engine: str) -> None:
    named = engines.load(engine).packages
    assert not set(ASKED) - set(named)
    assert not set(packages.BELOW) - set(named)
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("name", packages.BELOW)
@pytest.mark.parametrize("locked, found", [("1.0", "1.1"), ("1.0", None), (None, "1.0"), ("1.0", "1.0+cu130")])
def test_one_that_moves_comes_or_goes_is_a_mismatch(name: str, locked: str | None, found: str | None) -> None:
    path = ("packages", name)
    held = {("engine", "name"): "vllm"} | ({path: locked} if locked else {})
    lock = Lock(values=held, absent=frozenset() if locked else frozenset({path}), edition=2)
    readings = (seen("engine.name", "vllm", "x", By.PACKAGE), seen(path, found, "x", By.PACKAGE))
    report = verify(lock, Observation(readings=readings, stage=Stage.PREFLIGHT))
    assert report.exit_code == 1


@pytest.mark.parametrize("edition", [1, 2])
def test_one_that_the_lock_does_not_know_turns_no_lock_red(edition: int) -> None:
    lock = Lock(values={("engine", "name"): "vllm", ("packages", "torch"): "2.9.0"}, edition=edition)
    told = (("engine.name", "vllm"), ("packages.torch", "2.9.0"), ("packages.jinja2", "3.1.6"))
    readings = tuple(seen(key, value, "x", By.PACKAGE) for key, value in told)
    report = verify(lock, Observation(readings=readings, stage=Stage.PREFLIGHT, complete=frozenset({("packages",)})))
    assert report.exit_code == 0
