"""The sampling defaults that vLLM applies to a request that says nothing (`ModelConfig.get_diff_sampling_param`).

Since 0.8.0 the checkpoint's generation config counts, as transformers reads it: release 4 drops a value that is its
own class
default (an explicit `top_k: 50`), release 5 keeps it. `--override-generation-config` is merged over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lockllm.engines import Given
from lockllm.engines.kernel.releases import at_least
from lockllm.engines.vllm.case import Case
from lockllm.engines.vllm.spread import SAMPLING_KEYS
from lockllm.facts.observation import By, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.facts.types import whole

_NEUTRAL = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0, "max_tokens": None,
}  # fmt: skip
"""What a chat completion gets where neither the server nor the request says anything; None: what fits."""
_CLASS_DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "top_k": 50, "repetition_penalty": 1.0}
"""Defaults of transformers 4's GenerationConfig: it leaves such values out of its diff."""
GENERATION_CONFIG = ("checkpoint", "generation_config")


def effective(now: Case, given: Given | None) -> Iterable[Reading | Unobserved]:
    """The defaults in force, each with its winner."""
    folder = given is not None and any(path.fact.path == ("serve", "generation_config") for path in given.paths)
    source = now.said("serve.generation_config")
    read = isinstance(source, str) and len(source) == 64  # the folder's file was read: what it says was given
    if folder or (isinstance(source, str) and source not in ("auto", "vllm") and not read):
        yield Unobserved(
            ("sampling",), "the defaults stand in a folder of their own", "read its generation_config.json"
        )
        return
    declared = source == "auto"
    if declared and not now.looked:
        yield Unobserved(("sampling",), "the checkpoint's files were not seen", "name them with --checkpoint")
        return
    for name, neutral in _NEUTRAL.items():
        if read and name == "top_k" and ("sampling", name) not in now.given:
            yield Unobserved(("sampling", name), "whether the folder's file names it was not told", "send it")
        elif ("sampling", name) not in now.given:
            yield _one(now, name, neutral, declared)
    yield from _stop_ids(now)
    yield seen(("sampling", "completions", "max_tokens"), 16, f"vLLM {now.version}: default of the route", By.DEFAULT)


def _one(now: Case, name: str, neutral: Any, declared: bool) -> Reading | Unobserved:
    key = "max_new_tokens" if name == "max_tokens" else name
    value = now.checkpoint.get((*GENERATION_CONFIG, key)) if declared and _kept(now, key) else None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return seen(("sampling", name), neutral, f"vLLM {now.version}: default", By.DEFAULT)
    if value == _CLASS_DEFAULTS.get(key) and value != neutral:
        major = transformers_major(now.version, now.packages, now.env)
        if major is None:
            reason = f"{key} is a default of transformers 4, which leaves it out, and transformers 5 does not"
            return Unobserved(("sampling", name), reason, "observe where the server's packages can be seen")
        if major < 5:
            return seen(
                ("sampling", name), neutral, f"transformers {major} leaves out its own default of {key}", By.RULE
            )
    found = 0 if key == "top_k" and value < 0 else value
    return seen(("sampling", name), found, f"generation_config.json: {key}", By.RULE)


def _kept(now: Case, key: str) -> bool:
    """Whether this release keeps the key, and the checkpoint's file is where it reads it from."""
    if not at_least(now.version, SAMPLING_KEYS.get(key, "999")):
        return False
    files = [path for path in now.checkpoint if path[:2] == ("checkpoint", "files")]
    moved = bool(files) and ("checkpoint", "files", "generation_config.json") not in now.checkpoint  # into config.json
    return not (moved and (transformers_major(now.version, now.packages, now.env) or 4) >= 5)


def _stop_ids(now: Case) -> Iterable[Reading | Unobserved]:
    """Stop ids come from the generation config whatever `--generation-config` says, or from config.json without one."""
    if not now.looked or ("sampling", "stop_token_ids") in now.given:
        return
    value = now.checkpoint.get((*GENERATION_CONFIG, "eos_token_id"))
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, (list, tuple)):
        yield seen("sampling.stop_token_ids", list(value), "generation_config.json: eos_token_id", By.RULE)


def transformers_major(version: str, packages: Mapping[str, str], env: Mapping[str, str]) -> int | None:
    """The transformers that reads the generation config; the Rust frontend reads it as release 5 does."""
    if env.get("VLLM_USE_RUST_FRONTEND", "0") not in ("", "0") and at_least(version, "0.22.1"):
        return 5
    installed = packages.get("transformers", "")
    if (major := whole(installed.partition(".")[0])) is not None:
        return major
    if at_least(version, "0.24.0"):
        return 5
    return None if at_least(version, "0.19.1") else 4
