"""Noise or step, from distances alone. Pure: no request is made here.

A check asks the same probes in several rounds. For each probe it takes the *smallest* distance between any of its rounds and any
run of the baseline, and averages these over a group of probes. Noise visits the same few states again and again, so one of the
rounds lands near one of them; a step moves every round of every probe. Measured on 100 recorded runs of llama.cpp under changing
load and of real changes (tests/canary): nearest-per-probe separates a change of one layer's weights by 1 % from noise, which the
distance of whole runs does not.

The threshold comes from the baseline itself: as many of its runs as a check has rounds are held against the rest, for every such
choice or `MOST_CHOICES` of them. Were nothing changed, a check would be one more such choice among equals, so ranks alone bound its
false alarms to one in `choices + 1` for a group. `MARGIN` on top is the floor of the effect (significance without size is no step),
and it brings the rate down: tests/canary simulates 10,000 checks and allows ten.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from math import comb

import msgspec

from lockllm.canary.answers import Answer, distance

ROUNDS = 4
"""Rounds of a check before it may say step."""
MARGIN = 1.25
"""What a distance must exceed the threshold by: load that a baseline has not seen reached 1.2 of it."""
MOST_CHOICES = 400
LEAST_RUNS = 20
"""A baseline of ten runs called 22 of 190 runs of noise a step, one of twenty none of 180 (llama.cpp, distance of whole runs)."""
_ROUNDING = 1e-3  # nats: an exact engine has a threshold of 0, and log probabilities are kept to 1e-4

Run = Mapping[str, Answer]
"""Probe -> answer."""


class Table:
    """The runs of a baseline as indexes of states, with the distances between all states of a probe worked out once."""

    def __init__(
        self, states: Mapping[str, Sequence[Answer]], runs: Sequence[Mapping[str, int]], groups: Mapping[str, str]
    ) -> None:
        self._states, self._runs, self._groups = states, runs, groups
        self._between: dict[str, list[list[float]]] = {}

    def effect(self, rounds: Sequence[Run], probes: Iterable[str]) -> float | None:
        """The mean over probes of the distance from the nearest round to the nearest state of the baseline.

        None where no probe can be compared.
        """
        nearest = []
        for probe in probes:
            answers = [run[probe] for run in rounds if probe in run]
            if answers and (states := self._states.get(probe)):
                group = self._groups[probe]
                nearest.append(min(distance(one, state, group) for one in answers for state in states))
        return _mean(nearest)

    def threshold(self, probes: Sequence[str], rounds: int) -> float:
        """The largest effect that as many runs of the baseline show when they are held against the rest."""
        count = len(self._runs)
        rounds = min(rounds, max(1, count - 1))
        if comb(count, rounds) <= MOST_CHOICES:
            choices: Iterable[Sequence[int]] = itertools.combinations(range(count), rounds)
        else:
            draw = random.Random(count)  # the same choices for the same baseline, every time
            choices = (draw.sample(range(count), rounds) for _ in range(MOST_CHOICES))
        return max((self._left_out(frozenset(chosen), probes) for chosen in choices), default=0.0)

    def _left_out(self, chosen: frozenset[int], probes: Sequence[str]) -> float:
        nearest = []
        for probe in probes:
            ours = {run[probe] for at, run in enumerate(self._runs) if at in chosen and probe in run}
            rest = {run[probe] for at, run in enumerate(self._runs) if at not in chosen and probe in run}
            if ours and rest:
                between = self._distances(probe)
                nearest.append(0.0 if ours & rest else min(between[one][other] for one in ours for other in rest))
        return _mean(nearest) or 0.0

    def _distances(self, probe: str) -> list[list[float]]:
        if probe not in self._between:
            states, group = self._states[probe], self._groups[probe]
            self._between[probe] = [[distance(one, other, group) for other in states] for one in states]
        return self._between[probe]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One group of probes, judged. `least` is the smallest effect that this baseline can tell from its own noise."""

    group: str
    effect: float
    least: float
    probes: int
    rounds: int

    @property
    def moved(self) -> bool:
        """Whether this is more than the baseline's noise."""
        return self.effect > self.least


def judge(table: Table, group: str, rounds: Sequence[Run], probes: Sequence[str]) -> Judged | None:
    """One group of probes after these rounds; None where nothing can be compared."""
    effect = table.effect(rounds, probes)
    if effect is None:
        return None
    least = table.threshold(probes, len(rounds)) * MARGIN
    if group not in ("count", "sampled"):
        least = max(least, _ROUNDING)
    return Judged(group=group, effect=effect, least=least, probes=len(probes), rounds=len(rounds))


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
