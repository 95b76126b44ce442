"""What a host says of one fact: which readings decide, whether they agree, and why nothing is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.facts import registry
from lockllm.facts.fact import Fact, Path, Stage
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Observation, Reading, Unobserved

NOT_SEEN = "nothing on this host reveals it"
NOT_THERE = "looked for, not there"


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """The deciding value of a fact. `value` is ABSENT if it was looked for and is not there; `seen` is False if nothing reveals it."""

    seen: bool
    value: Any = ABSENT
    source: str = ""
    reason: str = ""


class Witnesses:
    """An observation, indexed to be asked fact by fact."""

    def __init__(self, observation: Observation) -> None:
        self.readings: Mapping[Path, tuple[Reading, ...]] = observation.by_path()
        self._complete = observation.complete
        self._unobserved = {each.path: each for each in observation.unobserved}

    def on(self, fact: Fact[Any], expected: Any) -> Word:
        """The deciding word: the best-ranked readings; where those disagree, the first that is not the expected value."""
        readings = self.readings.get(fact.path)
        if readings is None:
            if self.complete(fact.path) and fact.path not in self._unobserved:
                return Word(seen=True, source=NOT_THERE)
            return Word(seen=False)
        first = readings[0]
        best = [reading for reading in readings if reading.by == first.by]
        if all(registry.same(fact, first.value, other.value) for other in best[1:]):
            return Word(seen=True, value=first.value, source=first.source)
        odd = next((each for each in best if not registry.same(fact, expected, each.value)), first)
        return Word(
            seen=True, value=odd.value, source=odd.source, reason=f"{len(best)} witnesses of one rank disagree",
        )  # fmt: skip

    def complete(self, path: Path) -> bool:
        """Whether a family that holds the path was seen whole."""
        return any(path[:length] in self._complete for length in range(1, len(path)))

    def hidden(self) -> list[Path]:
        """The facts that an observation names as not seen, and has no reading of."""
        return [path for path in self._unobserved if path not in self.readings]

    def unobserved(self, path: Path) -> Unobserved | None:
        """Why a fact could not be seen: the reason given for it, or for a table that contains it."""
        return next(
            (
                self._unobserved[path[:length]]
                for length in range(len(path), 0, -1)
                if path[:length] in self._unobserved
            ),
            None,
        )

    def due(self, fact: Fact[Any], stage: Stage) -> bool:
        """Whether the stage should have shown the fact.

        An observation may put off only what a running server alone can show: files, packages and the host are there before.
        """
        why = self.unobserved(fact.path)
        later = why.due if why is not None and registry.waits(fact) else Stage.PREFLIGHT
        if stage is Stage.LIVE:
            return fact.live and later is not Stage.ALL
        if stage is Stage.PREFLIGHT:
            return fact.due is Stage.PREFLIGHT and later is Stage.PREFLIGHT
        return True

    def disagreements(self) -> Check | None:
        """One finding that names every fact on which a lower witness differs from the deciding one.

        Rules and defaults do not count as witnesses: they say what an engine would do, not what was seen.
        """
        told = []
        for path in registry.ordered(path for path, readings in self.readings.items() if len(readings) > 1):
            first, *lower = self.readings[path]
            other = next(
                (
                    each
                    for each in lower
                    if each.by < By.RULE and not registry.same(first.fact, first.value, each.value)
                ),
                None,
            )
            if other is not None:
                told.append(f"{first.fact.key}: {_say(first)}, but {_say(other)}")
        if not told:
            return None
        return Check(
            "check.witnesses_agree", CheckStatus.FAIL, "; ".join(told), "",
            "restart the server, so that what runs is what is installed and given",
        )  # fmt: skip


def _say(reading: Reading) -> str:
    value = registry.dump(reading.fact, reading.value)
    return f"{'absent' if value is None else value} ({reading.source})"
