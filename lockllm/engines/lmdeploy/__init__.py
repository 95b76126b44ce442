"""LMDeploy: what it is. `lmdeploy serve api_server`; start log; defaults and rules from 0.9 to 0.18."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Shape

_CLI = (Shape(("serve", "api_server")),)

IDENTITY = Identity(
    name="lmdeploy",
    module=f"{__name__}.engine",
    programs={"lmdeploy": _CLI},
    modules={"lmdeploy": _CLI, "lmdeploy.serve.openai.api_server": (Shape(subcommand="api_server"),)},
    starts=("lmdeploy", "serve", "api_server"),
    command_images=(r"(^|/)openmmlab/lmdeploy",),
)
