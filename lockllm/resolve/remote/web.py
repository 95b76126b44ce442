"""What the Hub and a package index share of the web: addresses, what of them may be shown, and an end to every wait."""

from __future__ import annotations

import queue
import re
import threading
import urllib.parse
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


class Slow(Exception):
    """No whole answer within the time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def within(seconds: float, call: Callable[[], T]) -> T:
    """What `call` gives, at most that long awaited: names that do not resolve and headers that drip have no time-out of their own."""
    box: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            box.put((None, error))

    threading.Thread(target=run, daemon=True, name="lockllm-web").start()
    try:
        answer, error = box.get(timeout=seconds)
    except queue.Empty:
        raise Slow(seconds) from None
    if error is not None:
        raise error
    return cast(T, answer)


def parts_of(url: str) -> urllib.parse.SplitResult | None:
    """The parts of a web address; None for what is none."""
    try:
        parts = urllib.parse.urlsplit(url)
        parts.port  # noqa: B018 - ValueError where it is no number
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a web address: what a secret is bound to."""
    parts = parts_of(url)
    return parts and (parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))


def shown(url: str) -> str:
    """An address without what may be secret in it: user and password, query. What is no address may hold them anywhere."""
    scheme, slashes, rest = url.partition("//")
    authority = re.split("[/?#]", rest, maxsplit=1)[0] if parts_of(url) else rest
    return f"{scheme}{slashes}{rest[authority.rfind('@') + 1 :]}".partition("?")[0][:300]


_CLOUDS = frozenset({"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192"})
"""Where AWS, Google, Alibaba and Oracle tell a machine its secrets besides the link's own addresses."""


def is_of_the_link(host: str) -> bool:
    """Whether a host is a link-local address, or another one at which a cloud tells a machine its secrets.

    In any of the ways that the C library reads one.
    """
    import ipaddress
    import socket

    try:
        plain = socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        plain = host.partition("%")[0]
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_link_local or str(address) in _CLOUDS
