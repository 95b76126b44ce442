"""Which GPUs a process sees: CUDA_VISIBLE_DEVICES by CUDA's own rules, MIG, and the order of the devices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from lockllm.observe.gpu.cards import Card, Slice, Trouble

_NUMBER = re.compile(r"\s*\+?(-?\d+)")
_OLD_SLICE = re.compile(r"MIG-(GPU-[^/]+)/(\d+)/(\d+)\Z")


class VisibleGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as a process sees it: a card, or a MIG slice of one."""

    card: Card
    part: Slice | None = None

    @property
    def kind(self) -> tuple[str | None, str | None, str | None]:
        """What makes two GPUs alike."""
        return self.card.name, self.card.device, self.part.profile if self.part else self.card.partition


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a process sees, in its own order, and what chose them. Lost ones are left out."""

    gpus: tuple[VisibleGpu, ...] = ()
    lost: int = 0  # how many of those that were chosen are lost
    source: str = ""
    trouble: Trouble | None = None  # which of several unlike GPUs are meant cannot be told
    count_known: bool = True  # whether at least their number is known
    uncut: bool = False  # a card was chosen that is to be cut up, and has no slice


def choose(cards: Sequence[Card], env: Mapping[str, str], *, rocm: bool = False) -> Choice:
    """The GPUs that a process with these variables sees."""
    if rocm:
        return _rocm(cards, env)
    told = env.get("CUDA_VISIBLE_DEVICES")
    if told is None:
        choice = _choice(everything(cards), "all GPUs: CUDA_VISIBLE_DEVICES is not set", by_name=False)
        return msgspec.structs.replace(choice, uncut=any(card.mig and not card.slices for card in cards))
    source = f"CUDA_VISIBLE_DEVICES={told}"[:200]
    words = told.split(",")
    if words[0].strip().startswith(("GPU-", "MIG-")):
        return _choice(_by_uuid(cards, words), source, by_name=True)
    indexes = _numbers(words, len(cards))
    choice = _choice((seen for index in indexes for seen in _whole(cards[index])), source, by_name=False)
    choice = msgspec.structs.replace(choice, uncut=any(cards[at].mig and not cards[at].slices for at in indexes))
    ordered = env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    mixed = len({(card.name, card.device) for card in cards if card.lost is None}) > 1
    if mixed and not ordered and 0 < len(indexes) < len(cards):
        trouble = Trouble(
            f"{source} counts GPUs fastest first, and the GPUs of this host differ",
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID for the server, or name the GPUs by UUID",
        )
        return msgspec.structs.replace(choice, trouble=trouble)
    return choice


def everything(cards: Sequence[Card]) -> tuple[VisibleGpu, ...]:
    """Every card, or its slices if it has any."""
    return tuple(seen for card in cards for seen in _whole(card))


def alike(cards: Sequence[Card]) -> bool:
    """Whether all GPUs are alike, so that it does not matter which of them is meant."""
    return len({seen.kind for seen in everything(cards) if seen.card.lost is None}) <= 1


def of_pids(cards: Sequence[Card], pids: frozenset[int]) -> tuple[VisibleGpu, ...]:
    """The GPUs, or slices of them, on which the driver shows one of these processes."""
    found = []
    for card in cards:
        instances = {instance for pid, instance in card.pids if pid in pids}
        if not instances:
            continue
        parts = [VisibleGpu(card=card, part=part) for part in card.slices if part.instance in instances]
        found += parts or list(_whole(card))
    return tuple(found)


def _choice(gpus: Iterable[VisibleGpu], source: str, *, by_name: bool) -> Choice:
    chosen = tuple(gpus)
    left = tuple(seen for seen in chosen if seen.card.lost is None)
    trouble = None
    if not by_name and any(seen.part is not None for seen in left) and len({seen.kind for seen in left}) > 1:
        trouble = Trouble(
            "a CUDA process uses one MIG device, but the visible ones differ",
            "name the MIG device by its UUID in CUDA_VISIBLE_DEVICES",
        )
    return Choice(gpus=left, lost=len(chosen) - len(left), source=source, trouble=trouble)


def _whole(card: Card) -> tuple[VisibleGpu, ...]:
    """A card, or its MIG slices."""
    return tuple(VisibleGpu(card=card, part=part) for part in card.slices) if card.mig else (VisibleGpu(card=card),)


def _numbers(words: Sequence[str], count: int) -> list[int]:
    """Indexes as CUDA reads them: the first invalid one ends the list, a repeated one empties it."""
    found: list[int] = []
    for word in words:
        number = _NUMBER.match(word)
        if number is None or not 0 <= int(number[1][:9]) < count:
            break
        if int(number[1]) in found:
            return []
        found.append(int(number[1]))
    return found


def _by_uuid(cards: Sequence[Card], words: Sequence[str]) -> tuple[VisibleGpu, ...]:
    kind = words[0].strip()[:4]
    found: list[VisibleGpu] = []
    for word in words:
        name = word.strip()
        if not name.startswith(kind):
            break
        fits = _slices(cards, name) if kind == "MIG-" else _named(cards, name)
        if len(fits) != 1:
            break
        if fits[0] in found:
            return ()
        found.append(fits[0])
    return tuple(found)


def _named(cards: Sequence[Card], name: str) -> list[VisibleGpu]:
    """Cards whose UUID begins with a name. A card in MIG slices is not a device itself."""
    return [seen for card in cards if (card.uuid or "").startswith(name) for seen in _whole(card)[:1]]


def _slices(cards: Sequence[Card], name: str) -> list[VisibleGpu]:
    """Slices by UUID or its beginning, or as drivers before 470 name them: `MIG-GPU-<uuid>/<gi>/<ci>`."""
    if old := _OLD_SLICE.match(name):
        instance = (int(old[2]), int(old[3]))
        return [
            VisibleGpu(card=card, part=part)
            for card in cards
            for part in card.slices
            if card.uuid == old[1] and part.instance == instance
        ]
    return [VisibleGpu(card=card, part=part) for card in cards for part in card.slices if part.uuid.startswith(name)]


def _rocm(cards: Sequence[Card], env: Mapping[str, str]) -> Choice:
    """ROCR_VISIBLE_DEVICES first, then HIP_VISIBLE_DEVICES (or CUDA_VISIBLE_DEVICES) relative to it."""
    chosen = list(cards)
    sources = []
    later = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in env else "CUDA_VISIBLE_DEVICES"
    for name in ("ROCR_VISIBLE_DEVICES", later):
        if (told := env.get(name)) is not None:
            words = told.split(",")
            named = [_by_id(chosen, word.strip()) for word in words]
            if any(card is not None for card in named):
                chosen = [card for card in named if card is not None]
            else:
                chosen = [chosen[index] for index in _numbers(words, len(chosen))]
            sources.append(f"{name}={told}"[:200])
    return _choice((VisibleGpu(card=card) for card in chosen), ", ".join(sources) or "all GPUs", by_name=True)


def _by_id(cards: Sequence[Card], name: str) -> Card | None:
    """A GPU by the id that ROCm gives it: `GPU-` and 16 hexadecimal digits of its serial."""
    if not name.startswith("GPU-"):
        return None
    return next((card for card in cards if card.uuid == name), None)
