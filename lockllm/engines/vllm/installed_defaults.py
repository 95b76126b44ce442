"""Defaults that an installed release states as constants, where its rules were not read: those that no rule replaces."""

from __future__ import annotations

from lockllm.engines import Installed
from lockllm.engines.vllm.case import Case, Unknown
from lockllm.facts.fact import Path
from lockllm.facts.keys import dotted
from lockllm.facts.observation import By, Raw, Reading, Unobserved
from lockllm.facts.registry import seen

_PLAIN: dict[Path, str] = {
    ("serve", "tensor_parallel_size"): "tensor_parallel_size",
    ("serve", "pipeline_parallel_size"): "pipeline_parallel_size",
    ("serve", "data_parallel_size"): "data_parallel_size",
    ("serve", "load_format"): "load_format",
    ("serve", "trust_remote_code"): "trust_remote_code",
    ("serve", "enforce_eager"): "enforce_eager",
    ("serve", "gpu_memory_share"): "gpu_memory_utilization",
    ("serve", "generation_config"): "generation_config",
    ("serve", "seed"): "seed",
}
"""Facts whose default no rule of 0.6.0 to 0.33.0 replaces -> their option."""
STATED = frozenset(_PLAIN)
"""The facts that the source of an installed release may state."""
_PLACES = frozenset({"load_format", "generation_config"})
"""Options whose `auto` is a value of its own: it names a place to look, and nothing replaces it."""
_VARIABLES = {"data_parallel_size": "VLLM_DP_SIZE"}
"""Options in whose place a variable may speak."""


def told(path: Path, now: Case, installed: Installed, unread: Unknown) -> Reading | Unobserved:
    """The default that the source of the installed release states, or why it tells none."""
    name = _PLAIN.get(path)
    if installed.table is None:
        return Unobserved(path, f"{unread.reason}; {installed.problem}", unread.fix)
    if name is None:
        return Unobserved(path, unread.reason, unread.fix)
    flag = "--" + name.replace("_", "-")
    fix = f"name it with {flag}, or use a newer lockllm"
    default = installed.defaults.get(name)
    if all(option.name != name for option in installed.table.options):
        return Unobserved(path, f"vLLM {now.version} has no {flag}, and its rules were not read", unread.fix)
    if default is None:
        return Unobserved(path, f"the default of {flag} is no constant of vLLM {now.version}", fix)
    resolved = default.value in (None, "") or (default.value == "auto" and name not in _PLACES)
    variable = _VARIABLES.get(name, "")
    if resolved or variable in now.env or (variable and not now.env_whole):
        why = f"{default.source} is {default.value!r}: what comes of it only a rule of vLLM {now.version} tells"
        return Unobserved(path, why, fix)
    reading = seen(path, default.value, default.source, By.DEFAULT)
    if isinstance(reading.value, Raw):
        return Unobserved(path, f"{default.source} is {default.value!r}: no value of {dotted(path)}", fix)
    return reading
