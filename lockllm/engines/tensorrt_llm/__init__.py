"""TensorRT-LLM: what it is. `trtllm-serve`, its YAML file over its flags, `/version`, start logs."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape

_SERVE = (
    Shape(
        ("[serve]",),
        subcommand="serve",
        never=frozenset(
            {"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "embedding_serve", "--help"}
        ),
    ),
)

IDENTITY = Identity(
    name="tensorrt-llm",
    label="TensorRT-LLM",
    module=f"{__name__}.engine",
    programs={"trtllm-serve": _SERVE},
    modules={"tensorrt_llm.commands.serve": _SERVE},
    starts=("trtllm-serve", "serve"),
    command_images=(r"(^|/)nvidia/tensorrt-llm",),
    port=8000,
    image=Image(own_machine_only=True),
    embedded=("-packages/tensorrt_llm/",),
    package_index="tensorrt-llm",
    more_sizes=("context_parallel_size",),
    prompts=Prompts(rule="processor", newest=(1, 3)),
)
