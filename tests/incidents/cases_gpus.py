"""What moved in the GPUs under the same command line."""

from __future__ import annotations

from collections.abc import Mapping

from tests.incidents.cases_vllm import vllm
from tests.incidents.raw import Case
from tests.observe.machines import A100, MIXED, SLICED

A10 = {
    "gpu.*.name": "NVIDIA A10",
    "gpu.*.ids": "223610DE",
    "gpu.*.capability": "8 6",
    "gpu.*.cores": "9216",
    "gpu.*.memory_mib": "23028",
    "nvlink": "none",
}
A800 = {
    "gpu.*.name": "NVIDIA A800 80GB PCIe",
    "gpu.*.ids": "20F510DE",
    "gpu.*.capability": "8 0",
    "gpu.*.cores": "6912",
    "gpu.*.memory_mib": "81920",
    "nvlink": "none",
}
RTX = {
    "count": "2",
    "gpu.*.name": "NVIDIA GeForce RTX 4080 SUPER",
    "gpu.*.ids": "270210DE",
    "gpu.*.capability": "8 9",
    "gpu.*.cores": "10240",
    "gpu.*.memory_mib": "16376",
    "nvlink": "none",
}
RTX_3060 = {
    **RTX,
    "gpu.1.name": "NVIDIA GeForce RTX 3060",
    "gpu.1.ids": "250310DE",
    "gpu.1.capability": "8 6",
    "gpu.1.cores": "3584",
    "gpu.1.memory_mib": "12288",
}
B200 = {
    "gpu.*.name": "NVIDIA B200",
    "gpu.*.ids": "290110DE",
    "gpu.*.capability": "10 0",
    "gpu.*.cores": "18944",
    "gpu.*.memory_mib": "183359",
}
QUANT = "INFO 01-01 00:00:00 x.py:1] Using {} for CompressedTensorsW8A8Fp8\n"
MOE = "INFO 01-01 00:00:00 x.py:1] Using {}\n"
TABLE = "configuration from /c/E=128,N=384,device_name={}.json for MoE layer."
FP8 = {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}}
ORDER = "PCI_BUS_ID"
CASES: Mapping[str, Case] = {
    "vllm-2167": Case(
        engine="vllm", before=vllm("0.6.0", gpu=A800), after=vllm("0.6.0", "-tp 2", gpu={**A10, "count": "2"})
    ),
    "vllm-4114": Case(
        engine="vllm",
        before=vllm("0.6.0", gpu={"driver": "535.161.07"}),
        after=vllm("0.6.0", gpu={"driver": "535.171.04"}),
    ),
    "vllm-5222": Case(
        engine="vllm", before=vllm("0.6.0"), after=vllm("0.6.0", gpu={"gpu.*.ecc_errors": "3", "gpu.*.remap": "1"})
    ),
    "llama-cookbook-218": Case(engine="vllm", before=vllm("0.6.0"), after=vllm("0.6.0", gpu={"gpu.*.ecc_errors": "1"})),
    "vllm-5975": Case(
        engine="vllm",
        before=vllm("0.6.0", config=FP8, log=QUANT.format("CutlassFP8ScaledMMLinearKernel")),
        after=vllm("0.6.0", config=FP8, gpu=A100, log=QUANT.format("MarlinFP8ScaledMMLinearKernel")),
    ),
    "vllm-7472": Case(
        engine="vllm",
        before=vllm("0.6.0", gpu=MIXED, env={"CUDA_DEVICE_ORDER": ORDER, "CUDA_VISIBLE_DEVICES": "1"}),
        after=vllm("0.6.0", gpu=MIXED, env={"CUDA_VISIBLE_DEVICES": "1"}),
    ),
    "vllm-15255": Case(
        engine="vllm", before=vllm("0.7.2", "-tp 2", gpu=RTX), after=vllm("0.7.2", "-tp 2", gpu=RTX_3060)
    ),
    "vllm-23271": Case(
        engine="vllm",
        before=vllm("0.10.1", gpu={"gpu.*.name": "NVIDIA H100"}, log=MOE.format(TABLE.format("NVIDIA_H100"))),
        after=vllm("0.10.1", log=MOE.format("default MoE config.")),
    ),
    "vllm-38083": Case(engine="vllm", before=vllm("0.18.1", config=FP8), after=vllm("0.18.1", config=FP8, gpu=B200)),
    "vllm-41848": Case(
        engine="vllm",
        before=vllm("0.20.1", env={"CUDA_VISIBLE_DEVICES": "0"}),
        after=vllm("0.20.1", env={"CUDA_VISIBLE_DEVICES": "MIG-2"}, gpu=SLICED),
    ),
    "vllm-52192": Case(
        engine="vllm",
        before=vllm("0.30.0+g1111111", log=MOE.format("default MoE config.")),
        after=vllm("0.30.0+g2222222", log=MOE.format(TABLE.format("NVIDIA_GB10"))),
    ),
}
