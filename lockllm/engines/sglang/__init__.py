"""SGLang: what it is. Command line, YAML file, variables, endpoints, log and rules are read from 0.3.4 to 0.5.23."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Shape, Weights

_CLI = (Shape(("serve",)),)

IDENTITY = Identity(
    name="sglang",
    module=f"{__name__}.engine",
    programs={"sglang": _CLI},
    modules={
        "sglang.launch_server": (Shape(subcommand="serve"),),
        "sglang.cli.main": _CLI,
        "sglang": _CLI,
        "dynamo.sglang": (Shape(wrapper="dynamo", subcommand="serve"),),
        "sglang_router.launch_server": (Shape(wrapper="sglang-router", subcommand="serve"),),
    },
    starts=("sglang", "serve"),
    command_images=(r"(^|/)lmsysorg/sglang", r"(^|/)rocm/sgl"),
    image=Image(name="lmsysorg/sglang:v{}", port=30000, own_machine_only=True),
    embedded=("-packages/sgl_kernel/",),
    titles=("sglang::",),
    log_start=rb"server_args=(?:ServerArgs\(|\{)",
    package_index="sglang",
    no_sampling_seed=True,
    weights=Weights(globs=True),
    shares_gpus=lambda held: held.get(("serve", "args", "enable_dp_attention")) is True,
)
