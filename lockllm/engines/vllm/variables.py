"""The variables of vLLM that change results, the releases that read them, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from lockllm.engines.kernel.releases import at_least, spans
from lockllm.engines.kernel.variables import is_common
from lockllm.engines.vllm.options import READ, is_read
from lockllm.facts import variables
from lockllm.facts.env import is_secret
from lockllm.facts.observation import By, Check, CheckStatus, Reading
from lockllm.facts.registry import seen

_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP).*)?\Z")
"""What Kubernetes sets for a service that is named after the engine."""
BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
ATTENTION_BACKEND = "VLLM_ATTENTION_BACKEND"
FALSIFYING = {
    "VLLM_MOE_ROUTING_SIMULATION_STRATEGY": "it fakes expert routing",
    "VLLM_TEST_FORCE_LOAD_FORMAT": "it loads weights in a format for tests",
    "TRITON_INTERPRET": "kernels run in Python",
}
"""Variables that a server in production must not have, and why."""
REPLACED = {
    ATTENTION_BACKEND: "pass --attention-backend instead",
    "VLLM_FLASH_ATTN_VERSION": "pass --attention-config.flash_attn_version instead",
    "VLLM_USE_V1": "unset it; only the V1 engine is left",
    "VLLM_USE_FLASHINFER_MOE_FP16": "pass --moe-backend instead",
    "VLLM_USE_FLASHINFER_MOE_FP8": "pass --moe-backend instead",
    "VLLM_USE_FLASHINFER_MOE_FP4": "pass --moe-backend instead",
    "VLLM_FLASHINFER_MOE_BACKEND": "pass --moe-backend instead",
    "VLLM_MXFP4_USE_MARLIN": "pass --moe-backend instead",
    "VLLM_NVFP4_GEMM_BACKEND": "pass --linear-backend instead",
}
"""What to do instead of setting a variable that later releases no longer read."""


@lru_cache(maxsize=1)
def history() -> dict[str, tuple[str, str]]:
    """Every variable that some release reads -> first and last release; `""`: still there."""
    return {row.name: (row.since, row.until) for row in variables.rows("vllm")}


def reads(name: str, version: str | None) -> bool | None:
    """Whether that version reads the variable; None where it cannot be told."""
    if version is None or not is_read(version):
        return None
    span = history().get(name)
    return span is not None and spans(*span, version, READ)


def matters(name: str) -> bool:
    """Whether results depend on a variable of vLLM's own."""
    row = variables.find(name, "vllm")
    own = row is not None and row.engine == "vllm" and row.recorded
    return (own or name.startswith("VLLM_ROCM_USE_AITER_")) and not is_secret(name)


def readings(env: Mapping[str, str], version: str | None, by: By) -> Iterable[Reading]:
    """The variables that count, and the facts that they decide. One that this version does not read is no fact."""
    for name in sorted(env):
        own = matters(name)
        if (own and reads(name, version) is not False) or (not own and is_common(name)):
            yield seen(("env", name), env[name], f"variable {name}", by)
    word = env.get(BATCH_INVARIANT)
    if word is not None and reads(BATCH_INVARIANT, version) is not False and (truth := number_truth(word)) is not None:
        yield seen("serve.batch_invariant", truth, f"variable {BATCH_INVARIANT}", by)
    backend = env.get(ATTENTION_BACKEND)
    if backend and reads(ATTENTION_BACKEND, version):
        yield seen("serve.attention_backend", backend, f"variable {ATTENTION_BACKEND}", by)


def number_truth(text: str) -> bool | None:
    """`bool(int(text))`, as vLLM reads its switches; None where that fails."""
    try:
        return bool(int(text)) if len(text) < 20 else None
    except ValueError:
        return None


def secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables that must appear nowhere."""
    return tuple(value for name, value in env.items() if value and is_secret(name))


def checks(env: Mapping[str, str], version: str | None) -> Iterable[Check]:
    """Set variables that this version does not read, and those that falsify results."""
    mine = sorted(
        name for name in env if name.startswith("VLLM_") and not is_secret(name) and not _SERVICE.search(name)
    )
    if version is not None and mine:
        if not is_read(version):
            yield Check(
                "check.variables_known",
                CheckStatus.UNKNOWN,
                f"the variables of vLLM {version} are not known to this release",
                fix="use a newer lockllm",
            )
        else:
            yield _known(mine, version)
    for name, why in FALSIFYING.items():
        if env.get(name) not in (None, "", "0"):
            yield Check(
                "check.settings_take_effect",
                CheckStatus.FAIL,
                f"{name} is set: {why}",
                f"variable {name}",
                f"unset {name}",
            )
    word = env.get(BATCH_INVARIANT)
    if word and number_truth(word) is None and at_least(version, "0.11.1"):
        yield Check(
            "check.settings_take_effect",
            CheckStatus.FAIL,
            f"{BATCH_INVARIANT} is {word!r}, and vLLM reads a number",
            f"variable {BATCH_INVARIANT}",
            f"set {BATCH_INVARIANT}=1",
        )


def _known(names: list[str], version: str) -> Check:
    dead = [name for name in names if reads(name, version) is False]
    if not dead:
        return Check(
            "check.variables_known", CheckStatus.PASS, f"vLLM {version} reads every VLLM_ variable that is set"
        )
    told = []
    for name in dead:
        span = history().get(name)
        told.append(f"{name} (last read by {span[1]})" if span and span[1] else f"{name} (no release has it)"
                    if span is None else f"{name} (read since {span[0]})")  # fmt: skip
    fix = next((REPLACED[name] for name in dead if name in REPLACED), "unset " + ", ".join(dead))
    return Check(
        "check.variables_known",
        CheckStatus.FAIL,
        f"set, but vLLM {version} does not read: {', '.join(told)}",
        f"variable {dead[0]}",
        fix,
    )
