"""Turns what drivers report into readings: the GPUs of one server, the driver, and findings about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.facts.fact import Path
from lockllm.facts.gpu_names import split_mig
from lockllm.facts.observation import By, Check, CheckStatus, Raw, Reading, Unobserved
from lockllm.facts.registry import find, read, seen
from lockllm.observe.gpu import visible
from lockllm.observe.gpu.cards import Card, Machine, Trouble
from lockllm.observe.gpu.visible import Choice, VisibleGpu

_OF_ONE = ("gpu", "gpu_product", "gpu_device", "compute_capability", "sm_count", "gpu_memory", "virtualization", "mig")
_MAY_LACK = ("gpu_memory", "gpu_device")
"""What a chip may not have at all: GPUs without memory or a bus of their own (GB10, Jetson)."""


class GpuCount(msgspec.Struct, frozen=True):
    """How many GPUs a server uses, and how that is known. `each`: those of one replica, which must work together.

    `spread`: they may be on other nodes, which are not visible here (Ray places them).
    """

    count: int
    source: str
    each: int = 1
    spread: bool = False


class GpuFindings(msgspec.Struct, frozen=True, kw_only=True):
    """Readings, gaps, findings, and warnings about GPUs."""

    readings: tuple[Reading, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()


def pick(machine: Machine, env: Mapping[str, str], pids: frozenset[int], closed: str = "") -> Choice:
    """The GPUs that a server sees: those on which the driver shows its processes, else those its variables allow.

    `closed` says why its variables are not all known.
    """
    usable = [card for card in machine.cards if card.lost is None]
    choice = visible.choose(machine.cards, env, rocm=machine.platform == "rocm")
    if closed and len(usable) > 1 and not any(name.endswith("VISIBLE_DEVICES") for name in env):
        fix = "run lockllm as the user of the server, or as root"
        choice = msgspec.structs.replace(choice, trouble=Trouble(closed, fix), count_known=False)
    shown = visible.of_pids(usable, pids) if machine.host_pids else ()
    if shown and (choice.trouble is not None or len(shown) > len(choice.gpus)):
        return Choice(gpus=shown, source="processes that the driver shows")
    return choice


def idle(machine: Machine, pids: frozenset[int]) -> bool:
    """Whether the driver lists processes on GPUs, but none of these. It compares only pids of the same namespace."""
    usable = [card for card in machine.cards if card.lost is None]
    shown = {pid for card in usable for pid, _ in card.pids}
    return machine.host_pids and bool(usable) and all(card.lists_processes for card in usable) and not shown & pids


def machine_facts(machine: Machine) -> GpuFindings:
    """The driver, and facts about the whole host."""
    found: list[Reading] = []
    unseen: list[Unobserved] = []
    source = machine.driver_source
    if machine.none and machine.platform != "cuda":
        found += [seen(("host", name), None, machine.source, By.FILE) for name in ("driver", "driver_cuda")]
    elif machine.driver is not None:
        by = By.ENDPOINT if source == "NVML" else By.FILE
        found.append(seen(("host", "driver"), machine.driver, source, by))
    if machine.platform == "rocm":
        found.append(seen(("host", "driver_cuda"), None, "no NVIDIA GPU", By.FILE))
    else:
        _one(machine, "driver_cuda", machine.driver_cuda, found, unseen)
    if machine.platform == "cuda":
        _one(machine, "confidential_compute", machine.confidential, found, unseen)
    if machine.rocm_driver is not None:
        found.append(seen(("rocm", "driver"), machine.rocm_driver, source, By.FILE))
    if machine.platform is not None:
        found.append(
            seen(("host", "platform"), machine.platform, machine.source or source or "signs of a GPU", By.FILE)
        )
    if machine.trouble is not None:
        unseen.append(Unobserved(("host",), machine.trouble.reason, machine.trouble.fix))
    kernel, library = machine.kernel_driver, machine.nvml_driver
    if machine.trouble is not None and kernel and library and kernel != library:
        found.append(seen(("host", "driver"), library, "file name of the NVML library", By.FILE))
    warnings = [*machine.notes]
    for card in machine.cards:
        if card.lost is not None:
            warnings.append(f"GPU {card.index} is lost: {card.lost.reason}")
        if card.mig_pending:
            warnings.append(f"GPU {card.index}: MIG mode changes at the next reset")
    return GpuFindings(
        readings=tuple(found), unobserved=tuple(unseen), checks=_health(machine), warnings=tuple(warnings)
    )


def gpu_facts(machine: Machine, choice: Choice, used: GpuCount | None) -> GpuFindings:
    """The GPUs of one server. `used`: how many it uses, None for all visible ones."""
    if machine.trouble is not None:
        return GpuFindings()
    if machine.none or not machine.cards:
        names = [*_OF_ONE, "interconnect"]
        gone = [seen(("host", name), None, machine.source, By.FILE) for name in names]
        return GpuFindings(readings=(*gone, seen(("host", "gpu_count"), 0, machine.source, By.FILE)))
    there = len(choice.gpus)
    cut = any(gpu.part is not None for gpu in choice.gpus)
    count = min(used.count, there) if used is not None else min(there, 1) if cut else there
    gpus = choice.gpus[:count]
    ranked = By.ENDPOINT if machine.platform == "cuda" else By.FILE
    where = f"{machine.source}, {choice.source}"
    found: list[Reading] = []
    unseen: list[Unobserved] = []
    trouble = choice.trouble
    if trouble is not None and used is None and not choice.count_known:
        unseen.append(Unobserved(("host", "gpu_count"), trouble.reason, trouble.fix))
    else:
        parts = [where, used.source if used else "", f"{there} usable of {there + choice.lost}" if choice.lost else ""]
        found.append(seen(("host", "gpu_count"), count, "; ".join(part for part in parts if part), ranked))
    if trouble is not None and not visible.alike(machine.cards) and count < len(visible.everything(machine.cards)):
        unseen += [Unobserved(("host", name), trouble.reason, trouble.fix) for name in _OF_ONE]
    else:
        _cards(gpus, choice, where, ranked, found, unseen)
    if len(gpus) > 1:
        _links(machine, gpus, where, ranked, found, unseen)
    else:
        found.append(seen(("host", "interconnect"), None, f"{len(gpus)} GPU", ranked))
    checks = [_enough(machine, choice, used), _alike(gpus)]
    return GpuFindings(
        readings=tuple(found), unobserved=tuple(unseen), checks=tuple(check for check in checks if check)
    )


def of_one(gpus: Sequence[VisibleGpu]) -> dict[Path, Any]:
    """Values of the first GPU, for rules about the host, in the form that a lock has them."""
    if not gpus:
        return {("host", "gpu_count"): 0}
    raw = {("host", name): _value(name, gpus[0]) for name in _OF_ONE}
    found = {path: read(find(path), value) for path, value in raw.items() if value is not None}
    return {path: value for path, value in found.items() if not isinstance(value, Raw)}


def _cards(
    gpus: Sequence[VisibleGpu], choice: Choice, where: str, by: By, found: list[Reading], unseen: list[Unobserved]
) -> None:
    for name in _OF_ONE:
        values = [_value(name, gpu) for gpu in gpus]
        asked = "gpu" if name == "gpu_product" else name
        trouble = next((gpu.card.trouble[asked] for gpu in gpus if asked in gpu.card.trouble), None)
        if not gpus:
            unseen.append(Unobserved(("host", name), *_sees_none(choice)))
        elif name == "mig":
            told = sorted({value for value in values if value is not None})
            found.append(seen(("host", name), ", ".join(told) or None, where, by))
        elif all(value is not None for value in values):
            found.append(seen(("host", name), _joined(name, values), where, by))
        elif trouble is not None and trouble.lacks and name in _MAY_LACK:
            found.append(seen(("host", name), None, f"{where}: {trouble.reason}", by))
        else:
            why = trouble or Trouble("the driver does not show it", "install a newer driver")
            unseen.append(Unobserved(("host", name), why.reason, why.fix))
    for gpu in gpus:
        _asset(gpu.card, found, where, by)


def _sees_none(choice: Choice) -> tuple[str, str]:
    if choice.lost:
        return "every GPU that the server would use is lost", "drain the node, then reset the GPU or reboot"
    if choice.uncut:
        return "MIG mode is on, but no MIG device exists", "create one with `nvidia-smi mig -cgi PROFILE -C`"
    return "the server sees no GPU", "see CUDA_VISIBLE_DEVICES"


def _asset(card: Card, found: list[Reading], where: str, by: By) -> None:
    for part, value in (("uuid", card.uuid), ("bus", card.bus)):
        if value is not None:
            found.append(seen(("host", "gpus", str(card.index), part), value, where, by))


def _value(name: str, gpu: VisibleGpu) -> Any:
    card, part = gpu.card, gpu.part
    bare = split_mig(card.name)[0] if card.name else None
    values: dict[str, Callable[[], Any]] = {
        "gpu": lambda: bare,
        "gpu_product": lambda: card.name,
        "gpu_device": lambda: card.device,
        "compute_capability": lambda: card.capability,
        "sm_count": lambda: part.sm_count if part is not None else card.sm_count,
        "gpu_memory": lambda: part.memory if part is not None else card.memory,
        "virtualization": lambda: card.virtualization,
        "mig": lambda: (part.profile or "unknown profile") if part is not None else card.partition,
    }
    return values[name]()


def _joined(name: str, values: Sequence[Any]) -> Any:
    kinds = list(dict.fromkeys(values))
    if len(kinds) == 1:
        return kinds[0]
    if name == "gpu":
        return list(values)
    if name in ("gpu_memory", "sm_count"):
        return min(values)
    if name == "compute_capability":
        return ", ".join(sorted(kinds))
    return ", ".join(f"{values.count(kind)}x {kind}" for kind in sorted(kinds))


def _links(
    machine: Machine, gpus: Sequence[VisibleGpu], where: str, by: By, found: list[Reading], unseen: list[Unobserved]
) -> None:
    indexes = sorted({gpu.card.index for gpu in gpus})
    pairs = [machine.linked.get((one, other)) for one in indexes for other in indexes if one < other]
    if None in pairs:
        why = machine.troubles.get("interconnect", Trouble("the driver does not show how the GPUs are linked", ""))
        unseen.append(Unobserved(("host", "interconnect"), why.reason, why.fix))
        return
    word = machine.link if all(pairs) else f"{machine.link}-partial" if any(pairs) else "pcie"
    found.append(seen(("host", "interconnect"), word, where, by))


def _one(machine: Machine, name: str, value: Any, found: list[Reading], unseen: list[Unobserved]) -> None:
    if value is not None:
        found.append(seen(("host", name), value, machine.source, By.ENDPOINT))
    elif (trouble := machine.troubles.get(name)) is not None:
        unseen.append(Unobserved(("host", name), trouble.reason, trouble.fix))


def _health(machine: Machine) -> tuple[Check, ...]:
    if not machine.cards:
        return ()
    sick = [f"GPU {card.index}: {text}" for card in machine.cards for text in card.ailments]
    sick += [f"GPU {card.index}: {card.lost.reason}" for card in machine.cards if card.lost is not None]
    fix = "drain the node, then reset or replace the GPU" if sick else ""
    status = CheckStatus.FAIL if sick else CheckStatus.PASS
    detail = "; ".join(sick) or f"{len(machine.cards)} GPUs report no errors"
    return (Check("check.gpus_healthy", status, detail, machine.source, fix),)


def _enough(machine: Machine, choice: Choice, used: GpuCount | None) -> Check | None:
    name = "check.gpus_enough"
    if used is None:
        return None
    there = len(choice.gpus)
    if used.each > 1 and any(gpu.part is not None for gpu in choice.gpus[: used.count]):
        detail = f"{used.count} GPUs are used ({used.source}), and a CUDA process uses one MIG slice"
        return Check(name, CheckStatus.FAIL, detail, machine.source, "give the server whole GPUs")
    detail = f"{there} GPUs are visible, {used.count} are used ({used.source})"
    if choice.lost:
        detail += f"; {choice.lost} more {'is' if choice.lost == 1 else 'are'} lost"
    if there >= used.count:
        return Check(name, CheckStatus.PASS, detail, f"{machine.source}, {choice.source}")
    if choice.trouble is not None and not choice.count_known:
        return Check(name, CheckStatus.UNKNOWN, detail, f"{machine.source}, {choice.source}", choice.trouble.fix)
    if used.spread:
        detail += "; Ray may place the others on other nodes"
        return Check(name, CheckStatus.UNKNOWN, detail, f"{machine.source}, {choice.source}", "see `ray status`")
    fix = "give the server more GPUs, or see CUDA_VISIBLE_DEVICES"
    return Check(name, CheckStatus.FAIL, detail, f"{machine.source}, {choice.source}", fix)


def _alike(gpus: Sequence[VisibleGpu]) -> Check | None:
    if len(gpus) < 2:
        return None
    kinds = sorted(
        {f"{gpu.card.name} {gpu.card.device or ''} {gpu.part.profile if gpu.part else ''}".strip() for gpu in gpus}
    )
    if len(kinds) == 1:
        return Check("check.gpus_alike", CheckStatus.PASS, f"all {len(gpus)} are {kinds[0]}")
    fix = "choose GPUs of one kind with CUDA_VISIBLE_DEVICES"
    return Check("check.gpus_alike", CheckStatus.FAIL, f"one server uses {' and '.join(kinds)}", "", fix)
