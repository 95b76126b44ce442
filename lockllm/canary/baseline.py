"""`llm.canary`: the recorded runs of one server, as states and the runs that showed them. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from lockllm.canary import probes
from lockllm.canary.answers import Answer
from lockllm.canary.statistics import LEAST_RUNS, Run, Table
from lockllm.errors import LockllmError

FORMAT = 1
LONGEST = 4 << 20  # bytes; a baseline of 20 runs has about 100 kB
_MOST_RUNS = 1_000
_MAKE = "make one with `lockllm canary record --server URL`"


class CanaryError(LockllmError):
    """A file given as a baseline is none, or belongs to other probes."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the server gave while the baseline was made: a check asks in the same way."""

    model: str = ""
    completions: bool = False
    chat_logprobs: int = 0  # top tokens at the first position; 0: none
    raw_logprobs: int = 0
    prompt_logprobs: bool = False
    seeds: bool = False
    cold: bool = False  # whether a request can leave the prefix cache out
    context: int = 0  # tokens, 0: not told
    sentences: int = 0  # length of the long prompt
    fingerprints: tuple[str, ...] = ()  # system_fingerprint of the answers


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One run: under which condition, and for each probe the index of its state."""

    condition: str
    answers: Mapping[str, int]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A baseline that this one took the place of."""

    made_at: str
    lock: str = ""
    why: str = ""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `lock`: fingerprint of the lock that the server was started by, empty where there was none."""

    canary_version: int = FORMAT
    probes_version: int = probes.VERSION
    made_at: str = ""
    lock: str = ""
    endpoint: Endpoint
    states: Mapping[str, Sequence[Answer]]
    runs: Sequence[Recorded]
    history: Sequence[Past] = ()

    @property
    def groups(self) -> dict[str, list[str]]:
        """Group -> its probes, for the probes that were answered."""
        found: dict[str, list[str]] = {group: [] for group in probes.GROUPS}
        for probe in self.states:
            found[group_of(probe)].append(probe)
        return {group: each for group, each in found.items() if each}

    def table(self) -> Table:
        """Its states and runs, ready to be compared with."""
        return Table(self.states, [run.answers for run in self.runs], {probe: group_of(probe) for probe in self.states})

    def saturated(self, group: str) -> bool:
        """Whether every probe of a group showed one state in all runs: exact comparison is enough then."""
        return all(len(self.states[probe]) == 1 for probe in self.groups.get(group, ()))


def group_of(probe: str) -> str:
    """The group in a probe's name: `chat` of `chat.3`."""
    return probe.partition(".")[0]


def build(
    runs: Sequence[tuple[str, Run]], endpoint: Endpoint, *, made_at: str, lock: str = "", history: Sequence[Past] = ()
) -> Baseline:
    """A baseline of runs, each with its condition."""
    states: dict[str, list[Answer]] = {}
    recorded = []
    for condition, run in runs:
        indexes = {}
        for probe, answer in run.items():
            known = states.setdefault(probe, [])
            if answer not in known:
                known.append(answer)
            indexes[probe] = known.index(answer)
        recorded.append(Recorded(condition=condition, answers=indexes))
    return Baseline(made_at=made_at, lock=lock, endpoint=endpoint, states=states, runs=recorded, history=history)


def write(baseline: Baseline) -> str:
    """The document as text: a line for each state, so that a diff of two baselines can be read."""
    encoded = msgspec.to_builtins(baseline)
    states = ",\n".join(
        f"  {_json(probe)}: [\n" + ",\n".join(f"   {_json(state)}" for state in each) + "\n  ]"
        for probe, each in encoded.pop("states").items()
    )
    runs = ",\n".join(f"  {_json(run)}" for run in encoded.pop("runs"))
    head = "".join(f" {_json(key)}: {_json(value)},\n" for key, value in encoded.items())
    return f'{{\n{head} "states": {{\n{states}\n }},\n "runs": [\n{runs}\n ]\n}}\n'


def read(text: bytes, name: str) -> Baseline:
    """The baseline in a text. Raises CanaryError."""
    if len(text) > LONGEST:
        raise CanaryError(f"the file is longer than {LONGEST >> 20} MiB", where=name, fix=_MAKE)
    try:
        version = msgspec.json.decode(text, type=_Version)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CanaryError(f"this is no baseline: {error}", where=name, fix=_MAKE) from error
    if version.canary_version != FORMAT:
        fix = "upgrade lockllm here, or record the baseline again"
        raise CanaryError(
            f"canary_version is {version.canary_version}, this release reads {FORMAT}", where=name, fix=fix
        )
    if version.probes_version != probes.VERSION:
        what = f"the baseline was made with probes {version.probes_version}, this release asks probes {probes.VERSION}"
        raise CanaryError(what, where=name, fix="record it again: lockllm canary record --update")
    try:
        baseline = msgspec.json.decode(text, type=Baseline)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CanaryError(f"this is no baseline: {error}", where=name, fix=_MAKE) from error
    _check(baseline, name)
    return baseline


class _Version(msgspec.Struct):
    canary_version: int
    probes_version: int


def _check(baseline: Baseline, name: str) -> None:
    if not LEAST_RUNS <= len(baseline.runs) <= _MOST_RUNS:
        what = f"the baseline holds {len(baseline.runs)} runs: {LEAST_RUNS} to {_MOST_RUNS:,} are needed"
        raise CanaryError(what, where=name, fix=_MAKE)
    for probe in baseline.states:
        if group_of(probe) not in probes.GROUPS:
            raise CanaryError(f"{probe!r} is no probe", where=name, fix=_MAKE)
    for run in baseline.runs:
        if run.answers.keys() != baseline.states.keys():
            raise CanaryError("a run lacks answers that others have", where=name, fix=_MAKE)
        for probe, at in run.answers.items():
            if not 0 <= at < len(baseline.states.get(probe, ())):
                raise CanaryError(f"a run names state {at} of {probe!r}, which is not there", where=name, fix=_MAKE)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
