"""Which processes accept connections at an address, from /proc/net: a listener is identified by address and port."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lockllm.observe.process import proc

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

_LISTEN = "0A"
_MOST_TABLE = 64 << 20
_ANY4, _ANY6 = "0.0.0.0", "::"
_OWN = {_ANY4: "127.0.0.1", _ANY6: "::1"}
"""Where a connection to the address of no interface goes."""


class Listener(msgspec.Struct, frozen=True):
    """One socket that takes connections."""

    address: str
    port: int
    inode: str


def accepting(address: str, port: int, root: Path = proc.PROC) -> tuple[int, ...] | None:
    """The pids that accept a connection to an address. Empty: none does. None: one does, but this user may not see which.

    The kernel prefers the socket that is bound to the very address, then that of all IPv4 addresses, then that of all
    (Linux, `inet_lookup_listener` and `compute_score`).
    """
    return _holders(_nearest(_table(root / "net"), address, port), root)


def listeners(port: int, root: Path = proc.PROC) -> tuple[int, ...] | None:
    """The same for a port, whatever the address."""
    return _holders([each for each in _table(root / "net") if each.port == port], root)


def listens(pid: int, root: Path = proc.PROC) -> tuple[tuple[str, int], ...]:
    """The addresses and TCP ports that a process listens on."""
    try:
        with os.scandir(root / str(pid) / "fd") as entries:
            links = {_link(entry.path) for entry in entries}
    except OSError:
        return ()
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = _table(root / str(pid) / "net")
    return tuple(sorted({(row.address, row.port) for row in rows if row.inode in inodes}, key=lambda each: each[1]))


def _nearest(table: Iterable[Listener], address: str, port: int) -> list[Listener]:
    """The sockets of the best rank: several of them take turns."""
    import ipaddress

    wanted = _plain(ipaddress.ip_address(address.partition("%")[0]))
    wanted = _OWN.get(wanted, wanted)
    here = [each for each in table if each.port == port]
    ranks = (wanted, _ANY4, _ANY6) if "." in wanted else (wanted, _ANY6)
    for rank in ranks:
        if found := [each for each in here if each.address == rank]:
            return found
    return []


def _holders(sockets: Iterable[Listener], root: Path) -> tuple[int, ...] | None:
    wanted = {f"socket:[{each.inode}]" for each in sockets}
    if not wanted:
        return ()
    found = []
    for pid in proc.pids(root):
        try:
            with os.scandir(root / str(pid) / "fd") as entries:
                if any(_link(entry.path) in wanted for entry in entries):
                    found.append(pid)
        except OSError:
            continue
    return tuple(found) or None


def _table(folder: Path) -> list[Listener]:
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(folder / name, "rb") as file:
                lines = file.read(_MOST_TABLE).decode("ascii", "replace").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN and (one := _listener(fields[1], fields[9])) is not None:
                found.append(one)
    return found


def _listener(local: str, inode: str) -> Listener | None:
    """A row of /proc/net: the address consists of four-byte words in this machine's byte order."""
    import ipaddress

    text, _, port = local.rpartition(":")
    try:
        raw = bytes.fromhex(text)
        if sys.byteorder == "little":
            raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
        return Listener(_plain(ipaddress.ip_address(raw)), int(port, 16), inode)
    except ValueError:
        return None


def _plain(address: IPv4Address | IPv6Address) -> str:
    """An address as a person writes it; an IPv4-mapped IPv6 address as IPv4."""
    return str(getattr(address, "ipv4_mapped", None) or address)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
