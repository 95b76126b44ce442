"""LMDeploy: `lmdeploy serve api_server`; start log; defaults and rules from 0.9 to 0.18."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockllm.engines import Form, Names
from lockllm.engines.kernel.packages import besides
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.lmdeploy.command import command, where
from lockllm.engines.lmdeploy.given import FLAG, given
from lockllm.engines.lmdeploy.rules import NEWEST, checks, effective, omitted
from lockllm.engines.lmdeploy.shown import PROBES, detect, from_http, from_log
from lockllm.engines.shown.served import Shows

__all__ = [
    "checks", "command", "detect", "distributions", "effective", "from_http", "from_log", "given", "name", "named_files", "newest",
    "omitted", "packages", "probes", "recognise", "serves", "template_flags", "wants_files", "where",
]  # fmt: skip

name = "lmdeploy"
serves = Shows(ids=True, lists_all=True)
named_files = {
    ("serve", "generation_config"): Names(or_name=True, inside="generation_config.json"),
    ("serve", "chat_template"): Names(or_name=True),
}
template_flags = {("serve", "chat_template"): FLAG}
newest = NEWEST
probes = PROBES
distributions = ("lmdeploy",)
packages = besides(
    *"""
    torch torchvision transformers tokenizers triton tilelang apache-tvm-ffi flash-linear-attention xgrammar
    openai-harmony dlblas nvidia-nccl-cu12 nvidia-cublas-cu12 nvidia-nccl-cu13 nvidia-cublas-cu13 flash-attn
    sentencepiece tiktoken numpy peft
    """.split()
)


def recognise(argv: Sequence[str]) -> Form | None:
    """The launch form that an unwrapped command line is, or None."""
    return _recognise(argv, name)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """LMDeploy names no config file."""
    return ()
