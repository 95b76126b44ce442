"""What is known of a release that was read: its lookups move for no other release's sake."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockllm import engines
from lockllm.engines import Context
from lockllm.engines.kernel import release_data
from lockllm.engines.kernel.argparse import Table
from lockllm.engines.kernel.omitted import constant
from lockllm.engines.kernel.release_data import NOTHING, ReleaseData
from lockllm.engines.sglang import options as sglang
from lockllm.engines.vllm import options as vllm
from lockllm.engines.vllm import refusals
from lockllm.facts.observation import Reading

HERE = Path(__file__).parent / "data"
DATA = {"vllm": vllm.DATA, "sglang": sglang.DATA}


def lookups(engine: str, release: str) -> dict[str, Any]:
    """What the tables answer for one release."""
    if engine == "vllm":
        table, lists = vllm.options(release), refusals.lists(release, release)
        few: Any = [sets(lists.values), sets(lists.keys), sets(lists.parsers)]
    else:
        table = sglang.of(release)
        few = [sets(sglang.choices(release)), sglang.standing(release)]
    defaults = {name: repr(constant(DATA[engine], name, release)) for name in DATA[engine].defaults}
    return {
        "options": spelled(table), "lists": few,
        "defaults": {name: each for name, each in defaults.items() if each != repr(NOTHING)},
    }  # fmt: skip


def spelled(table: Table) -> dict[str, Any]:
    return {
        each.name: [sorted(each.flags), sorted(each.off), each.take.value, each.kind.value, repr(each.bare)]
        for each in table.options
    }


def sets(lists: Any) -> dict[str, list[str]]:
    return {name: sorted(map(str, words)) for name, words in lists.items()}


@pytest.mark.parametrize("engine", DATA)
def test_the_lookups_of_every_release_stay_as_they_were(engine: str, golden: Callable[[Path, str], None]) -> None:
    lines = []
    for release in DATA[engine].releases:
        told = json.dumps(lookups(engine, release), sort_keys=True)
        lines.append(f"{release} {hashlib.sha256(told.encode()).hexdigest()[:24]}\n")
    golden(HERE / f"lookups-{engine}.txt", "".join(lines))


SMALL = ReleaseData(
    releases=("1.0", "1.1", "1.3"),
    options={"a": (("1.0", "text"), ("1.3",)), "b": (("1.1", "int -b"),)},
    values={"a": (("1.0", "x y z"), ("1.1", "+w -y")), "b": (("1.1", ("odd one", "+1")),)},
    defaults={"a": (("1.0", None), ("1.1", 2)), "b": (("1.1", 2), ("1.3", 3))},
)


@pytest.mark.parametrize(
    ("version", "neighbors"),
    [
        ("1.0", ["1.0"]), ("1.2", ["1.1", "1.3"]), ("1.3", ["1.3"]), ("0.9", ["1.0"]), ("2.0", ["1.3"]),
        ("1.1.post1", ["1.1", "1.3"]), ("1.1rc1", ["1.0", "1.1"]), ("1.1+cpu", ["1.1"]),
    ],
)  # fmt: skip
def test_a_version_is_like_the_releases_around_it(version: str, neighbors: list[str]) -> None:
    assert SMALL.neighbors(version) == tuple(neighbors)


def test_steps_tell_each_release_what_holds() -> None:
    assert [release_data.at(SMALL.options["a"], each) for each in SMALL.releases] == ["text", "text", NOTHING]
    assert [release_data.words(SMALL.values["a"], each) for each in ("0.9", "1.0", "1.3")] == [
        None, frozenset("xyz"), frozenset("xzw"),
    ]  # fmt: skip
    assert release_data.words(SMALL.values["b"], "1.1") == {"odd one", "+1"}
    assert (SMALL.last(SMALL.options["a"]), SMALL.last(SMALL.options["b"])) == ("1.1", "")


@pytest.mark.parametrize(
    ("version", "name", "default"),
    [
        ("1.0", "a", None), ("1.1", "a", 2), ("1.0.5", "a", NOTHING), ("1.2", "a", 2), ("1.2", "b", NOTHING),
        ("1.0.5", "b", NOTHING), ("0.9", "a", NOTHING), ("1.4", "b", NOTHING), ("1.3.post1", "b", 3), ("1.3", "c", NOTHING),
    ],
)  # fmt: skip
def test_a_default_between_two_releases_is_known_where_both_agree(version: str, name: str, default: Any) -> None:
    assert constant(SMALL, name, version) is default or constant(SMALL, name, version) == default


STATED = {
    "vllm": {
        "serve.tensor_parallel_size": "tensor_parallel_size", "serve.pipeline_parallel_size": "pipeline_parallel_size",
        "serve.data_parallel_size": "data_parallel_size", "serve.load_format": "load_format",
        "serve.trust_remote_code": "trust_remote_code", "serve.enforce_eager": "enforce_eager",
        "serve.gpu_memory_share": "gpu_memory_utilization", "serve.generation_config": "generation_config", "serve.seed": "seed",
    },
    "sglang": {
        "serve.tensor_parallel_size": "tp_size", "serve.pipeline_parallel_size": "pp_size",
        "serve.data_parallel_size": "dp_size", "serve.trust_remote_code": "trust_remote_code",
    },
}  # fmt: skip
"""Facts whose rule is a constant of the release."""


@pytest.mark.parametrize(
    ("engine", "release"), [(engine, release) for engine, data in DATA.items() for release in data.releases]
)
def test_a_rule_states_the_default_that_the_release_states(engine: str, release: str) -> None:
    module = engines.load(engine)
    told = {
        each.fact.key: each.value
        for each in module.effective(None, Context(version=release))
        if isinstance(each, Reading)
    }
    for key, name in STATED[engine].items():
        default = constant(DATA[engine], name, release)
        if key in told and default not in (NOTHING, None):
            assert told[key] == default, key
