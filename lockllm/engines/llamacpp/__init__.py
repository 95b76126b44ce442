"""llama.cpp's server: what it is. `llama-server`, `llama serve`, and the same server inside xllamacpp."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Shape

IDENTITY = Identity(
    name="llama.cpp",
    module=f"{__name__}.engine",
    programs={"llama-server": (Shape(),), "llama": (Shape(("serve",)), Shape(("server",)))},
    program_paths=(
        (r"(\A|/)llama-server([-_.][\w.-]+)?\Z", Shape()),
        (r"llama[._-]?cpp.*/server\Z", Shape()),
    ),
    starts=("llama-server",),
    images=(r"(^|/)(ggml-org|ggerganov)/llama\.cpp$",),
    image_tags=r"server|b?\d*-?server",
)
