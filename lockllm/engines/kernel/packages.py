"""Distributions that every Python engine takes its prompts, tokens, grammars and numbers from, where they are installed."""

from __future__ import annotations

RENDERS = ("jinja2", "openai-harmony", "mistral-common", "transformers")
"""Text of a prompt: templates, and renderers of single model families."""
TOKENIZES = (
    "tokenizers", "fastokens", "tiktoken", "sentencepiece", "regex",
)  # fmt: skip
"""Tokens: tokenizers, what replaces them where it is installed (vLLM and SGLang take `fastokens`), what their rules run on."""
STRUCTURES = (
    "xgrammar", "llguidance", "outlines", "outlines-core", "lm-format-enforcer", "cachetools",
    "diskcache",
)  # fmt: skip
"""Structured output: which tokens may be drawn. `cachetools` and `diskcache` hold compiled grammars for vLLM and outlines."""
SEES = (
    "pillow", "pillow-simd", "torchvision", "torchaudio", "torchcodec", "opencv-python", "opencv-python-headless", "av",
    "decord", "qwen-vl-utils",
)  # fmt: skip
"""Images, sound and video as the model gets them."""
COMPUTES = (
    "torch", "numpy", "einops", "safetensors", "peft", "kernels", "torchao", "liger-kernel", "causal-conv1d", "mamba-ssm",
    "flash-linear-attention", "fla-core", "flash-attn", "flash-attn-3", "flash-attn-4", "sageattention", "tilelang",
    "apache-tvm-ffi", "deep-gemm", "auto-round", "gptqmodel", "auto-gptq", "autoawq", "optimum", "fbgemm-gpu",
    "fbgemm-gpu-genai", "quack-kernels", "intel-extension-for-pytorch", "amd-aiter", "torch-npu", "torch-xla",
)  # fmt: skip
"""Numbers: kernels that an engine or a model's own code takes where they are there."""
BELOW = (*RENDERS, *TOKENIZES, *STRUCTURES, *SEES, *COMPUTES)


def besides(*own: str) -> tuple[str, ...]:
    """The distributions that one engine names itself, and those below every engine that it does not name."""
    return tuple(dict.fromkeys((*own, *BELOW)))
