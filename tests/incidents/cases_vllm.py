"""vLLM: what flags, variables, files, packages and logs of two hosts make of one server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.incidents.raw import Case, Side, weights


def vllm(version: str, flags: str = "", packages: Mapping[str, str] = {}, **more: Any) -> Side:
    """A host that serves with vLLM."""
    said = {"vllm": version, "torch": "2.7.0", "transformers": "4.57.1", **packages}
    return Side(argv=f"vllm serve {{model}} {flags}".strip(), packages=said, **more)


def _upgrade(before: str, after: str, flags: str = "", **more: Any) -> Case:
    """Another release on the same host."""
    first = vllm(before, flags, **more)
    return Case(engine="vllm", before=first, after=first.but(packages={"vllm": after}))


def _flags(version: str, before: str, after: str, **more: Any) -> Case:
    """Another command line on the same host."""
    return Case(engine="vllm", before=vllm(version, before, **more), after=vllm(version, after, **more))


F32: Mapping[str, Any] = {"config": {"dtype": "float32"}, "files": {"model.safetensors": weights("F32")}}
AWQ = {
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
}
PARTS = "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}"
LINE = "INFO 01-01 00:00:00 x.py:1] "
OLD_DUMP = "INFO 01-01 00:00:00 llm_engine.py:1] Initializing an LLM engine (v{}) with config: model='m', {}\n"
CASES: Mapping[str, Case] = {
    "vllm-18751": _upgrade("0.8.5", "0.9.1", "--dtype auto", **F32),
    "vllm-17929": _upgrade("0.8.5", "0.9.0"),
    "vllm-18340": _flags("0.8.5", "--dtype float32", "", **F32),
    "vllm-15241": _upgrade("0.7.3", "0.8.0"),
    "vllm-6612": Case(
        engine="vllm",
        before=vllm("0.5.3", config=AWQ, log=OLD_DUMP.format("0.5.3", "quantization=awq, dtype=torch.float16")),
        after=vllm(
            "0.5.4",
            config=AWQ,
            log="The model is convertible to awq_marlin during runtime. Using awq_marlin kernel.\n"
            + OLD_DUMP.format("0.5.4", "quantization=awq_marlin, dtype=torch.float16"),
        ),
    ),
    "vllm-7176": Case(
        engine="vllm",
        before=vllm("0.5.4", pin=("env.VLLM_ATTENTION_BACKEND",)),
        after=vllm("0.5.4", env={"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, packages={"flashinfer-python": "0.1.3"}),
    ),
    "vllm-56066": Case(
        engine="vllm",
        before=vllm("0.32.0.dev41+g1b2c3d4e5", config={"rope_theta": 600000, "rope_scaling": None}),
        after=vllm("0.32.0.dev41+ga8b70304d", config={"rope_theta": 600000, "rope_scaling": None}),
    ),
    "vllm-42354": Case(
        engine="vllm",
        before=vllm("0.14.0", packages={"nvidia-nccl-cu12": "2.28.9"}, torch=True, pin=("libraries.*",)),
        after=vllm(
            "0.14.0",
            packages={"nvidia-nccl-cu12": "2.28.9"},
            torch=True,
            libraries={"usr/lib/libnccl.so.2.28.3": "libnccl.so.2"},
            env={"LD_LIBRARY_PATH": "{home}/usr/lib"},
        ),
    ),
    "gpustack-4678": Case(
        engine="vllm",
        before=vllm(
            "0.14.1",
            libraries={"lib/libcuda.so.580.65.06": "libcuda.so.1"},
            env={"LD_LIBRARY_PATH": "{home}/lib"},
            pin=("libraries.*",),
        ),
        after=vllm(
            "0.15.0",
            libraries={
                "lib/libcuda.so.580.65.06": "libcuda.so.1",
                "usr/local/cuda/compat/libcuda.so.575.57.08": "libcuda.so.1",
            },
            env={"LD_LIBRARY_PATH": "{home}/usr/local/cuda/compat:{home}/lib"},
        ),
    ),
    "vllm-7419": Case(
        engine="vllm",
        before=vllm("0.5.4", log="INFO 01-01 00:00:00 selector.py:1] Using Flashinfer backend.\n"),
        after=vllm("0.5.4", log="INFO 01-01 00:00:00 selector.py:1] Using Flash Attention backend.\n"),
    ),
    "vllm-50292": Case(
        engine="vllm",
        before=vllm("0.12.0", env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"}),
        after=vllm(
            "0.26.0",
            env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"},
            log="INFO 01-01 00:00:00 cuda.py:1] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].\n",
        ),
    ),
    "vllm-7845": _flags("0.6.3", "", "--enable-prefix-caching"),
    "vllm-8301": Case(
        engine="vllm",
        before=vllm("0.6.0", "--tokenizer-mode auto", prompts=True),
        after=vllm("0.6.0", "--tokenizer-mode mistral", {"mistral-common": "1.4.0"}, prompts=True),
    ),
    "vllm-9523": Case(
        engine="vllm",
        before=vllm("0.6.3", packages={"compressed-tensors": "0.7.1"}),
        after=vllm("0.6.3", packages={"compressed-tensors": "0.6.0"}),
    ),
    "vllm-10785": Case(
        engine="vllm",
        before=vllm("0.6.4", packages={"outlines": "0.0.46"}),
        after=vllm("0.6.5", packages={"xgrammar": "0.1.5"}),
    ),
    "vllm-11447": Case(
        engine="vllm",
        before=vllm("0.6.3", "--max-model-len 4096", config={"max_position_embeddings": 65536}),
        after=vllm(
            "0.6.3",
            "--max-model-len 8192",
            config={"max_position_embeddings": 65536},
            log="INFO 01-01 00:00:00 config.py:1] Chunked prefill is enabled with max_num_batched_tokens=512.\n",
        ),
    ),
    "vllm-17685": Case(
        engine="vllm", before=vllm("0.8.2", env={"VLLM_USE_V1": "0"}, pin=("env.VLLM_USE_V1",)), after=vllm("0.8.2")
    ),
    "vllm-2742": _flags(
        "0.6.0", "--tensor-parallel-size 2 --disable-custom-all-reduce", "--tensor-parallel-size 2", gpu={"count": "2"}
    ),
    "vllm-41758": _flags(
        "0.20.1",
        "",
        "--speculative-config.method ngram --speculative-config.num_speculative_tokens 4 "
        "--speculative-config.prompt_lookup_min 2 --speculative-config.prompt_lookup_max 5",
    ),
    "vllm-53366": _flags(
        "0.30.0",
        "--speculative-config.method mtp --speculative-config.num_speculative_tokens 7",
        "--speculative-config.method mtp --speculative-config.num_speculative_tokens 9",
    ),
    "vllm-38652": _flags("0.18.1", "--kv-cache-dtype auto", "--kv-cache-dtype fp8"),
    "vllm-40765": _flags("0.19.1", "", "--load-format runai_streamer"),
    "vllm-42182": _flags("0.20.1", "--no-async-scheduling", "--async-scheduling"),
    "vllm-27878": _flags("0.11.0", "--no-async-scheduling", "--async-scheduling"),
    "vllm-39614": _flags(
        "0.18.1", "--chat-template-content-format string", "", prompts=True, files={"chat_template.jinja": PARTS}
    ),
    "vllm-51187": Case(
        engine="vllm",
        before=vllm("0.30.0", "--max-num-seqs 8", env={"VLLM_BATCH_INVARIANT": "1"}),
        after=vllm("0.30.0", "--max-num-seqs 256", env={"VLLM_BATCH_INVARIANT": "1"}),
    ),
    "vllm-55238": _flags("0.31.0", "--enforce-eager", ""),
    "trl-4163": _flags("0.10.2", "--logprobs-mode raw_logprobs", "--logprobs-mode processed_logprobs"),
    "vllm-5952": _flags(
        "0.6.0", "--enable-chunked-prefill=False", "--enable-chunked-prefill --max-num-batched-tokens 512"
    ),
    "vllm-5898": _flags("0.20.1", "--max-num-seqs 256", "--max-num-seqs 256"),
    "vllm-2891": Case(
        engine="vllm",
        before=vllm("0.6.0"),
        after=vllm("0.6.0", "-tp 4", gpu={"count": "4"}),
    ),
    "vllm-1721": Case(
        engine="vllm",
        before=vllm("0.2.2+cu118", packages={"torch": "2.1.0+cu118"}, site={"torch/version.py": "cuda = '11.8'\n"}),
        after=vllm("0.2.2+cu121", packages={"torch": "2.1.0+cu121"}, site={"torch/version.py": "cuda = '12.1'\n"}),
    ),
    "vllm-26859": Case(
        engine="vllm",
        before=vllm(
            "0.11.0",
            packages={"flashinfer-python": "0.4.0"},
            log=LINE + "Using FlashInfer for top-p & top-k sampling.\n",
        ),
        after=vllm(
            "0.11.1",
            packages={"flashinfer-python": "0.4.1"},
            log=LINE
            + "FlashInfer is available. Falling back to the PyTorch-native implementation of top-p & top-k sampling.\n",
        ),
    ),
    "vllm-30598": Case(
        engine="vllm",
        before=vllm("0.12.0", "--enable-lora", log=LINE + "Using Triton backend\n"),
        after=vllm("0.13.0", "--enable-lora", log=LINE + "Using Marlin backend\n"),
    ),
    "vllm-30969": _upgrade("0.11.0", "0.11.1"),
    "vllm-42801": _upgrade("0.10.2", "0.20.2", flags="-tp 8 --dtype bfloat16", gpu={"count": "8"}),
    "vllm-5280": _upgrade("0.4.2", "0.4.3"),
    "vllm-42624": Case(
        engine="vllm",
        before=vllm(
            "0.20.1",
            packages={"transformers": "5.1.0"},
            config={"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        ),
        after=vllm(
            "0.20.1",
            packages={"transformers": "4.57.6"},
            config={"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        ),
    ),
    "vllm-23813": Case(
        engine="vllm",
        before=vllm(
            "0.10.1", "--kv-cache-dtype fp8 -tp 4", gpu={"count": "8"}, log=LINE + "Using FlashAttention version 2\n"
        ),
        after=vllm(
            "0.10.1", "--kv-cache-dtype fp8 -tp 8", gpu={"count": "8"}, log=LINE + "Using FlashAttention version 3\n"
        ),
    ),
    "euroeval-1488": Case(
        engine="vllm",
        before=vllm("0.14.1", env={"VLLM_ATTENTION_BACKEND": "FLASHINFER"}),
        after=vllm("0.14.1", "--attention-backend FLASHINFER"),
    ),
    "flashinfer-1645": Case(
        engine="vllm",
        before=vllm(
            "0.10.1",
            packages={"flashinfer-python": "0.2.14"},
            env={"VLLM_USE_TRTLLM_ATTENTION": "0", "VLLM_ATTENTION_BACKEND": "TRITON_ATTN_VLLM_V1"},
            pin=("env.VLLM_USE_TRTLLM_ATTENTION",),
        ),
        after=vllm(
            "0.10.1",
            packages={"flashinfer-python": "0.2.14"},
            env={"VLLM_USE_TRTLLM_ATTENTION": "1", "VLLM_ATTENTION_BACKEND": "CUTLASS_MLA"},
        ),
    ),
    "flashinfer-4337": _flags(
        "0.30.0", "", "", packages={"flashinfer-python": "0.6.16", "flashinfer-jit-cache": "0.6.16+cu130"}
    ),
    "open-r1-684": Case(
        engine="vllm",
        before=vllm("0.8.5", packages={"torch": "2.6.0", "flash-attn": "2.7.4.post1"}),
        after=vllm("0.8.5", packages={"torch": "2.6.0", "flash-attn": "2.8.0.post2"}),
    ),
    "localai-9557": Case(
        engine="vllm",
        before=vllm("0.19.0", packages={"torch": "2.7.0", "flash-attn": "2.8.3+cu12torch2.7"}),
        after=vllm("0.19.1", packages={"torch": "2.10.0", "flash-attn": "2.8.3+cu12torch2.7"}),
    ),
    "tokenspeed-284": Case(
        engine="vllm",
        before=vllm(
            "0.20.1",
            packages={"flashinfer-python": "0.6.11", "flashinfer-jit-cache": "0.6.11+cu130"},
            pin=("env.FLASHINFER_DISABLE_VERSION_CHECK",),
        ),
        after=vllm(
            "0.20.1",
            packages={"flashinfer-python": "0.6.11", "flashinfer-jit-cache": "0.6.9+cu130"},
            env={"FLASHINFER_DISABLE_VERSION_CHECK": "1"},
        ),
    ),
}
