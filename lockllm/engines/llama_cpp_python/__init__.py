"""llama-cpp-python's server: what it is. `python -m llama_cpp.server`, over the llama.cpp inside; read at 0.3.36."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Shape

_MODULE = (Shape(subcommand="serve"),)

IDENTITY = Identity(
    name="llama-cpp-python",
    module=f"{__name__}.engine",
    modules={"llama_cpp.server": _MODULE, "llama_cpp.server.__main__": _MODULE},
    starts=("python3", "-m", "llama_cpp.server"),
)
