"""A check: the cascade from cheap to certain, and what its pattern says about the kind of step. Pure.

The first round asks everything once. A group of probes within the noise of single runs is settled; only the others are asked again,
up to `ROUNDS` rounds, and only what all of them show is a step. So noise costs one round most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from lockllm.canary.baseline import Baseline
from lockllm.canary.statistics import ROUNDS, Judged, Run, judge
from lockllm.facts.fact import Path
from lockllm.facts.keys import Glob

Ask = Callable[[int, Collection[str]], Run]
"""Round (from 0) and groups -> the answers; asked under another condition each round."""

_COMPUTED = frozenset({"raw", "chat"})
_OTHER_MODEL = 1.0  # nats: 4 bit moved 0.7 on the smallest model measured, another model several


class Kind(msgspec.Struct, frozen=True):
    """What likely stepped, the facts of a lock to look at, and the command that does."""

    name: str
    why: str
    facts: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that compares these facts with the lock."""
        return "lockllm verify " + " ".join(f"--only '{glob}'" for glob in self.facts)


TEMPLATE = Kind(
    "template or injected text", "chats are rendered into other prompts, plain completions are as before",
    ("chat_template.*", "serve.chat_template*", "prompt_probes.*", "checkpoint.files.*"),
)  # fmt: skip
TOKENIZER = Kind(
    "tokenizer", "plain texts have another number of tokens", ("tokenizer.*", "checkpoint.files.*", "packages.*"),
)  # fmt: skip
WEIGHTS = Kind(
    "weights, adapter, or numerics",
    "log probabilities of plain completions moved: other weights, an adapter, dtype, quantization, KV cache, or kernels",
    ("checkpoint.*", "quantization.*", "adapters.*", "serve.dtype", "serve.kv_cache_dtype", "engine.*", "packages.*", "kernels.*"),
)  # fmt: skip
MODEL = Kind(
    "another model",
    "log probabilities have nothing in common with the baseline's",
    ("checkpoint.*", "tokenizer.*", "adapters.*"),
)
SAMPLING = Kind(
    "sampling defaults", "only texts that are sampled moved: what the model computes is as before", ("sampling.*", "engine.version"),
)  # fmt: skip
CONTEXT = Kind(
    "context length or RoPE", "only the long prompt moved, or it is refused now",
    ("serve.max_model_len", "serve.rope*", "checkpoint.rope*"),
)  # fmt: skip
REFUSED = Kind("refused requests", "requests that were answered are refused now", ("serve.*", "engine.*"))


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a check. `status` is noise, step, or unknown; `reason` says why it is unknown."""

    status: str
    groups: Sequence[Judged]
    kinds: Sequence[Kind] = ()
    requests: int = 0
    reason: str = ""
    fix: str = ""

    @property
    def exit_code(self) -> int:
        """0 noise, 1 step, 3 cannot tell."""
        return {"noise": 0, "step": 1}.get(self.status, 3)


def check(baseline: Baseline, ask: Ask) -> Verdict:
    """Ask in rounds until every group of probes is settled."""
    table, groups = baseline.table(), baseline.groups
    rounds: list[Run] = []
    settled: dict[str, Judged] = {}
    unseen: set[str] = set()
    pending = set(groups)
    while pending:
        # texts follow from what the model computes: they are asked again only where that is settled
        wanted = pending - {"sampled"} if pending & _COMPUTED and rounds else pending
        rounds.append(ask(len(rounds), frozenset(wanted)))
        for group in sorted(wanted):
            taken = [run for run in rounds if run.keys() >= set(groups[group])]  # half an answer proves nothing
            judged = judge(table, group, taken, groups[group])
            if judged is None:
                unseen.add(group)
            elif judged.effect <= table.threshold(groups[group], judged.rounds) or judged.rounds >= ROUNDS:
                settled[group] = judged
        pending -= settled.keys() | unseen
        computed_moved = any(settled[group].moved for group in _COMPUTED if group in settled)
        if computed_moved and not pending & _COMPUTED:
            break
        if len(rounds) >= 2 * ROUNDS:  # answers stopped coming: what is still open was not seen often enough
            unseen |= pending
            break
    requests = sum(len(run) for run in rounds)
    judged_groups = [settled[group] for group in groups if group in settled]
    moved = {each.group: each for each in judged_groups if each.moved}
    if moved:
        return Verdict(status="step", groups=judged_groups, kinds=kinds(baseline, moved, rounds), requests=requests)
    if unseen or not judged_groups:
        names = ", ".join(sorted(unseen)) or "every probe"
        return Verdict(
            status="unknown", groups=judged_groups, requests=requests, reason=f"no answer can be compared for: {names}",
            fix="see whether the server answers as it did for the baseline: lockllm canary record --update",
        )  # fmt: skip
    return Verdict(status="noise", groups=judged_groups, requests=requests)


def kinds(baseline: Baseline, moved: dict[str, Judged], rounds: Sequence[Run]) -> tuple[Kind, ...]:
    """What the pattern over the groups says; the likeliest first."""
    refused = _refused(baseline, rounds)
    raw, chat = moved.get("raw"), moved.get("chat")
    if refused - {"long"}:
        return (REFUSED,)
    if raw is not None:
        if _other_counts(baseline, rounds):
            return (TOKENIZER, WEIGHTS)
        return (MODEL, WEIGHTS) if raw.effect > _OTHER_MODEL else (WEIGHTS,)
    if "count" in moved:
        return (TEMPLATE, TOKENIZER) if "raw" not in baseline.groups else (TEMPLATE,)
    if chat is not None:
        return (TEMPLATE,) if "raw" in baseline.groups else (TEMPLATE, WEIGHTS)
    if "long" in moved:
        return (CONTEXT,)
    return (SAMPLING,) if "chat" in baseline.groups else (SAMPLING, WEIGHTS, TEMPLATE)


def locked_facts(verdict: Verdict, paths: Sequence[Path]) -> Verdict:
    """The verdict with only such globs as choose a fact at `paths`: the command that it suggests runs as it is printed."""
    narrowed = []
    for kind in verdict.kinds:
        globs = tuple(glob for glob in kind.facts if any(Glob(glob).matches(path) for path in paths))
        narrowed.append(msgspec.structs.replace(kind, facts=globs or kind.facts))
    return msgspec.structs.replace(verdict, kinds=narrowed)


def _refused(baseline: Baseline, rounds: Sequence[Run]) -> set[str]:
    """Groups with a probe that every baseline run answered and every round refuses."""
    groups = set()
    for group, names in baseline.groups.items():
        for probe in names:
            answers = [run[probe] for run in rounds if probe in run]
            if (
                answers
                and all(answer.status for answer in answers)
                and not any(s.status for s in baseline.states[probe])
            ):
                groups.add(group)
    return groups


def _other_counts(baseline: Baseline, rounds: Sequence[Run]) -> bool:
    """Whether a plain completion counts other prompt tokens than in any run of the baseline."""
    for probe in baseline.groups.get("raw", ()):
        known = {state.prompt_tokens for state in baseline.states[probe]}
        counts = {run[probe].prompt_tokens for run in rounds if probe in run and not run[probe].status}
        if counts and not counts & known:
            return True
    return False
