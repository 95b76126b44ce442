"""LMDeploy: what it is. `lmdeploy serve api_server`; start log; defaults and rules from 0.9 to 0.18."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape

_OWN_FAMILIES = (
    "internlm|internvl|vicuna|wizardlm|llava|baichuan|chatglm|codellama|llama-?2|cogvlm|yi-vl|deepseek-vl|puyu|ultra[cl]m|"
    "solar"
)
"""Words of a path for which some release of LMDeploy has a template of its own, in code: `model.py`."""
_CLI = (Shape(("serve", "api_server")),)

IDENTITY = Identity(
    name="lmdeploy",
    label="LMDeploy",
    module=f"{__name__}.engine",
    programs={"lmdeploy": _CLI},
    modules={"lmdeploy": _CLI, "lmdeploy.serve.openai.api_server": (Shape(subcommand="api_server"),)},
    starts=("lmdeploy", "serve", "api_server"),
    command_images=(r"(^|/)openmmlab/lmdeploy",),
    port=23333,
    image=Image(name="openmmlab/lmdeploy:v{}", port=23333),
    embedded=("-packages/lmdeploy/",),
    log_start=rb"input backend=\w+, backend_config=",
    package_index="lmdeploy",
    generation_words=("auto", "lmdeploy"),
    no_sampling_seed=True,
    shares_gpus=lambda held: True,
    prompts=Prompts(rule="tokenizer", newest=(0, 18), own_families=_OWN_FAMILIES),
)
