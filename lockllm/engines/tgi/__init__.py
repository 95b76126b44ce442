"""Text Generation Inference: what it is. Launcher, router and shards; `/info`; start log; rules read at v3.3.7."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape, Weights

IDENTITY = Identity(
    name="tgi",
    label="TGI",
    module=f"{__name__}.engine",
    programs={
        "text-generation-launcher": (Shape(),),
        "text-generation-router": (Shape(subcommand="router"),),
        "text-generation-server": (Shape(("serve",), subcommand="shard"),),
        "tgi-entrypoint.sh": (Shape(),),
    },
    starts=("text-generation-launcher",),
    images=(r"(^|/)(huggingface-)?text-generation-inference[\w.-]*$", r"(^|/)tgi-gaudi$"),
    port=3000,
    image=Image(
        name="ghcr.io/huggingface/text-generation-inference:{}",
        for_cpu="ghcr.io/huggingface/text-generation-inference:{}-intel-cpu",
        port=80,
    ),
    workers=frozenset({"shard", "router"}),
    log_start=rb"text_generation_launcher: Args \{",
    no_sampling_seed=True,
    weights=Weights(globs=True),
    prompts=Prompts(
        rule="json_files",
        newest=(3, 3),
        own_renderer="TGI renders with minijinja",
        compare="compare POST /chat_tokenize of the running server",
        endpoint="/chat_tokenize",
        asks=None,
        request={"model": "tgi"},
    ),
)
