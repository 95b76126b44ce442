"""Text Generation Inference: what it is. Launcher, router and shards; `/info`; start log; rules read at v3.3.7."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Shape

IDENTITY = Identity(
    name="tgi",
    module=f"{__name__}.engine",
    programs={
        "text-generation-launcher": (Shape(),),
        "text-generation-router": (Shape(subcommand="router"),),
        "text-generation-server": (Shape(("serve",), subcommand="shard"),),
        "tgi-entrypoint.sh": (Shape(),),
    },
    starts=("text-generation-launcher",),
    images=(r"(^|/)(huggingface-)?text-generation-inference[\w.-]*$", r"(^|/)tgi-gaudi$"),
)
