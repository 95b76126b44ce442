"""What `explain` says of a fact: the registry's words, then each engine's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.facts import registry
from lockllm.facts.fact import Fact, Kind, Policy, Stage
from lockllm.judge.explain import KINDS, explain
from tests.conftest import ROOT

KEYS = (
    "serve.dtype", "checkpoint.revision", "checkpoint.commit", "kernels.attention", "host.driver", "host.gpu_product", "engine.image",
    "packages.torch", "env.VLLM_USE_V1", "env.VLLM_ATTENTION_BACKEND", "env.VLLM_API_KEY", "env.NCCL_ALGO", "env.NOBODY_READS_IT",
    "prompt_probes.version", "checkpoint.max_position_embeddings",
)  # fmt: skip


WORDS = {
    Policy.EXACT: "any difference refuses",
    Policy.COMPATIBLE: "a difference refuses unless it is tolerable",
    Policy.REPORT: "a difference is shown and never refuses",
    Policy.IGNORE: "differences are not judged",
}


class Speaker:
    """An engine that has a word on `serve.dtype` alone."""

    def __init__(self, **words: str) -> None:
        self.words = words

    def where(self, fact: Fact[Any]) -> Mapping[str, str]:
        return self.words if fact.key == "serve.dtype" else {}


def test_a_fact_is_explained_in_the_registrys_words(golden: Callable[[Path, str], None]) -> None:
    text = []
    for key in KEYS:
        told = explain(registry.fact(key), {})
        text += [f"{told.key}: {told.about}", *(f"  {label}: {line}" for label, line in told.lines), ""]
    golden(ROOT / "tests" / "judge" / "data" / "explained.txt", "\n".join(text))


def test_each_engine_has_its_words_in_one_order() -> None:
    engines: Any = {
        "a": Speaker(unknown="u", seen_at="s", default="d", set_by="b"),
        "b": Speaker(default="e"),
        "c": Speaker(),
    }
    told = explain(registry.fact("serve.dtype"), engines)
    assert told.engines == (
        ("a", (("set by", "b"), ("default", "d"), ("seen at", "s"), ("unknown", "u"))), ("b", (("default", "e"),)),
    )  # fmt: skip
    assert explain(registry.fact("serve.seed"), engines).engines == ()


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_and_policy_has_words(kind: Kind) -> None:
    for policy in Policy:
        row: Fact[Any] = Fact(("serve", "x"), registry.fact("serve.dtype").type, kind, "moves", "fix", policy=policy)
        lines = dict(explain(row, {}).lines)
        assert lines["kind"] == KINDS[kind]
        assert lines["policy"].startswith(f"{policy.value}: {WORDS[policy]}, because ")
        own = Fact(("serve", "x"), row.type, kind, "moves", "fix", policy=policy, why="it is so", due=Stage.LIVE)
        assert dict(explain(own, {}).lines)["policy"].endswith(", because it is so")
