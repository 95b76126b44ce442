"""llama.cpp's server: what it is. `llama-server`, `llama serve`, and the same server inside xllamacpp."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape, Weights

IDENTITY = Identity(
    name="llama.cpp",
    label="llama.cpp",
    module=f"{__name__}.engine",
    programs={"llama-server": (Shape(),), "llama": (Shape(("serve",)), Shape(("server",)))},
    program_paths=(
        (r"(\A|/)llama-server([-_.][\w.-]+)?\Z", Shape()),
        (r"llama[._-]?cpp.*/server\Z", Shape()),
    ),
    starts=("llama-server",),
    images=(r"(^|/)(ggml-org|ggerganov)/llama\.cpp$",),
    image_tags=r"server|b?\d*-?server",
    port=8080,
    image=Image(
        name="ghcr.io/ggml-org/llama.cpp:server-cuda-{}",
        for_cpu="ghcr.io/ggml-org/llama.cpp:server-{}",
        port=8080,
        own_machine_only=True,
    ),
    embedded=("-packages/xllamacpp/", "/libllama.so"),
    log_start=rb"(?:^|\s)build: \d+ \([0-9a-z]+\) with |build_info: b\d+-|llama_server: initializing \.\.\.",
    command_names_model=False,
    shows_download=True,
    weights=Weights(gguf_only=True),
    prompts=Prompts(
        rule="gguf_or_chatml",
        one_line_end=True,
        own_renderer="llama.cpp renders with a Jinja of its own",
        compare="compare POST /apply-template of the running server",
        clock_arguments=("date_string", "datetime"),
        endpoint="/apply-template",
        asks=None,
    ),
)
