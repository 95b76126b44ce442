"""llama-cpp-python's server: what it is. `python -m llama_cpp.server`, over the llama.cpp inside; read at 0.3.36."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape, Weights

_MODULE = (Shape(subcommand="serve"),)

IDENTITY = Identity(
    name="llama-cpp-python",
    label="llama-cpp-python",
    module=f"{__name__}.engine",
    modules={"llama_cpp.server": _MODULE, "llama_cpp.server.__main__": _MODULE},
    starts=("python3", "-m", "llama_cpp.server"),
    port=8000,
    image=Image(own_machine_only=True),
    embedded=("-packages/llama_cpp/",),
    log_start=rb"llama_model_loader: (?:loaded meta data with|Dumping metadata keys)",
    package_index="llama-cpp-python",
    command_names_model=False,
    weights=Weights(gguf_only=True),
    prompts=Prompts(rule="gguf_or_llama2"),
)
