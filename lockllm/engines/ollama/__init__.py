"""Ollama: what it is. Server, runners and Modelfiles; endpoints; log; defaults from 0.5 to 0.33."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Shape

IDENTITY = Identity(
    name="ollama",
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
)
