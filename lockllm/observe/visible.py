"""Which GPUs a process sees: CUDA_VISIBLE_DEVICES by CUDA's own rules, MIG, and the order of the devices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from lockllm.observe.gpu import Card, Slice, Trouble

_NUMBER = re.compile(r"\s*\+?(-?\d+)")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as a process sees it: a card, or a MIG slice of one."""

    card: Card
    part: Slice | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a process sees, in its own order, and what chose them."""

    gpus: tuple[Seen, ...] = ()
    source: str = ""
    trouble: Trouble | None = None  # which of several unlike GPUs are meant cannot be told
    notes: tuple[str, ...] = ()


def choose(cards: Sequence[Card], env: Mapping[str, str], *, rocm: bool = False) -> Choice:
    """The GPUs that a process with these variables sees."""
    if rocm:
        return _rocm(cards, env)
    told = env.get("CUDA_VISIBLE_DEVICES")
    if told is None:
        return Choice(gpus=_all(cards), source="all GPUs: CUDA_VISIBLE_DEVICES is not set")
    source = f"CUDA_VISIBLE_DEVICES={told}"[:200]
    words = told.split(",")
    if words[0].strip().startswith(("GPU-", "MIG-")):
        return Choice(gpus=_by_uuid(cards, words), source=source)
    indexes = _numbers(words, len(cards))
    chosen = tuple(seen for index in indexes for seen in _whole(cards[index]))
    ordered = env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if len({_kind(card) for card in cards}) > 1 and not ordered and 0 < len(indexes) < len(cards):
        trouble = Trouble(
            f"{source} counts GPUs fastest first, and the GPUs of this host differ",
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID for the server, or name the GPUs by UUID",
        )
        return Choice(gpus=chosen, source=source, trouble=trouble)
    return Choice(gpus=chosen, source=source)


def of_pids(cards: Sequence[Card], pids: frozenset[int]) -> tuple[Seen, ...]:
    """The GPUs on which the driver shows one of these processes. Nothing shows where pids are another namespace's."""
    return tuple(Seen(card=card) for card in cards if pids.intersection(card.pids))


def _all(cards: Sequence[Card]) -> tuple[Seen, ...]:
    return tuple(seen for card in cards for seen in _whole(card))


def _whole(card: Card) -> tuple[Seen, ...]:
    """A card, or its slices where it is cut up."""
    return tuple(Seen(card=card, part=part) for part in card.slices) if card.mig else (Seen(card=card),)


def _numbers(words: Sequence[str], count: int) -> list[int]:
    """Indexes as CUDA reads them: the first that is none ends the list, a repeated one empties it."""
    found: list[int] = []
    for word in words:
        number = _NUMBER.match(word)
        if number is None or not 0 <= int(number[1]) < count:
            break
        if int(number[1]) in found:
            return []
        found.append(int(number[1]))
    return found


def _by_uuid(cards: Sequence[Card], words: Sequence[str]) -> tuple[Seen, ...]:
    kind = words[0].strip()[:4]
    found: list[Seen] = []
    for word in words:
        name = word.strip()
        if not name.startswith(kind):
            break
        fits = (
            _slices(cards, name) if kind == "MIG-" else [each for each in cards if (each.uuid or "").startswith(name)]
        )
        if len(fits) != 1:
            break
        one = fits[0]
        seen = one if isinstance(one, Seen) else Seen(card=one)
        if seen in found:
            return ()
        found.append(seen)
    return tuple(found)


def _slices(cards: Sequence[Card], name: str) -> list[Seen]:
    return [Seen(card=card, part=part) for card in cards for part in card.slices if part.uuid.startswith(name)]


def _rocm(cards: Sequence[Card], env: Mapping[str, str]) -> Choice:
    """ROCR_VISIBLE_DEVICES first, then HIP_VISIBLE_DEVICES (or CUDA_VISIBLE_DEVICES) relative to it."""
    chosen = list(cards)
    sources = []
    later = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in env else "CUDA_VISIBLE_DEVICES"
    for name in ("ROCR_VISIBLE_DEVICES", later):
        if (told := env.get(name)) is not None:
            chosen = [chosen[index] for index in _numbers(told.split(","), len(chosen))]
            sources.append(f"{name}={told}"[:200])
    return Choice(gpus=tuple(Seen(card=card) for card in chosen), source=", ".join(sources) or "all GPUs")


def _kind(card: Card) -> tuple[str | None, str | None]:
    return card.name, card.device
