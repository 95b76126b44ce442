from __future__ import annotations

import itertools

import pytest

from lockllm.documents import spec
from lockllm.errors import SpecError
from lockllm.facts.gpu_names import canonical, fits, split_mig

SPEC = '[checkpoint]\npath = "m"\n[engine]\nname = "vllm"\n[host]\ngpu = "{}"\n'

PRODUCTS: tuple[tuple[str, ...], ...] = (
    ("Tesla T4", "NVIDIA T4", "Tesla-T4", "T4", "NVIDIA Tesla T4"),
    ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB", "NVIDIA_A100-SXM4-40GB", "A100-SXM4-40GB-MIG-1g.5gb-SHARED"),
    ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB MIG 3g.40gb"),
    ("A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
    ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB", "NVIDIA-A100-80GB-PCIe"),
    ("NVIDIA A800-SXM4-80GB", "A800-SXM4-80GB"),
    ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3", "NVIDIA_H100_80GB_HBM3", "NVIDIA-H100-80GB-HBM3", "nvidia h100 80gb hbm3",
     "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "H100 SXM5 80GB"),
    ("NVIDIA H100 PCIe", "H100 PCIe", "NVIDIA-H100-PCIe"),
    ("NVIDIA H100 NVL", "H100 NVL"),
    ("NVIDIA H100",),
    ("NVIDIA H200", "H200", "NVIDIA_H200"),
    ("NVIDIA H200 NVL", "NVIDIA_H200_NVL"),
    ("NVIDIA H20",),
    ("NVIDIA H20-3e", "NVIDIA_H20-3e"),
    ("NVIDIA H800",),
    ("NVIDIA GH200 120GB", "GH200 120GB"),
    ("NVIDIA GH200 480GB",),
    ("NVIDIA B200", "NVIDIA_B200"),
    ("NVIDIA GB200",),
    ("NVIDIA B300 SXM6 AC", "NVIDIA_B300_SXM6_AC"),
    ("NVIDIA GB10",),
    ("NVIDIA L4", "L4"),
    ("NVIDIA L40",),
    ("NVIDIA L40S",),
    ("NVIDIA L2",),
    ("NVIDIA L20", "L20"),
    ("NVIDIA L20Y",),
    ("NVIDIA A10", "A10"),
    ("NVIDIA A10G",),
    ("NVIDIA A16",),
    ("NVIDIA A2",),
    ("NVIDIA A30", "A30 PCIe"),
    ("NVIDIA A40", "A40"),
    ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB", "NVIDIA V100-SXM2-16GB"),
    ("Tesla V100-SXM2-32GB",),
    ("Tesla V100-PCIE-32GB",),
    ("GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
    ("NVIDIA GeForce RTX 4090",),
    ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada Generation"),
    ("NVIDIA RTX 4000 Ada Generation",),
    ("Quadro RTX 4000", "NVIDIA Quadro RTX 4000"),
    ("Quadro RTX 6000",),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",),
    ("GRID V100DX-16Q", "NVIDIA GRID V100DX-16Q"),
    ("AMD Instinct MI300X", "AMD_Instinct_MI300X", "MI300X"),
    ("AMD Instinct MI325X",),
    ("AMD Instinct MI300A",),
    ("Intel(R) Arc(TM) Pro B60 Graphics", "Intel Arc Pro B60 Graphics", "Intel®_Arc™_Pro_B60_Graphics"),
    ("Intel(R) Arc(TM) Pro B70 Graphics",),
)  # fmt: skip


@pytest.mark.parametrize("names", PRODUCTS, ids=lambda names: names[0])
def test_a_product_has_one_form_whoever_spells_it(names: tuple[str, ...]) -> None:
    assert len({canonical(name) for name in names}) == 1


def test_no_two_products_have_one_form() -> None:
    forms = [canonical(names[0]) for names in PRODUCTS]
    assert [pair for pair in itertools.combinations(forms, 2) if pair[0] == pair[1]] == []
    assert sum(map(len, PRODUCTS)) > 60


def test_a_slice_is_told_from_its_card() -> None:
    assert split_mig("NVIDIA H100 80GB HBM3 MIG 3g.40gb") == ("NVIDIA H100 80GB HBM3", "3g.40gb")
    assert split_mig("A100-SXM4-40GB-MIG-1g.5gb-SHARED") == ("A100-SXM4-40GB", "1g.5gb")
    assert split_mig("NVIDIA H100 PCIe") == ("NVIDIA H100 PCIe", None)


def test_a_mixed_host_is_a_counted_list_in_any_order() -> None:
    assert canonical("2x Tesla T4, 1x NVIDIA L4") == canonical("1x L4, 2x NVIDIA T4")
    assert canonical("2x Tesla T4") != canonical("1x Tesla T4")


def test_a_short_name_lists_what_it_may_mean() -> None:
    assert fits("H200 NVL") == ("NVIDIA H200 NVL",)
    assert fits("NVIDIA L4") == ("NVIDIA L4",)
    assert set(fits("H100")) == {"NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H100"}
    assert fits("Voodoo 2") == ()


@pytest.mark.parametrize(
    "written, meant",
    [
        ("H100 80GB HBM3", "H100 80GB HBM3"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("B300", "NVIDIA B300 SXM6 AC"),
        ("NVIDIA H100", "NVIDIA H100"),
        ("L4", "L4"),
        ("Some GPU of 2031", "Some GPU of 2031"),
    ],
)
def test_a_short_name_in_a_spec_is_the_one_gpu_that_it_fits(written: str, meant: str) -> None:
    assert spec.read(SPEC.format(written), "llm.toml").values[("host", "gpu")] == meant


@pytest.mark.parametrize(
    "written, listed",
    [
        ("H100", "NVIDIA H100 PCIe"),
        ("A100", "NVIDIA A100-SXM4-80GB"),
        ("RTX PRO 6000", "Workstation"),
        ("V100", "Tesla V100"),
    ],
)
def test_a_short_name_that_fits_several_gpus_is_an_error_that_lists_them(written: str, listed: str) -> None:
    with pytest.raises(SpecError, match="may be several GPUs") as raised:
        spec.read(SPEC.format(written), "llm.toml")
    assert listed in raised.value.fix
