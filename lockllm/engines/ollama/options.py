"""Ollama's variables, the parameters of a Modelfile, and the arguments of its runners (0.5 to 0.33)."""

from __future__ import annotations

from lockllm.engines.kernel.argparse import Option, Table, Take, table
from lockllm.engines.kernel.values import Kind
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.variables import recorded

VARIABLES = {
    "OLLAMA_CONTEXT_LENGTH": "serve.max_model_len",
    "OLLAMA_NUM_PARALLEL": "serve.max_num_seqs",
    "OLLAMA_KV_CACHE_TYPE": "serve.kv_cache_dtype",
    "OLLAMA_FLASH_ATTENTION": "serve.flash_attn",
}
"""Variable -> the neutral fact that it sets."""

READ = recorded("ollama")
"""Variables of the server process that change results."""

NOISE = frozenset(
    """
    OLLAMA_HOST OLLAMA_ORIGINS OLLAMA_KEEP_ALIVE OLLAMA_LOAD_TIMEOUT OLLAMA_MAX_QUEUE OLLAMA_DEBUG OLLAMA_NOHISTORY
    OLLAMA_NOPRUNE OLLAMA_MODELS OLLAMA_AUTH OLLAMA_TMPDIR OLLAMA_RUNNERS_DIR OLLAMA_LIBRARY_PATH OLLAMA_EDITOR
    OLLAMA_DEBUG_LOG_REQUESTS OLLAMA_CLOUD_HOST OLLAMA_USE_AUTH OLLAMA_MAX_VRAM OLLAMA_VERSION
    """.split()
)
"""Variables that are read and move no result."""

PARAMETERS = {
    "num_ctx": "serve.max_model_len",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "min_p": "sampling.min_p",
    "typical_p": "sampling.typical_p",
    "repeat_penalty": "sampling.repetition_penalty",
    "presence_penalty": "sampling.presence_penalty",
    "frequency_penalty": "sampling.frequency_penalty",
    "repeat_last_n": "sampling.repeat_last_n",
    "num_predict": "sampling.max_tokens",
    "seed": "sampling.seed",
    "stop": "sampling.stop",
}
"""Parameter of a Modelfile -> fact; the others are kept as `serve.args.NAME`."""

_OF_NATIVE_ROUTES = ("temperature", "top_p")
"""Parameters that the OpenAI routes send themselves: what a model says of them holds on Ollama's own routes alone."""


def parameter(name: str) -> Path:
    """The fact that a parameter of a model sets."""
    if name in _OF_NATIVE_ROUTES:
        return ("sampling", "native", name)
    return parse(PARAMETERS[name]) if name in PARAMETERS else ("serve", "args", name)


GONE = {
    "mirostat": "0.9.0",
    "mirostat_tau": "0.9.0",
    "mirostat_eta": "0.9.0",
    "penalize_newline": "0.9.0",
    "tfs_z": "0.9.0",
}
"""Parameter -> the release that no longer knows it: it is ignored."""


def _one(name: str, kind: Kind, *flags: str) -> Option:
    return Option(name=name, flags=flags, take=Take.ONE, kind=kind)


RUNNER: Table = table(
    [
        _one("model", Kind.TEXT, "--model", "-m"),
        _one("ctx_size", Kind.INT, "--ctx-size", "-c"),
        _one("parallel", Kind.INT, "--parallel", "-np"),
        _one("batch_size", Kind.INT, "--batch-size", "-b"),
        _one("ubatch_size", Kind.INT, "--ubatch-size", "-ub"),
        _one("gpu_layers", Kind.TEXT, "--n-gpu-layers", "-ngl"),
        _one("threads", Kind.INT, "--threads", "-t"),
        _one("cache_type", Kind.TEXT, "--kv-cache-type"),
        _one("cache_type_k", Kind.TEXT, "--cache-type-k"),
        _one("cache_type_v", Kind.TEXT, "--cache-type-v"),
        Option(name="flash_attn", flags=("--flash-attn", "-fa"), take=Take.MAYBE, bare="on"),
        _one("port", Kind.INT, "--port"),
        _one("host", Kind.TEXT, "--host"),
        _one("mmproj", Kind.TEXT, "--mmproj"),
        Option(name="lora", flags=("--lora",), take=Take.APPEND),
        _one("spec_type", Kind.TEXT, "--spec-type"),
        _one("spec_draft_n_max", Kind.INT, "--spec-draft-n-max"),
        _one("spec_draft_model", Kind.TEXT, "--spec-draft-model"),
        _one("split_mode", Kind.TEXT, "--split-mode"),
        _one("main_gpu", Kind.INT, "--main-gpu"),
        _one("load_mode", Kind.TEXT, "--load-mode"),
        _one("keep", Kind.INT, "--keep"),
        _one("tensor_split", Kind.TEXT, "--tensor-split"),
        _one("chat_template", Kind.TEXT, "--chat-template"),
        _one("log_verbosity", Kind.INT, "--log-verbosity", "-lv"),
        _one("image_min_tokens", Kind.INT, "--image-min-tokens"),
        *(
            Option(name=name.replace("-", "_"), flags=(f"--{name}",), take=Take.SWITCH)
            for name in (
                "no-webui offline log-prefix no-log-prefix no-log-timestamps jinja no-jinja context-shift no-mmproj-offload "
                "spec-draft-backend-sampling ollama-engine mlx-engine multiuser-cache no-mmap mlock verbose"
            ).split()
        ),
    ]
)
"""`ollama runner`, `ollama_llama_server` and the bundled `llama-server`: what Ollama itself gives them."""
