"""Text Generation Inference: launcher, router and shards; `/info`; start log; rules read at v3.3.7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockllm.engines import Form, Names
from lockllm.engines.kernel.packages import besides
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.shown.served import Shows
from lockllm.engines.tgi.command import command, where
from lockllm.engines.tgi.given import FLAG, given
from lockllm.engines.tgi.rules import NEWEST, checks, effective, omitted
from lockllm.engines.tgi.shown import PROBES, detect, from_http, from_log

__all__ = [
    "checks", "command", "detect", "distributions", "effective", "from_http", "from_log", "given", "name", "named_files", "newest",
    "omitted", "packages", "probes", "recognise", "serves", "template_flags", "wants_files", "where",
]  # fmt: skip

name = "tgi"
serves = Shows(models={"/info": "model_id"}, ids=True)
named_files = {("serve", "args", "tokenizer_config_path"): Names()}
template_flags = {("serve", "args", "tokenizer_config_path"): FLAG}
newest = NEWEST
probes = PROBES
distributions = ("text-generation-server",)
packages = besides(
    *"""
    torch transformers tokenizers safetensors flashinfer-python triton exllamav2 outlines kernels bitsandbytes
    compressed-tensors nvidia-nccl-cu12 nvidia-cudnn-cu12 attention moe quantization rotary
    """.split()
)


def recognise(argv: Sequence[str]) -> Form | None:
    """The launch form that an unwrapped command line is, or None."""
    return _recognise(argv, name)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """TGI names no config file."""
    return ()
