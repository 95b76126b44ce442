"""A LoRA adapter's tensors against its adapter_config.json. Pure. Read: peft 0.19 `tuners/lora`, `utils/other.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.safetensors import Tensor
from lockllm.checkpoint.scheme import table
from lockllm.checkpoint.scheme_rules import compiled

_FILE = "adapter_config.json"
_DOWN = re.compile(r"(?P<module>.*)\.lora_(?:embedding_)?A(?:\.[\w-]+)?(?:\.weight)?\Z")
_PREFIX = re.compile(r"\Abase_model\.(?:model\.)?")


def ranks(config: Mapping[str, Any], tensors: Mapping[str, Tensor], findings: Findings) -> None:
    """Whether every `lora_A` is of the rank that `r` or `rank_pattern` gives its module: engines scale by that rank."""
    declared = config.get("r")
    if not isinstance(declared, int) or isinstance(declared, bool):
        return
    wrong: list[tuple[str, int, int]] = []
    checked = 0
    for name, tensor in tensors.items():
        found = _DOWN.match(name)
        if found is None or len(tensor.shape) != 2 or _is_parameter(config, found["module"]):
            continue
        want = _rank(config, _PREFIX.sub("", found["module"]), declared)
        if want > tensor.shape[1]:
            continue  # no module has fewer inputs than its rank: the shapes are those of a mock
        checked += 1
        if tensor.shape[0] != want:
            wrong.append((name, tensor.shape[0], want))
    if wrong:
        name, rank, want = wrong[0]
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        detail = f"{name} is of rank {rank}, {_FILE} says {want}{more}: the adapter is scaled by another rank"
        findings.wrong("adapter_rank", detail, _FILE, "restore the adapter_config.json that belongs to these weights")
    elif checked:
        findings.right("adapter_rank", f"{checked} modules are of the rank that {_FILE} gives them", _FILE)


def _rank(config: Mapping[str, Any], module: str, declared: int) -> int:
    for pattern, rank in table(config.get("rank_pattern")).items():
        found = compiled(rf"(.*\.)?({pattern})$")
        if isinstance(rank, int) and (
            module == pattern or module.endswith(f".{pattern}") or (found and found.match(module))
        ):
            return rank
    return declared


def _is_parameter(config: Mapping[str, Any], module: str) -> bool:
    """An adapter of a bare parameter holds the ranks of all experts in one tensor."""
    named = config.get("target_parameters")
    parents = [each.rpartition(".")[0] for each in named if isinstance(each, str)] if isinstance(named, list) else []
    return any(f".{parent}." in f".{module}." for parent in parents if parent)
