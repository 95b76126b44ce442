"""Noise and steps recorded from real servers: llama.cpp under changing load with twelve changes, vLLM on the CPU with seven.

recorded.json.gz: run -> condition and probe -> answer, reduced to what an `Answer` holds. `noise_*` are 100 runs of one llama.cpp;
`sn_CHANGE_*` the same server after a change, under the same conditions; `step_CHANGE` alone; `v_*` vLLM.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from lockllm.canary.answers import Answer
from lockllm.canary.statistics import ROUNDS, Judged, Run, Table, judge

GROUP = {"c": "chat", "r": "raw", "s": "sampled", "v": "count", "l": "long"}
ALONE = ("alone_nocache", "alone_warm")
OWN = (*ALONE, "conc4", "conc8", "conc16", "afterload", "load1", "load3")


@pytest.fixture(scope="module")
def recorded() -> dict[str, tuple[str, Run]]:
    raw = json.loads(gzip.decompress((Path(__file__).parent / "recorded.json.gz").read_bytes()))
    return {name: (run["kind"], msgspec.convert(run["answers"], dict[str, Answer])) for name, run in raw.items()}


def table(runs: Sequence[Run]) -> Table:
    """A baseline of these runs."""
    states: dict[str, list[Answer]] = {}
    indexes = []
    for run in runs:
        index = {}
        for probe, answer in run.items():
            held = states.setdefault(probe, [])
            if answer not in held:
                held.append(answer)
            index[probe] = held.index(answer)
        indexes.append(index)
    return Table(states, indexes, {probe: GROUP[probe[0]] for probe in states})


def baseline(recorded: dict[str, tuple[str, Run]], seed: int) -> list[str]:
    """Twenty runs under the conditions that a canary makes itself."""
    draw = random.Random(seed)
    kinds = {
        kind: [name for name, (each, _) in recorded.items() if each == kind and name.startswith("noise")]
        for kind in OWN
    }
    chosen = [name for kind in OWN for name in draw.sample(kinds[kind], 2)]
    rest = [name for kind in OWN for name in kinds[kind] if name not in chosen]
    return [*chosen, *draw.sample(rest, 4)]


def logits(made: Table, rounds: Sequence[Run], probes: Sequence[str]) -> Judged:
    judged = judge(made, "chat", rounds, probes)
    assert judged is not None
    return judged


CHANGES = ("all03pct", "date_1", "fa_off", "kv_q8", "layer1pct", "q8_0")
UNMOVED = ("old_build", "rp_11")


@pytest.mark.parametrize("seed", range(3))
def test_noise_under_any_load_is_no_step_and_every_change_of_the_logits_is_one(
    recorded: dict[str, tuple[str, Run]], seed: int
) -> None:
    names = baseline(recorded, seed)
    made = table([recorded[name][1] for name in names])
    probes = [probe for probe in recorded["noise_000"][1] if probe[0] in "cr"]
    draw = random.Random(seed)
    others = [name for name in recorded if name.startswith("noise") and name not in names]
    alone = [name for name in others if recorded[name][0] in ALONE]
    for _ in range(60):
        rounds = [recorded[name][1] for name in (draw.choice(alone), *draw.sample(others, ROUNDS - 1))]
        judged = logits(made, rounds, probes)
        assert not judged.moved, judged
    for change in CHANGES:
        runs = [run for name, (_, run) in recorded.items() if name.startswith(f"sn_{change}_")]
        for _ in range(5):
            judged = logits(made, draw.sample(runs, ROUNDS), probes)
            assert judged.moved, (change, judged)
    for change in UNMOVED:
        runs = [run for name, (_, run) in recorded.items() if name.startswith(f"sn_{change}_")]
        assert not logits(made, draw.sample(runs, ROUNDS), probes).moved, change


STEPS = {  # a change of llama.cpp, alone -> the groups that move
    "all3pct": "raw chat", "f16": "raw chat", "kv_bf16": "raw chat", "layer10pct": "raw chat", "lora_s": "raw chat",
    "q4_0": "raw chat", "rope": "raw chat", "tmpl_newline": "chat", "tmpl_sys": "chat", "date_2": "chat",
}  # fmt: skip


@pytest.mark.parametrize("change", STEPS)
def test_the_groups_that_move_tell_the_template_from_the_weights(
    recorded: dict[str, tuple[str, Run]], change: str
) -> None:
    made = table([recorded[name][1] for name in baseline(recorded, 1)])
    run = recorded[f"step_{change}"][1]
    moved = []
    for group, letter in (("raw", "r"), ("chat", "c")):
        probes = [probe for probe in recorded["noise_000"][1] if probe[0] == letter]
        judged = judge(made, group, [run] * ROUNDS, probes)
        assert judged is not None
        moved += [group] * judged.moved
    assert " ".join(moved) == STEPS[change]


def test_an_exact_engine_has_a_threshold_of_nothing_and_every_change_is_seen(
    recorded: dict[str, tuple[str, Run]],
) -> None:
    same = [recorded[f"v_{name}"][1] for name in ("base", "base2", "base_load", "noprefix")]
    made = table(same * 5)
    for name, expected in {
        "fp16": "count:0 raw:1 chat:1 sampled:1", "int4": "count:0 raw:1 chat:1 sampled:1",
        "layer1pct": "count:0 raw:1 chat:1 sampled:1", "gen07": "count:0 raw:0 chat:0 sampled:1",
        "tmpl": "count:0 raw:0 chat:1 sampled:1", "len1k": "count:0 raw:0 chat:0 sampled:0",
    }.items():  # fmt: skip
        run = recorded[f"v_{name}"][1]
        told = []
        for group, letter in (("count", "v"), ("raw", "r"), ("chat", "c"), ("sampled", "s")):
            judged = judge(made, group, [run] * ROUNDS, [probe for probe in run if probe[0] == letter])
            assert judged is not None
            told.append(f"{group}:{int(judged.moved)}")
        assert " ".join(told) == expected, name
        long = judge(made, "long", [run] * ROUNDS, ["long"])
        assert long is not None
        assert long.moved == (name != "gen07"), name
