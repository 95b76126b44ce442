"""`trtllm-serve`'s options (1.0 to 1.3) and the keys of its YAML file, which outranks them."""

from __future__ import annotations

from lockllm.engines.kernel.argparse import Option, Table, Take, table
from lockllm.engines.kernel.values import Kind
from lockllm.facts.variables import recorded

_TEXT = """
backend tokenizer custom_tokenizer host revision reasoning_parser tool_parser log_level cluster_size
metadata_server_config_file server_role served_model_name kv_cache_dtype gpus_per_node chat_template
custom_module_dirs media_io_kwargs video_pruning_rate otlp_traces_endpoint disagg_cluster_uri
"""
_INT = """
port max_beam_width max_batch_size max_num_tokens max_seq_len num_postprocess_workers
"""
_SWITCHES = """
trust_remote_code enable_chunked_prefill enable_attention_dp grpc enable_early_first_token_response
fail_fast_on_attention_window_too_large
"""
_ALIASED = {
    "tensor_parallel_size": (Kind.INT, ("--tp_size", "--tensor_parallel_size")),
    "pipeline_parallel_size": (Kind.INT, ("--pp_size", "--pipeline_parallel_size")),
    "context_parallel_size": (Kind.INT, ("--cp_size", "--context_parallel_size")),
    "ep_size": (Kind.INT, ("--ep_size", "--moe_expert_parallel_size")),
    "moe_cluster_parallel_size": (Kind.INT, ("--cluster_size", "--moe_cluster_parallel_size")),
    "kv_cache_free_gpu_memory_fraction": (
        Kind.NUMBER,
        ("--kv_cache_free_gpu_memory_fraction", "--free_gpu_memory_fraction"),
    ),
    "extra_llm_api_options": (Kind.TEXT, ("--extra_llm_api_options", "--config", "--extra_llm_options")),
}

FACTS = {
    "tensor_parallel_size": "serve.tensor_parallel_size",
    "pipeline_parallel_size": "serve.pipeline_parallel_size",
    "moe_expert_parallel_size": "serve.expert_parallel_size",
    "ep_size": "serve.expert_parallel_size",
    "max_batch_size": "serve.max_num_seqs",
    "max_num_tokens": "serve.max_num_batched_tokens",
    "max_seq_len": "serve.max_model_len",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "trust_remote_code": "serve.trust_remote_code",
    "enable_chunked_prefill": "serve.enable_chunked_prefill",
    "reasoning_parser": "serve.reasoning_parser",
    "tool_parser": "serve.tool_call_parser",
    "dtype": "serve.dtype",
    "attn_backend": "serve.attention_backend",
    "kv_cache_config.dtype": "serve.kv_cache_dtype",
    "kv_cache_config.enable_block_reuse": "serve.enable_prefix_caching",
    "speculative_config.decoding_type": "serve.speculative.method",
    "speculative_config.max_draft_len": "serve.speculative.num_speculative_tokens",
    "guided_decoding_backend": "serve.structured_output",
    "load_format": "serve.load_format",
}
"""Option or dotted key of the YAML file -> the neutral fact."""

BOTH = {
    "kv_cache_free_gpu_memory_fraction": "serve.gpu_memory_share",
    "kv_cache_config.free_gpu_memory_fraction": "serve.gpu_memory_share",
}
"""Kept under their own name as well."""

OPERATIONAL_BECAUSE = {
    "where and under which name it is reached": "host port served_model_name grpc metadata_server_config_file disagg_cluster_uri",
    "what is written to logs and measured": (
        "log_level otlp_traces_endpoint return_perf_metrics enable_iter_perf_stats print_iter_log"
    ),
    "how its processes are placed": "num_postprocess_workers gpus_per_node",
}
"""Reason -> options and keys that lock nothing, because they move no token."""
OPERATIONAL = frozenset(name for names in OPERATIONAL_BECAUSE.values() for name in names.split())

FILES = frozenset({"custom_module_dirs"})
"""Options that name files or folders of code or settings that are read."""

READ = recorded("tensorrt-llm")
"""Variables that change results."""


def _options() -> list[Option]:
    found = [Option(name=name, flags=flags, kind=kind) for name, (kind, flags) in _ALIASED.items()]
    named = {flag for option in found for flag in option.flags}
    for names, take, kind in (
        (_TEXT, Take.ONE, Kind.TEXT),
        (_INT, Take.ONE, Kind.INT),
        (_SWITCHES, Take.SWITCH, Kind.TEXT),
    ):
        found += [
            Option(name=name, flags=(f"--{name}",), take=take, kind=kind)
            for name in names.split()
            if f"--{name}" not in named
        ]
    return found


TABLE: Table = table(_options())
