"""What a vLLM command and its host contradict.

Dead variables, settings without effect, determinism that does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lockllm.engines import Context, Given
from lockllm.engines.kernel import gpu
from lockllm.engines.kernel.collect import Collect
from lockllm.engines.kernel.releases import at_least, below
from lockllm.engines.vllm import variables
from lockllm.engines.vllm.options import is_read
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, Check, CheckStatus, Raw

_INVARIANT_BACKENDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("0.12.0", frozenset({"FLASH_ATTN", "FLASHINFER", "FLASH_ATTN_MLA"})),
    ("0.14.0", frozenset({"FLASH_ATTN", "FLASHINFER", "FLASH_ATTN_MLA", "TRITON_MLA"})),
    ("0.16.0", frozenset({"FLASH_ATTN", "TRITON_ATTN", "FLASH_ATTN_MLA", "TRITON_MLA"})),
    ("0.20.0", frozenset({"FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION", "FLASH_ATTN_MLA", "TRITON_MLA"})),
)
"""First release, and the attention backends that batch-invariant mode accepts when one is named."""
_NAME = "check.deterministic_holds"


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings of the running or planned server, by the release that is installed."""
    found = Collect("vllm", live=False)
    held = {reading.fact.path: reading.value for reading in given.readings} if given else {}
    variables_set = {reading.fact.path[1]: str(reading.value) for reading in given.env} if given else {}
    tell(found, held, {**context.env, **variables_set}, context.version, context.host)
    if given is not None and ("serve", "max_model_len") in given.auto:
        detail = "--max-model-len auto takes what fits in the memory that is free at start"
        found.finding("check.settings_take_effect", CheckStatus.UNKNOWN, detail, "argument --max-model-len", "name it")
    return found.checks()


def tell(
    found: Collect, held: Mapping[Path, Any], env: Mapping[str, str], version: str | None, host: Mapping[Path, Any]
) -> None:
    """Every finding that command, variables, release and host give."""
    for check in variables.checks(env, version):
        found.finding(check.name, check.status, check.detail, check.source, check.fix)
    _forced(found, held, env, version)
    _port(found, env)
    if (word := env.get(variables.BATCH_INVARIANT)) and variables.number_truth(word):
        status, detail, fix = _invariant(held, env, version, host)
        found.finding(_NAME, status, detail, f"variable {variables.BATCH_INVARIANT}", fix)


def _port(found: Collect, env: Mapping[str, str]) -> None:
    """Kubernetes sets VLLM_PORT to an address where a service is called `vllm` (`envs.py: get_vllm_port`)."""
    text = env.get("VLLM_PORT")
    if text is None or re.fullmatch(r"\s*[+-]?\d+\s*", text):
        return
    what = "an address, as Kubernetes sets it for a service called vllm" if "://" in text else "no whole number"
    found.finding(
        "check.flags_accepted", CheckStatus.FAIL, f"VLLM_PORT is {what}: vLLM does not start", "variable VLLM_PORT",
        "rename the service, or set enableServiceLinks: false",
    )  # fmt: skip


def _forced(found: Collect, held: Mapping[Path, Any], env: Mapping[str, str], version: str | None) -> None:
    """V1 of 0.8.0 to 0.11.0 chunks prompts whatever the command says."""
    asked = held.get(("serve", "enable_chunked_prefill"))
    if asked is False and at_least(version, "0.8.0") and below(version, "0.11.1") and env.get("VLLM_USE_V1") != "0":
        detail = f"V1 of vLLM {version} chunks prefills whatever the command says"
        status = CheckStatus.FAIL if chunks_anyway(held, env, version) else CheckStatus.UNKNOWN
        found.finding("check.settings_take_effect", status, detail, "enable_chunked_prefill", "leave it out")


def chunks_anyway(held: Mapping[Path, Any], env: Mapping[str, str], version: str | None) -> bool:
    """Whether `--no-enable-chunked-prefill` is given and surely not in force."""
    if held.get(("serve", "enable_chunked_prefill")) is not False or env.get("VLLM_USE_V1") == "0":
        return False
    first = "0.8.0" if env.get("VLLM_USE_V1") == "1" else "0.11.0"
    return at_least(version, first) and below(version, "0.11.1")


def _invariant(
    held: Mapping[Path, Any], env: Mapping[str, str], version: str | None, host: Mapping[Path, Any]
) -> tuple[CheckStatus, str, str]:
    """Whether batch-invariant mode holds: by release, platform, compute capability and attention backend."""
    if below(version, "0.11.1"):
        return CheckStatus.FAIL, f"vLLM {version} has no batch-invariant mode", "use vLLM 0.11.1 or later"
    platform, generation = gpu.platform(host, version), gpu.capability(host)
    least = 8.0 if at_least(version, "0.23.0") else 9.0
    if platform == "cpu":
        return CheckStatus.FAIL, "batch-invariant mode needs a GPU: the engine dies at the first request", "unset it"
    if platform == "cuda" and generation is not None and version is not None and generation < least:
        detail = f"batch-invariant mode of vLLM {version} needs compute capability {least}, this GPU has {generation}"
        return CheckStatus.FAIL, detail, "serve on a newer GPU, or unset it"
    backend = held.get(("serve", "attention_backend"))
    named = None if backend is None or backend is ABSENT or isinstance(backend, Raw) else str(backend).upper()
    accepted = _accepted(version)
    if accepted is not None and named is not None and named not in accepted:
        return CheckStatus.FAIL, f"{named} is not batch invariant in vLLM {version}", f"use {sorted(accepted)[0]}"
    if named is None and at_least(version, "0.12.0") and below(version, "0.20.0"):
        detail = f"batch-invariant mode of vLLM {version} does not start without an attention backend that is named"
        return CheckStatus.FAIL, detail, "name FLASH_ATTN as the attention backend"
    if not is_read(version) or platform != "cuda" or generation is None:
        missing = "the release" if not is_read(version) else "the GPU"
        return CheckStatus.UNKNOWN, f"whether batch-invariant mode holds depends on {missing}", "observe on the host"
    return CheckStatus.PASS, f"batch-invariant mode of vLLM {version} runs on this GPU", ""


def _accepted(version: str | None) -> frozenset[str] | None:
    if version is None or not is_read(version):
        return None
    return next((names for first, names in reversed(_INVARIANT_BACKENDS) if at_least(version, first)), None)
