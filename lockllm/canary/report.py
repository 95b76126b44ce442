"""A verdict as text, JSON, or Prometheus metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lockllm.canary.baseline import Baseline
from lockllm.canary.check import Verdict
from lockllm.canary.statistics import ROUNDS, Judged
from lockllm.output.escape import visible

FORMATS = ("text", "json", "prometheus")
_WORDS = {"noise": "NOISE", "step": "STEP", "unknown": "CANNOT TELL"}
_UNITS = {"count": "of the counts", "sampled": "of the texts", "raw": "nats", "chat": "nats", "long": "nats"}


def render(verdict: Verdict, baseline: Baseline, name: str, server: str, format_: str) -> str:
    """The report in one of FORMATS. `name` is the baseline's file."""
    if format_ == "json":
        return _json(verdict, baseline, name, server)
    if format_ == "prometheus":
        return "\n".join(_metrics(verdict)) + "\n"
    return "\n".join(_text(verdict, baseline, name, server)) + "\n"


def _text(verdict: Verdict, baseline: Baseline, name: str, server: str) -> Iterator[str]:
    word = _WORDS[verdict.status]
    rounds = max((each.rounds for each in verdict.groups), default=0)
    yield f"{word}  {visible(name)} against {visible(server)}"
    yield f"{'':{len(word)}}  {verdict.requests} requests in {rounds} round{'s' * (rounds != 1)}; baseline of {visible(baseline.made_at)}"
    if verdict.reason:
        yield f"\nreason  {visible(verdict.reason)}"
        yield f"fix     {visible(verdict.fix)}"
    if verdict.groups:
        yield "\nprobes    effect      smallest effect that is a step"
        for each in verdict.groups:
            mark = "  STEP" if each.moved else ""
            yield f"{each.group:<9} {each.effect:<11.4g} {_least(each):.4g} {_UNITS[each.group]}{mark}"
    for at, kind in enumerate(verdict.kinds):
        yield f"\n{'kind' if not at else 'or'}      {kind.name}"
        yield f"        {kind.why}"
        yield f"fix     compare these facts with the lock: {kind.command}"
        if not at:
            yield "        if the change is meant, record it: lockllm canary record --update --why TEXT"
    if verdict.status == "noise":
        yield f"\nA step is what {ROUNDS} rounds all show, beyond the largest effect of the baseline's own runs."


def _json(verdict: Verdict, baseline: Baseline, name: str, server: str) -> str:
    document = {
        "status": verdict.status,
        "exit_code": verdict.exit_code,
        "baseline": name,
        "baseline_made_at": baseline.made_at,
        "lock": baseline.lock,
        "server": server,
        "requests": verdict.requests,
        "reason": verdict.reason,
        "fix": verdict.fix,
        "groups": [
            {
                "group": each.group, "effect": each.effect, "smallest_step": _least(each), "unit": _UNITS[each.group],
                "step": each.moved, "probes": each.probes, "rounds": each.rounds,
            }
            for each in verdict.groups
        ],
        "kinds": [
            {"name": kind.name, "why": kind.why, "facts": kind.facts, "command": kind.command} for kind in verdict.kinds
        ],
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _metrics(verdict: Verdict) -> Iterator[str]:
    for name, kind, text in (
        ("effect", "gauge", "Distance of the answers from the nearest run of the baseline."),
        ("threshold", "gauge", "The largest effect that is still noise."),
    ):
        yield f"# HELP lockllm_canary_{name} {text}"
        yield f"# TYPE lockllm_canary_{name} {kind}"
        for each in verdict.groups:
            value = each.effect if name == "effect" else each.least
            yield f'lockllm_canary_{name}{{probes="{each.group}"}} {value:.6g}'
    yield "# HELP lockllm_canary_step 1 where a check found a step, 0 where it found noise; absent where it could not tell."
    yield "# TYPE lockllm_canary_step gauge"
    if verdict.status != "unknown":
        yield f"lockllm_canary_step {int(verdict.status == 'step')}"
    yield "# HELP lockllm_canary_requests Requests that the check made."
    yield "# TYPE lockllm_canary_requests gauge"
    yield f"lockllm_canary_requests {verdict.requests}"


def _least(judged: Judged) -> float:
    """The smallest effect that can be told: one probe's worth, where the noise is none."""
    if judged.group in ("count", "sampled"):
        return max(judged.least, 1 / judged.probes)
    return judged.least
