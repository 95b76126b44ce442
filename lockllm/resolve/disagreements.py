"""Where a host contradicts what its spec resolves to. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.facts import registry
from lockllm.facts.fact import Fact, Stage
from lockllm.facts.observation import ABSENT, Observation, values
from lockllm.judge.policy import inside
from lockllm.judge.report import Status
from lockllm.judge.verify import verify


class Disagreement(msgspec.Struct, frozen=True):
    """A fact on which the observation contradicts what the spec resolves to. Both values as documents hold them."""

    fact: Fact[Any]
    resolved: Any  # None: nothing
    observed: Any
    source: str
    because: str | None = None  # key of the disagreement that this one follows from


def disagreements(spec: Spec, lock: Lock, observation: Observation | None) -> tuple[Disagreement, ...]:
    """What the lock would refuse on the very host that it was made for: by value, policy, waiver, and range of the spec."""
    if observation is None:
        return ()
    report = verify(lock, observation, stage=Stage.ALL)
    told = [
        Disagreement(each.fact, each.expected, each.found, each.source, each.because)
        for each in report.results
        if each.status is Status.MISMATCH and each.blocking
    ]
    seen = {path: value for path, value in values(observation.readings).items() if value is not ABSENT}
    for path, required in spec.requires.items():
        value = seen.get(path)
        if isinstance(value, str) and not inside(required, value) and all(each.fact.path != path for each in told):
            source = next(each.source for each in observation.readings if each.fact.path == path)
            told.append(Disagreement(registry.find(path), required, value, source))
    return tuple(told)
