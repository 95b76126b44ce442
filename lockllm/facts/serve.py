"""Facts of how the server runs the model: one neutral name each, to which every engine maps its own options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.facts.fact import Fact, Family, Group, Kind, ValueType
from lockllm.facts.types import ANY, BOOL, COUNT, DTYPE, INT, KV_DTYPE, NUMBER, SWITCH, TEXT

SERVE = Group(name="serve", about="the values in force of the serving options", waits=True, guarded=True)
_CAUSES = ("engine.version", "host.gpu", "host.gpu_memory")
_WORLD = ("serve.tensor_parallel_size", "serve.pipeline_parallel_size")
"""On a CPU vLLM's default batch is as many times the size of one worker's (vLLM 0.32, engine/arg_utils.py)."""


def _serve(
    name: str, type_: ValueType[Any], kind: Kind, effect: str, about: str, *, fix: str = "", causes: tuple[str, ...] = (),
    numerics: bool = False, on_request: bool = False,
) -> Fact[Any]:  # fmt: skip
    return Fact(
        ("serve", name), type_, kind, effect, fix or "start the server with the locked value", about,
        causes=(*causes, *_CAUSES), part="numerics" if numerics else "", on_request=on_request,
    )  # fmt: skip


DTYPE_ = _serve("dtype", DTYPE, Kind.STEP, "weights and activations are computed in another precision",
                "The dtype that the weights are computed in.", causes=("checkpoint.dtype",), numerics=True)  # fmt: skip
QUANTIZATION = _serve("quantization", TEXT, Kind.STEP, "the weights are dequantized by another method, or quantized at load",
                      "The quantization method in force; the checkpoint's own is `quantization.method`.",
                      causes=("quantization.method",), numerics=True)  # fmt: skip
KV_CACHE_DTYPE = _serve("kv_cache_dtype", KV_DTYPE, Kind.STEP, "keys and values are stored in another precision",
                        "The dtype of the KV cache.", causes=("serve.dtype",), numerics=True)  # fmt: skip
TENSOR_PARALLEL_SIZE = _serve("tensor_parallel_size", COUNT, Kind.NOISE, "all-reduce sums in another order",
                              "GPUs that share one layer.", numerics=True)  # fmt: skip
PIPELINE_PARALLEL_SIZE = _serve("pipeline_parallel_size", COUNT, Kind.NOISE, "batches are cut into other micro-batches",
                                "GPUs that hold successive layers.", numerics=True)  # fmt: skip
DATA_PARALLEL_SIZE = _serve("data_parallel_size", COUNT, Kind.NOISE, "requests are batched with other neighbors",
                            "Copies of the model that share the requests.", numerics=True)  # fmt: skip
EXPERT_PARALLEL_SIZE = _serve("expert_parallel_size", COUNT, Kind.NOISE, "expert outputs are summed in another order",
                              "GPUs that share the experts of one layer.", numerics=True)  # fmt: skip
MAX_MODEL_LEN = _serve("max_model_len", INT, Kind.STEP, "long prompts are refused or cut, and answers end elsewhere",
                       "Tokens of prompt and answer together that one request may hold.",
                       causes=("checkpoint.max_position_embeddings", "serve.max_num_seqs", "serve.kv_unified"))  # fmt: skip
MAX_NUM_SEQS = _serve("max_num_seqs", COUNT, Kind.NOISE, "requests are batched with other neighbors",
                      "Requests that are computed together at most.", causes=("serve.continuous_batching", *_WORLD),
                      numerics=True)  # fmt: skip
MAX_NUM_BATCHED_TOKENS = _serve("max_num_batched_tokens", COUNT, Kind.NOISE, "prompts are cut into other chunks",
                                "Tokens that one step computes at most.",
                                causes=("serve.max_model_len", "serve.enable_chunked_prefill", *_WORLD), numerics=True)  # fmt: skip
CHUNKED_PREFILL_SIZE = _serve("chunked_prefill_size", INT, Kind.NOISE, "prompts are cut into other chunks",
                              "Tokens of one piece of a prompt (SGLang); -1: prompts are not cut.", numerics=True)  # fmt: skip
PAGE_SIZE = _serve("page_size", COUNT, Kind.NOISE, "cached prefixes end at other tokens",
                   "Tokens of one block of the KV cache.", causes=("serve.attention_backend",), numerics=True)  # fmt: skip
ENABLE_PREFIX_CACHING = _serve("enable_prefix_caching", BOOL, Kind.NOISE, "cached prefixes were computed in other batches",
                               "Whether KV blocks of a common prefix are kept and used again.",
                               causes=("serve.continuous_batching",), numerics=True)  # fmt: skip
ENABLE_CHUNKED_PREFILL = _serve("enable_chunked_prefill", BOOL, Kind.NOISE, "prompts are cut into other chunks",
                                "Whether long prompts are computed in pieces beside decoding.", numerics=True)  # fmt: skip
ENFORCE_EAGER = _serve("enforce_eager", BOOL, Kind.NOISE, "other kernels run without graph capture or compilation",
                       "Whether CUDA graphs and compilation are off.", numerics=True)  # fmt: skip
ATTENTION_BACKEND = _serve("attention_backend", TEXT, Kind.NOISE, "attention sums in another order",
                           "The attention backend in force.", causes=("packages.*",), numerics=True)  # fmt: skip
BATCH_INVARIANT = _serve("batch_invariant", BOOL, Kind.NOISE, "results depend on what else is in the batch, or no longer do",
                         "Whether the engine's deterministic mode is on.", numerics=True)  # fmt: skip
SEED = _serve("seed", INT, Kind.NOISE, "unseeded requests draw other tokens", "The engine's own seed.")
GENERATION_CONFIG = _serve("generation_config", TEXT, Kind.STEP, "sampling defaults come from elsewhere",
                           "Where sampling defaults come from: auto, vllm, a folder.")  # fmt: skip
LOAD_FORMAT = _serve("load_format", TEXT, Kind.STEP, "weights are read otherwise, or are random",
                     "How weights are read; `dummy` loads none.")  # fmt: skip
ROPE_SCALING = _serve("rope_scaling", ANY, Kind.STEP, "positions are encoded otherwise",
                      "The rotary scaling in force after overrides.")  # fmt: skip
TRUST_REMOTE_CODE = _serve("trust_remote_code", BOOL, Kind.STEP, "code from the checkpoint runs or not",
                           "Whether modeling code of the checkpoint is run.")  # fmt: skip
GPU_MEMORY_SHARE = _serve("gpu_memory_share", NUMBER, Kind.NOISE, "the KV cache holds more or fewer requests",
                          "The share of GPU memory that the engine takes; never compared across engines.",
                          causes=("engine.name",))  # fmt: skip
KV_UNIFIED = _serve("kv_unified", BOOL, Kind.NOISE, "slots share one KV buffer, so neighbors move last bits",
                    "Whether all slots share one KV buffer (llama.cpp).", causes=("serve.max_num_seqs",), numerics=True)  # fmt: skip
FLASH_ATTN = _serve("flash_attn", SWITCH, Kind.NOISE, "attention sums in another order",
                    "Whether llama.cpp's flash attention kernels run.", numerics=True)  # fmt: skip
UBATCH_SIZE = _serve("ubatch_size", COUNT, Kind.NOISE, "prompts are computed in other pieces",
                     "Tokens of one physical batch (llama.cpp).", numerics=True)  # fmt: skip
CONT_BATCHING = _serve("cont_batching", BOOL, Kind.NOISE, "requests are batched with other neighbors, or no longer",
                       "Whether llama.cpp adds requests to a batch that already decodes.", numerics=True)  # fmt: skip
CONTINUOUS_BATCHING = _serve("continuous_batching", BOOL, Kind.STEP, "penalties are dropped, and the first request decides sampling",
                             "Whether transformers serve batches requests, by another generation path.", numerics=True)  # fmt: skip
CACHE_REUSE = _serve("cache_reuse", COUNT, Kind.NOISE, "cached tokens are shifted to other positions",
                     "The shortest chunk that llama.cpp takes from the cache at another position; 0 is off.")  # fmt: skip
CACHE_RAM = _serve("cache_ram", INT, Kind.NOISE, "more or fewer prompts come from the cache",
                   "MiB of host memory that llama.cpp keeps prompts in; 0 is off.")  # fmt: skip
JINJA = _serve("jinja", BOOL, Kind.STEP, "prompts are rendered by a built-in formatter or by the template itself",
               "Whether llama.cpp renders the chat template itself.")  # fmt: skip
SPLIT_MODE = _serve("split_mode", TEXT, Kind.NOISE, "layers or rows land on other devices", "How llama.cpp splits the model over devices.",
                    numerics=True)  # fmt: skip
CTX_SIZE = _serve("ctx_size", COUNT, Kind.STEP, "each slot holds more or fewer tokens",
                  "Tokens that all slots of llama.cpp share, as asked; 0: as the model says. `max_model_len` is what one slot holds.",
                  on_request=True)  # fmt: skip
CACHE_TYPE_K = _serve("cache_type_k", TEXT, Kind.STEP, "keys are stored in another precision",
                      "The type of llama.cpp's cached keys; `kv_cache_dtype` holds both.", on_request=True)  # fmt: skip
CACHE_TYPE_V = _serve("cache_type_v", TEXT, Kind.STEP, "values are stored in another precision",
                      "The type of llama.cpp's cached values; `kv_cache_dtype` holds both.", on_request=True)  # fmt: skip
GPU_LAYERS = _serve("gpu_layers", ANY, Kind.NOISE, "layers are computed on another device",
                    "Layers that llama.cpp keeps on GPUs, as asked; without a number it fits them to free memory.",
                    on_request=True)  # fmt: skip
AS_GIVEN = tuple(
    _serve(name, ANY, Kind.STEP, "requests that leave it out are sampled otherwise",
           "A sampling option of llama.cpp as its command line spells it; `sampling.*` holds what is in force.", on_request=True)
    for name in (
        "samplers", "sampler_seq", "typical", "top_nsigma", "xtc_probability", "xtc_threshold", "repeat_last_n", "predict",
        "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breaker", "mirostat", "mirostat_lr",
        "mirostat_ent", "dynatemp_range", "dynatemp_exp", "adaptive_target", "adaptive_decay", "backend_sampling",
    )
)  # fmt: skip
TOOL_CALL_PARSER = _serve("tool_call_parser", TEXT, Kind.STEP, "tool calls are parsed otherwise",
                          "The parser that finds tool calls in the text.")  # fmt: skip
REASONING_PARSER = _serve("reasoning_parser", TEXT, Kind.STEP, "reasoning is split from the answer otherwise",
                          "The parser that splits reasoning from the answer.")  # fmt: skip
STRUCTURED_OUTPUT = _serve("structured_output", TEXT, Kind.STEP, "grammars are enforced otherwise or not at all",
                           "The backend of structured output.")  # fmt: skip
CHAT_TEMPLATE_GIVEN = _serve("chat_template", ANY, Kind.STEP, "prompts are rendered by another template",
                             "A template that an option gives: its text's sha256, or a built-in name.")  # fmt: skip
CHAT_TEMPLATE_KWARGS = Family(
    Fact(
        ("serve", "chat_template_kwargs"), ANY, Kind.STEP, "templates are rendered with other arguments",
        "start the server with the locked template arguments", "A default argument that the server hands to the template.",
        part="template", since=2,
    ),
    closed=True, closed_by=("serve",), depth=0,
)  # fmt: skip
SPECULATIVE = Family(
    Fact(
        ("serve", "speculative"), ANY, Kind.NOISE, "drafted tokens are verified in other batches",
        "start the server with the locked speculative decoding", "A setting of speculative decoding: method, num_speculative_tokens.",
        part="numerics", since=2,
    ),
    closed=True, closed_by=("serve",), depth=0,
)  # fmt: skip
_LATE: Mapping[str, str] = {
    "middleware": "code of another package may rewrite every request and answer",
    "anthropic_disabled_thinking_effort": "requests without thinking are rendered with another reasoning effort",
    "debug_cuda_graph": "every operation runs by itself instead of in one graph",
    "enable_torch_compile_debug_mode": "compiled code is checked and built otherwise",
    "debug_tensor_dump_input_file": "the input of the model comes from a file",
    "debug_tensor_dump_inject": "tensors of a file replace those that are computed",
    "checkpoint_engine_wait_weights_before_ready": "the weights come from elsewhere than the checkpoint",
    "remote_instance_weight_loader_seed_instance_ip": "the weights come from another running server",
    "remote_instance_weight_loader_seed_instance_service_port": "the weights come from another running server",
    "sidecar": "code of another module serves requests",
    "sidecar_args": "code of another module serves requests",
    "rpc": "layers are computed on other machines",
    "rpc_servers": "layers are computed on other machines",
    "lookup_cache_dynamic": "drafted tokens are verified in other batches",
    "video_ffmpeg_dir": "videos are decoded by another program",
    "server_role": "another part of the model's work is done here",
}
"""Kept options that moved nothing by the rules of the first edition -> what they move."""


def _arg(row: Fact[Any]) -> Fact[Any]:
    """What a kept option moves, where more is known of it than that it is one."""
    effect = _LATE.get(row.path[2])
    return msgspec.structs.replace(row, effect=effect, since=2) if effect else row


ARGS = Family(
    Fact(
        ("serve", "args"), ANY, Kind.STEP, "an option of the engine is set otherwise", "start the server with the locked options",
        "An option of the engine without a neutral name: no leading dashes, `-` to `_`, JSON values one fact a leaf.",
    ),
    closed=True, closed_by=("serve",), given=True, depth=0, detail=_arg,
)  # fmt: skip
PLUGINS = Family(
    Fact(
        ("serve", "plugins"), TEXT, Kind.STEP, "code of another distribution runs inside the engine",
        "install the locked plugins and no others, or name those that may load (VLLM_PLUGINS, SGLANG_PLUGINS)",
        "A plugin that the engine loads because it is installed: entry point group and name, and its distribution.",
        settable=False, since=2,
    ),
    closed=True, closed_by=("startup",), given=True,
)  # fmt: skip
NO_TOKEN = tuple(
    Fact(
        ("serve", "args", name), ANY, Kind.IDENTITY, effect, "start the server with the locked options",
        "An option that moves no token: locked and diffed, never verified.", verified=False,
    )
    for name, effect in (
        ("api_server_count", "requests are received by another number of processes"),
        ("numa_bind", "worker processes are bound to CPUs and memory of their GPU"),
    )
)  # fmt: skip
PER_NODE = tuple(
    Fact(
        ("serve", "args", name), ANY, Kind.IDENTITY, "this node takes another place in the server", "give each node its own",
        "An option that differs between the nodes of one server: observed, never locked.", lockable=False, settable=False,
    )
    for name in (
        "node_rank", "headless", "rank", "dp_rank", "data_parallel_rank", "data_parallel_start_rank", "data_parallel_size_local",
        "device_ids", "numa_bind_nodes", "numa_bind_cpus", "numa_node", "base_gpu_id", "gpu_id_step", "disaggregation_ib_device",
        "mooncake_ib_device",
    )
)  # fmt: skip
