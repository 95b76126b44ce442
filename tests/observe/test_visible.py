from __future__ import annotations

import pytest

from lockllm.observe.gpu import visible
from lockllm.observe.gpu.cards import Card, Slice

THREE = tuple(Card(index=at, name="NVIDIA H100 80GB HBM3", uuid=f"GPU-{letter * 8}") for at, letter in enumerate("abc"))


@pytest.mark.parametrize(
    "told, chosen",
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0", [0]),
        ("2,0", [2, 0]),
        ("1gpu2", [1]),
        (" 1 , 2 ", [1, 2]),
        ("0,2,-1,1", [0, 2]),
        ("0,7,1", [0]),
        ("0,0", []),
        ("1,1,2", []),
        ("GPU-b", [1]),
        ("GPU-cccccccc,GPU-a", [2, 0]),
        ("GPU-aa,1", [0]),
        ("GPU-", []),
        ("GPU-x,GPU-a", []),
        ("0,GPU-b", [0]),
        ("+1", [1]),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(told: str | None, chosen: list[int]) -> None:
    env = {} if told is None else {"CUDA_VISIBLE_DEVICES": told}
    assert [seen.card.index for seen in visible.choose(THREE, env).gpus] == chosen


def test_a_cut_up_card_is_its_slices() -> None:
    parts = (Slice(uuid="MIG-1", profile="3g.40gb"), Slice(uuid="MIG-2", profile="4g.40gb"))
    cards = (Card(index=0, name="NVIDIA H100", mig=True, slices=parts), *THREE[1:])
    assert [seen.part for seen in visible.choose(cards, {}).gpus] == [*parts, None, None]
    assert [seen.part for seen in visible.choose(cards, {"CUDA_VISIBLE_DEVICES": "MIG-2"}).gpus] == [parts[1]]


def test_numbers_of_unlike_gpus_mean_nothing_without_an_order() -> None:
    mixed = (Card(index=0, name="Tesla T4"), Card(index=1, name="NVIDIA A100-SXM4-40GB"))
    assert visible.choose(mixed, {"CUDA_VISIBLE_DEVICES": "0"}).trouble is not None
    assert visible.choose(mixed, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).trouble is None
    assert visible.choose(mixed, {"CUDA_VISIBLE_DEVICES": "0,1"}).trouble is None


def test_rocm_counts_within_what_the_runtime_leaves() -> None:
    env = {"ROCR_VISIBLE_DEVICES": "2,0", "HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert [seen.card.index for seen in visible.choose(THREE, env, rocm=True).gpus] == [0]
