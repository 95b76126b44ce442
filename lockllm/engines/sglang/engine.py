"""SGLang: command line, YAML file and variables; endpoints; start log; defaults and rules from 0.3.4 to 0.5.23."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockllm.engines import Form, Installed
from lockllm.engines.kernel.packages import besides
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.sglang.command import command, where
from lockllm.engines.sglang.findings import checks
from lockllm.engines.sglang.given import FLAG, explicit_template, given
from lockllm.engines.sglang.given import wants_files as _wants_files
from lockllm.engines.sglang.given import wants_more as _wants_more
from lockllm.engines.sglang.http import PROBES, detect, from_http
from lockllm.engines.sglang.installed_defaults import STATED
from lockllm.engines.sglang.omitted import omitted
from lockllm.engines.sglang.options import NAMED_FILES, NEWEST
from lockllm.engines.sglang.rules import effective
from lockllm.engines.shown.served import Shows
from lockllm.facts.observation import Reading

__all__ = [
    "checks",
    "command",
    "detect",
    "distributions",
    "effective",
    "explicit_template",
    "from_http",
    "from_log",
    "given",
    "installed",
    "name",
    "named_files",
    "newest",
    "omitted",
    "packages",
    "probes",
    "recognise",
    "renders_itself",
    "serves",
    "stated",
    "template_flags",
    "wants_files",
    "wants_more",
    "where",
]  # fmt: skip

name = "sglang"
_MODEL = ("/model_info", "/get_model_info", "/server_info", "/get_server_info")
serves = Shows(models=dict.fromkeys(_MODEL, "model_path"), versions=_MODEL, roots=True)
renders_itself = (".json",)
template_flags = {("serve", "chat_template"): FLAG}
named_files = NAMED_FILES
newest = NEWEST
stated = STATED
probes = PROBES
distributions = ("sglang",)
plugin_groups = ("sglang.srt.plugins", "sglang.srt.platforms")
"""Entry point groups whose distributions SGLang loads by itself; SGLANG_PLUGINS names some."""
packages = besides(
    *"""
    torch transformers tokenizers sgl-kernel sglang-kernel flashinfer-python flashinfer-cubin flashinfer-jit-cache
    triton xgrammar llguidance
    outlines torchao flash-attn flash-attn-4 compressed-tensors deep-gemm cuda-python nvidia-cutlass-dsl
    nvidia-cudnn-cu12 nvidia-cudnn-cu13 nvidia-nccl-cu12 nvidia-nccl-cu13 openai-harmony jinja2 sentencepiece tiktoken
    numpy vllm fastokens
    """.split()
)


def recognise(argv: Sequence[str]) -> Form | None:
    """The launch form that an unwrapped command line is, or None."""
    return _recognise(argv, name)


def installed(version: str, sources: Mapping[str, str]) -> Installed | None:
    """The options of a release that no table has, by the source of its package."""
    from lockllm.engines.sglang.installed_options import installed as read_source

    return read_source(version, sources)


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """What a start log shows. Its many patterns are compiled where there is one."""
    from lockllm.engines.sglang.log import from_log as read_log

    return read_log(lines)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """Config files that the command names, as it spells them."""
    return (*_wants_files(form), *_wants_more(form, {}))


def wants_more(form: Form, env: Mapping[str, str], files: Mapping[str, str]) -> Iterable[str]:
    """The chat template that the command or its YAML file names."""
    return _wants_more(form, files)
