"""Ollama: what it is. Server, runners and Modelfiles; endpoints; log; defaults from 0.5 to 0.33."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape, Weights

IDENTITY = Identity(
    name="ollama",
    label="Ollama",
    module=f"{__name__}.engine",
    programs={
        "ollama": (Shape(("serve",)), Shape(("start",), subcommand="serve"), Shape(("runner",)), Shape(("create",))),
        "ollama_llama_server": (Shape(subcommand="runner"),),
    },
    program_paths=((r"/lib/ollama/(.*/)?llama-server[^/]*\Z", Shape(subcommand="llama-server")),),
    starts=("ollama",),
    starts_alone=("serve",),
    images=(r"(^|/)ollama/ollama$|^ollama$",),
    own_registry=True,
    port=11434,
    image=Image(name="ollama/ollama:{}", for_cpu="ollama/ollama:{}", port=11434),
    workers=frozenset({"runner", "llama-server"}),
    log_start=rb"server config\"? env=",
    log_load=rb'msg="starting (?:runner|llama server|llama-server)" cmd=',
    layered_store=True,
    command_names_model=False,
    weights=Weights(gguf_only=True),
    prompts=Prompts(
        own_renderer="Ollama renders with code and templates of its own",
        compare="compare prompt token counts of the running server",
        clock_arguments=("date_string", "datetime"),
    ),
)
