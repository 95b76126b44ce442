"""vLLM's rules for dtype, quantization, KV-cache dtype and tokenizer mode.

Read from `config/model.py`, `platforms/*.py` and `model_executor/layers/quantization` of 0.6.0 to 0.33.0.
"""

from __future__ import annotations

import re
from typing import Any

from lockllm.engines.kernel import gpu, renderers
from lockllm.engines.vllm.case import Case, Unknown

_FLOATS = frozenset({"float16", "bfloat16", "float32"})
_SEE = "start the server with VLLM_SERVER_DEV_MODE=1, or name its log with --log"
_NO_FILES = Unknown("the checkpoint's files were not seen", "name them with --checkpoint")
_NO_GPU = Unknown("it depends on the GPU, which is not known", "name host.gpu in llm.toml, or observe on the host")
_NO_HALF = re.compile(r"Gemma[23](?!n)|Glm4ForCausalLM|Plamo2")
"""Architectures whose model types refuse float16 since 0.9.1 (plamo2 until 0.19)."""


def dtype(now: Case) -> Any:
    """`auto`: the checkpoint's own; float32 is taken down; what the device lacks is replaced (0.9.1 and later)."""
    if not now.looked:
        return _NO_FILES
    declared = now.declared("checkpoint.dtype")
    if declared is None:
        declared = _undeclared(now)
    if isinstance(declared, Unknown):
        return declared
    if declared not in _FLOATS:
        return Unknown(f"what `auto` makes of a checkpoint of {declared} was not read", "set --dtype")
    return _older(now, declared) if not now.since("0.9.1") else _newer(now, declared)


def _undeclared(now: Case) -> Any:
    """No dtype in config.json: float32 up to 0.9.0; later the widest of the tensors' own."""
    if now.declared("checkpoint.format") == "gguf":
        return Unknown("a GGUF declares no dtype", "set --dtype")
    found = now.declared("checkpoint.tensor_dtypes")
    if not now.since("0.9.1"):
        return "float32"
    if isinstance(found, (list, tuple)):
        names = {str(name).lower() for name in found}
        spelled = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
        plain = {spelled.get(name, name) for name in names} & _FLOATS
        if len(plain) == 1:
            return plain.pop()
        if plain:
            return "float32"
    return Unknown("config.json declares no dtype, and the tensors were not seen", "set --dtype")


def _older(now: Case, declared: str) -> Any:
    architecture = str(now.declared("checkpoint.architecture") or "")
    if declared != "float32":
        return declared
    if re.match(r"Gemma[23]", architecture) and not now.since("0.8.1"):
        return "bfloat16"
    return "bfloat16" if architecture.startswith("Plamo2") and now.since("0.8.0") else "float16"


def _newer(now: Case, declared: str) -> Any:
    supported = _supported(now)
    if supported is None:
        return declared if declared != "float32" else _NO_GPU
    half = "float16" in supported
    preferred = "float16" if now.kind == "pooling" and half else supported[0]
    if declared == "float32":
        if now.kind is None and half and supported[0] != "float16":
            return Unknown("it depends on whether the model generates or pools", "set --dtype")
        return preferred
    return declared if declared in supported else preferred


def _supported(now: Case) -> list[str] | None:
    """The dtypes of the device, best first; None where the device is not known."""
    platform, generation = now.platform, gpu.capability(now.host)
    if platform in ("cpu", "rocm"):
        names = ["bfloat16", "float16", "float32"]
    elif platform == "cuda" and generation is not None:
        names = ["bfloat16", "float16", "float32"] if generation >= 8.0 else ["float16", "float32"]
    else:
        return None
    architecture = str(now.declared("checkpoint.architecture") or "")
    refuses = _NO_HALF.match(architecture) and not (architecture.startswith("Plamo2") and now.since("0.20.0"))
    return [name for name in names if name != "float16"] if refuses else names


def quantization(now: Case) -> Any:
    """The checkpoint's method, rewritten: gptq and awq become the kernels that can load them."""
    method = now.declared("quantization.method")
    if method is None:
        return (
            _NO_FILES if not now.looked else Unknown("the checkpoint's quantization was not seen", "name --checkpoint")
        )
    if method in ("none", "bitsandbytes", "compressed-tensors"):
        return method
    architecture = str(now.declared("checkpoint.architecture") or "")
    if method == "fp8" and "DeepseekV4" not in architecture:
        return method
    if method == "gptq":
        return _gptq(now)
    if method == "awq":
        return _awq(now)
    return Unknown(f"what vLLM makes of {method} depends on the layers", _SEE)


def _gptq(now: Case) -> Any:
    if now.since("0.22.0"):
        return "auto_gptq"
    bits, symmetric, generation = (
        now.declared("quantization.bits"),
        now.declared("quantization.symmetric"),
        _nvidia(now),
    )
    if generation is None or bits is None or symmetric is None:
        return _NO_GPU if generation is None else Unknown("bits or symmetry of the checkpoint were not seen", _SEE)
    if now.platform == "cpu" and now.since("0.14.0") and bits == 8 and symmetric:
        return Unknown("which kernels a CPU has for 8 bits was not read", _SEE)
    kernels = bits == 4 if now.platform == "cpu" and now.since("0.14.0") else _marlin(now, generation)
    return "gptq_marlin" if kernels and bits in (4, 8) and symmetric and _group(now) else "gptq"


def _awq(now: Case) -> Any:
    if now.since("0.24.0"):
        return Unknown("AWQ on CPU", _SEE) if now.platform == "cpu" else "auto_awq"
    bits, symmetric, generation = (
        now.declared("quantization.bits"),
        now.declared("quantization.symmetric"),
        _nvidia(now),
    )
    if generation is None or bits is None or symmetric is None:
        return _NO_GPU if generation is None else Unknown("bits or zero points of the checkpoint were not seen", _SEE)
    if (now.platform == "cpu" and now.since("0.12.0")) or (now.platform == "rocm" and now.since("0.19.0")):
        return Unknown(f"what AWQ becomes on {now.platform} was not read", _SEE)
    return "awq_marlin" if _marlin(now, generation) and bits == 4 and not symmetric and _group(now) else "awq"


def _marlin(now: Case, generation: float) -> bool:
    """Whether the device runs marlin kernels: from 8.0 on, Turing (7.5) since 0.14.0."""
    return generation >= (7.5 if now.since("0.14.0") else 8.0)


def _nvidia(now: Case) -> float | None:
    """The compute capability; 0 where there is no NVIDIA GPU, None where that is not known."""
    if now.platform in ("rocm", "cpu"):
        return 0.0
    return gpu.capability(now.host)


def _group(now: Case) -> bool:
    return now.declared("quantization.group_size") in (None, -1, 32, 64, 128)


def kv_cache_dtype(now: Case) -> Any:
    """`auto`: what a ModelOpt checkpoint asks for (0.12 and later), else the dtype of the model.

    Sparse MLA (DeepSeek V3.2 and V4) has a layout of its own: `auto` became fp8_ds_mla for V3.2 at 0.11.0 and plain rows
    later; for V4 the attention backend decides, which is chosen by GPU at start (`models/deepseek_v4/attention.py`).
    """
    if not now.looked:
        return _NO_FILES
    architecture = str(now.declared("checkpoint.architecture") or "")
    if renderers.SPARSE_MLA.match(architecture):
        return Unknown(f"for {architecture} the attention backend decides between fp8_ds_mla and plain rows", _SEE)
    asked = now.declared("quantization.kv_cache")
    if asked not in (None, "none", "auto", "bfloat16", "float16"):
        if now.declared("quantization.method") == "modelopt" and now.since("0.12.0"):
            return {"fp8": "fp8_e4m3"}.get(str(asked), str(asked))
        if now.declared("quantization.method") == "modelopt":
            return Unknown("what this release makes of the checkpoint's KV-cache type was not read", _SEE)
        return Unknown("the checkpoint brings scales for its KV cache: the layers decide", _SEE)
    return now.said("serve.dtype") or Unknown("it is that of the model, and serve.dtype is not known", "set --dtype")


def tokenizer_mode(now: Case) -> Any:
    """`auto`: mistral for repositories of Mistral's own format, else the Hugging Face tokenizer."""
    if not now.looked:
        return _NO_FILES
    names = [path[2] for path in now.checkpoint if path[:2] == ("checkpoint", "files") and len(path) == 3]
    mistral = any(re.match(r"tekken\.json|tokenizer\.model\.v", name) for name in names)
    architecture = str(now.declared("checkpoint.architecture") or "")
    own = renderers.vllm_mode(now.version, architecture)
    if own:
        return own
    if own is None or mistral or re.match(r"Pixtral|Voxtral|Mistral3|Ministral|Cohere", architecture):
        return Unknown("vLLM picks a tokenizer of its own for some repositories", "set --tokenizer-mode")
    return "hf"
