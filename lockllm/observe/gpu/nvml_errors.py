"""What each error code of NVML means in practice, and what would help."""

from __future__ import annotations

from typing import Any

from lockllm.observe.gpu.cards import Trouble
from lockllm.observe.safe.timed import Hung

_HEALTH = "drain the node, then reset the GPU or reboot; see the Xid lines of dmesg"
_OPEN = "give the container the GPU devices, or run lockllm as the user of the server"
_NEWER = "install a newer driver"
_AGAIN = "look again; if it stays, see dmesg"
LACKS = 3
INIT = {
    4: ("NVML: no permission to use the GPU devices", _OPEN),
    9: ("NVML: the driver's kernel module is not loaded", "run `modprobe nvidia`, and see `dkms status`"),
    12: ("NVML library not found", "run with --gpus all, or mount libnvidia-ml.so.1"),
    13: ("NVML: the driver is too old for this binding", _NEWER),
    17: (
        "NVML: the system blocks the control device",
        "allow the GPU devices in the container's cgroup; see the host's audit log",
    ),
    18: (
        "NVML: the kernel module and the driver's libraries are of different releases",
        "reboot or reload the kernel module; restart the container",
    ),
    999: (
        "NVML: unknown error; a container that worked before has likely lost its GPU devices",
        "restart the container; on the host use CDI, or cgroupfs as the cgroup driver",
    ),
}
"""Codes of initialisation, where they mean something of their own."""
CALL = {
    1: ("NVML was shut down by something else in this process", "report it with the output of lockllm observe"),
    2: ("NVML rejects the call", "report it with the output of lockllm observe"),
    LACKS: ("the GPU does not have it", ""),
    4: ("no permission", _OPEN),
    6: ("NVML finds no such device", "look again: a MIG device may have been destroyed"),
    7: ("the list grew while it was read", _AGAIN),
    8: ("the GPU lacks power", _HEALTH),
    10: ("the driver did not answer in time", _AGAIN),
    11: ("the GPU's interrupts fail", _HEALTH),
    13: ("the driver is older than the call", _NEWER),
    14: ("the GPU's InfoROM is corrupted", _HEALTH),
    15: ("the GPU is lost", _HEALTH),
    16: ("the GPU needs a reset", _HEALTH),
    19: ("another process has exclusive use of the GPU", _AGAIN),
    20: ("the driver has no memory left", _AGAIN),
    23: ("the driver has no resources left", _AGAIN),
    25: ("the driver is older than the call", _NEWER),
    26: ("the driver is older than the call", _NEWER),
    27: ("the GPU is not ready", _AGAIN),
    28: ("the GPU is gone", _HEALTH),
}
"""Codes of every other call."""
LOST = frozenset({8, 11, 15, 16, 28})
PASSING = frozenset({7, 10, 20, 23, 27})


def code(error: Any) -> int:
    """The number of an NVMLError."""
    return int(getattr(error, "value", 999))


def trouble(error: Any) -> Trouble:
    """What the error of one call means."""
    number = code(error)
    reason, fix = CALL.get(number) or INIT.get(number) or (f"NVML: error {number}", "see dmesg")
    return Trouble(reason, fix, lacks=number == LACKS)


def of_init(error: Any) -> Trouble:
    """What an initialization error means."""
    number = code(error)
    return Trouble(*(INIT.get(number) or CALL.get(number) or (f"NVML: error {number}", "see dmesg")))


def hang(hung: Hung) -> Trouble:
    """What a call that never returned means."""
    return Trouble(f"NVML hangs: {hung}", "see the Xid lines of dmesg; reset the GPU or reboot")
