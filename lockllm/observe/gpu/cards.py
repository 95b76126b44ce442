"""Records of GPUs: what a driver reports about each, and what it could not report."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Trouble(msgspec.Struct, frozen=True):
    """Why something about a GPU is unknown, and how to fix that."""

    reason: str
    fix: str = ""
    lacks: bool = False  # the chip has no such thing: it is absent, not unseen


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A MIG device: a part of a card that acts as a separate GPU."""

    uuid: str
    profile: str | None
    memory: int | None = None
    sm_count: int | None = None
    instance: tuple[int, int] | None = None  # GPU and compute instance, as process lists and older UUIDs name them


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. None means not seen; `trouble` says why, by the last part of the fact's key."""

    index: int
    name: str | None = None
    uuid: str | None = None
    bus: str | None = None
    device: str | None = None  # vendor:device
    capability: str | None = None
    sm_count: int | None = None
    memory: int | None = None
    virtualization: str | None = None
    mig: bool = False
    mig_pending: bool = False
    slices: tuple[Slice, ...] = ()
    partition: str | None = None  # AMD: compute and memory partition where the card is cut up
    pids: tuple[tuple[int, tuple[int, int]], ...] = ()  # processes, each with its GPU and compute instance
    lists_processes: bool = False  # whether the driver told its processes, be they none
    ailments: tuple[str, ...] = ()  # memory errors, pending repairs
    shut: tuple[Trouble, ...] = ()  # why CUDA cannot start on it although the driver shows it
    lost: Trouble | None = None
    trouble: Mapping[str, Trouble] = {}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """All visible GPUs. `trouble`: why none could be queried; `none`: there are certainly none."""

    platform: str | None  # cuda, rocm, cpu; None: not known
    cards: tuple[Card, ...] = ()
    driver: str | None = None
    driver_source: str = ""
    driver_cuda: str | None = None
    kernel_driver: str | None = None  # of the kernel module, by procfs
    nvml_driver: str | None = None  # of the NVML library, by its file's name
    confidential: bool | None = None
    linked: Mapping[tuple[int, int], bool] = {}  # pairs of indexes -> whether a direct link joins them
    link: str = "nvlink"  # what such a link is called
    source: str = ""
    none: bool = False
    trouble: Trouble | None = None
    troubles: Mapping[str, Trouble] = {}  # driver, driver_cuda, interconnect …
    notes: tuple[str, ...] = ()
    host_pids: bool = False  # the driver's pids are those that this process sees
    rocm_driver: str | None = None
    rocm_release: str | None = None
