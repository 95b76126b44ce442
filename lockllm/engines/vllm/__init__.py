"""vLLM: what it is. Its command line, defaults, rules, endpoints and start log are read from 0.6.0 to 0.33.0."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lockllm.engines.protocol import Identity, Image, Prompts, Shape, Weights

_CLI = (Shape(("serve",)),)
_MODULE = ("python3", "-m", "vllm.entrypoints.openai.api_server")
"""What vLLM's images ran before 0.11.1, with the model as an option."""
_OFFICIAL = re.compile(r"(^|/)vllm/vllm-openai$")
_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?![\d.])")


def _image_command(argv: Sequence[str], image: str, tag: str) -> tuple[str, ...]:
    """The words that an image of vLLM puts before these.

    Those of `vllm/vllm-openai` ran the API server's module up to 0.11.0, which reads no model as an argument, and
    `vllm serve` from 0.11.1 on. An image of another name, or with a tag that is no release, is known by what it is
    given: `--model NAME`.
    """
    release = _RELEASE.match(tag) if _OFFICIAL.search(image) else None
    module = any(word.partition("=")[0] == "--model" for word in argv)
    if release is not None:
        module = tuple(map(int, release.groups(default="0"))) < (0, 11, 1)
    return _MODULE if module else IDENTITY.starts


IDENTITY = Identity(
    name="vllm",
    label="vLLM",
    module=f"{__name__}.engine",
    programs={"vllm": _CLI, "vllm-rs": _CLI},
    modules={
        "vllm.entrypoints.openai.api_server": (Shape(subcommand="serve"),),
        "vllm.entrypoints.api_server": (Shape(subcommand="api_server"),),
        "vllm.entrypoints.cli.main": _CLI,
        "vllm.entrypoints.cli": _CLI,
        "vllm": _CLI,
        "dynamo.vllm": (Shape(wrapper="dynamo", subcommand="serve"),),
    },
    starts=("vllm", "serve"),
    image_command=_image_command,
    images=(
        r"(^|/)vllm/vllm-(openai|tpu|cpu|rocm|xpu|gaudi|neuron)[\w-]*$",
        r"(^|/)vllm-(cpu-release-repo|release-repo|ascend)$|(^|/)vllm-([\w.-]+-)?openai[\w.-]*$",
        r"(^|/)rhaiis/vllm-[\w.-]+$",
        r"(^|/)substratusai/vllm$",
    ),
    command_images=(r"(^|/)rocm/vllm",),
    port=8000,
    image=Image(name="vllm/vllm-openai:v{}", for_cpu="public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v{}"),
    embedded=("-packages/vllm/",),
    titles=("vllm::",),
    log_start=rb"vLLM API server version \d|\xe2\x96\x88[^\n]{0,200}\bversion \d",
    package_index="vllm",
    generation_words=("auto", "vllm"),
    no_sampling_seed=True,
    weights=Weights(globs=True, index_filters=True, consolidated_since=(0, 12)),
    hidden_settings=frozenset({("serve", "attention_backend")}),
    prompts=Prompts(
        rule="processor_without_tools",
        oldest=(0, 9),
        newest=(0, 33),
        mistral_common=True,
        mistral_over_flag=True,
        mistral_by_files=(0, 20),
        content_format="loops",
        joint="\n",
        wraps=True,
        endpoint="/tokenize",  # 0.9 to 0.33
        asks=("finished", "tools", "thinking_off"),
    ),
)
