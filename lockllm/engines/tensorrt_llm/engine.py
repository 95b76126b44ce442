"""TensorRT-LLM: `trtllm-serve`, its YAML file over its flags, `/version`, start logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockllm.engines import Form, Names
from lockllm.engines.kernel.packages import besides
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.shown.served import Shows
from lockllm.engines.tensorrt_llm.command import command, where
from lockllm.engines.tensorrt_llm.given import FLAG, explicit_template, given
from lockllm.engines.tensorrt_llm.given import wants_files as _wants_files
from lockllm.engines.tensorrt_llm.options import FILES
from lockllm.engines.tensorrt_llm.rules import NEWEST, checks, effective, omitted
from lockllm.engines.tensorrt_llm.shown import PROBES, detect, from_http, from_log

__all__ = [
    "checks", "command", "detect", "distributions", "effective", "explicit_template", "from_http", "from_log", "given", "name",
    "named_files", "newest", "omitted", "packages", "probes", "recognise", "serves", "template_flags", "wants_files", "where",
]  # fmt: skip

name = "tensorrt-llm"
serves = Shows(ids=True, shortened=True)
template_flags = {("serve", "chat_template"): FLAG}
named_files = {("serve", "args", each): Names() for each in FILES}
newest = NEWEST
probes = PROBES
distributions = ("tensorrt-llm",)
packages = besides(
    *"""
    torch tensorrt transformers tokenizers flashinfer-python triton nvidia-cutlass-dsl nvidia-modelopt xgrammar
    llguidance nvidia-nccl-cu12 nvidia-nccl-cu13 nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-cublas-cu12
    openai-harmony cuda-python
    """.split()
)


def recognise(argv: Sequence[str]) -> Form | None:
    """The launch form that an unwrapped command line is, or None."""
    return _recognise(argv, name)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """Config files that the command names, as it spells them."""
    return _wants_files(form)
