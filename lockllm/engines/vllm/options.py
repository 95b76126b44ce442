"""The options of each vLLM release, and what becomes of each: fact, kept, operational, per node, secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

from lockllm.engines import Names
from lockllm.engines.kernel.argparse import Option, Table, Take, table
from lockllm.engines.kernel.release_data import NOTHING, Steps, at, load, shape
from lockllm.engines.kernel.releases import at_least, below, beyond, order
from lockllm.engines.kernel.values import Kind
from lockllm.facts.fact import Path

DATA = load("vllm")
READ = DATA.releases
OLDEST, NEWEST = READ[0], READ[-1]

SAME_TAIL = frozenset(
    "dtype quantization kv_cache_dtype tensor_parallel_size pipeline_parallel_size data_parallel_size max_model_len "
    "max_num_seqs max_num_batched_tokens enable_prefix_caching enable_chunked_prefill enforce_eager "
    "attention_backend seed "
    "generation_config load_format trust_remote_code tool_call_parser reasoning_parser".split()
)
"""Options whose neutral name is `serve.` and their own."""
NEUTRAL = {"tokenizer_mode": ("tokenizer", "mode"), "chat_template_content_format": ("chat_template", "content_format")}
"""Options whose neutral name is another."""
SPREAD = frozenset(
    "model tokenizer revision tokenizer_revision chat_template lora_modules speculative_config speculative_model "
    "num_speculative_tokens spec_method spec_model spec_tokens override_generation_config gpu_memory_utilization "
    "default_chat_template_kwargs config".split()
)
"""Options that `given` spreads over several facts."""
OPERATIONAL_BECAUSE = {
    "where and under which name it is reached": "host port uds root_path served_model_name grpc grpc_port",
    "who may ask, and how the connection is secured": (
        "allow_credentials allowed_origins allowed_methods allowed_headers ssl_keyfile ssl_certfile ssl_ca_certs "
        "ssl_cert_reqs ssl_ciphers enable_ssl_refresh h11_max_header_count h11_max_incomplete_event_size "
        "allowed_local_media_path allowed_media_domains"
    ),
    "what is written to logs": (
        "uvicorn_log_level disable_uvicorn_access_log disable_access_log_for_endpoints log_level log_config_file "
        "logging_config log_error_stack max_log_len disable_log_requests disable_log_stats enable_log_requests "
        "enable_log_outputs enable_log_deltas enable_logging_iteration_details aggregate_engine_logging use_tqdm_on_load "
        "jit_monitor_mode jit_monitor_verbose"
    ),
    "which routes that only look, or act on request, are there": (
        "disable_fastapi_docs enable_offline_docs enable_tokenizer_info_endpoint enable_scale_out enable_trace_replay"
    ),
    "what answers carry beside the text": (
        "enable_request_id_headers enable_force_include_usage enable_prompt_tokens_details enable_per_request_metrics "
        "per_request_spec_decode_metrics fingerprint_mode fingerprint_value sse_keep_alive_interval"
    ),
    "what is measured": (
        "enable_server_load_tracking otlp_traces_endpoint collect_detailed_traces show_hidden_metrics_for_version "
        "custom_histogram_buckets cudagraph_metrics enable_mfu_metrics kv_cache_metrics kv_cache_metrics_sample "
        "enable_layerwise_nvtx_tracing profiler_config ray_workers_use_nsight"
    ),
    "where files are put": "download_dir",
    "how the parts of one server find each other, and how long they wait": (
        "master_addr master_port data_parallel_address data_parallel_rpc_port data_parallel_supervisor_port "
        "dp_supervisor_probe_failure_threshold dp_supervisor_probe_interval_s dp_supervisor_probe_timeout_s "
        "distributed_timeout_seconds cpu_distributed_timeout_seconds watchdog_config shutdown_timeout"
    ),
    "in which processes the front end runs": "disable_frontend_multiprocessing engine_use_ray fail_on_environ_validation",
}
"""Reason -> options that lock nothing, because they move no token: each was read in the release's own help."""
OPERATIONAL = frozenset(name for names in OPERATIONAL_BECAUSE.values() for name in names.split())
PER_NODE = frozenset(
    "node_rank headless data_parallel_rank data_parallel_start_rank data_parallel_size_local device_ids "
    "numa_bind_nodes "
    "numa_bind_cpus".split()
)
"""Options that differ between the nodes of one server."""
SECRET = frozenset({"api_key", "hf_token", "ssl_keyfile_password"})
"""Options whose values appear nowhere."""
NULLABLE = frozenset(
    "all2all_backend allowed_media_domains attention_backend chat_template code_revision collect_detailed_traces "
    "cpu_distributed_timeout_seconds cuda_graph_sizes cudagraph_capture_sizes custom_histogram_buckets "
    "dcp_comm_backend default_mm_loras device diffusion_config disable_access_log_for_endpoints "
    "distributed_executor_backend distributed_timeout_seconds download_dir ec_transfer_config engram_config "
    "fingerprint_value generation_config grpc_port hf_config_path host ignore_patterns io_processor_plugin "
    "kv_cache_memory_bytes kv_events_config kv_offloading_backend kv_offloading_size kv_transfer_config "
    "limit_mm_per_prompt log_config_file logits_processor_pattern logits_processors long_lora_scaling_factors "
    "lora_modules lora_target_modules mamba_block_size mamba_ssu_algorithm max_cpu_loras "
    "max_cudagraph_capture_size max_log_len max_lora_cls_labels max_num_active_seqs max_num_queued_reqs "
    "max_num_queued_tokens max_num_scheduled_tokens max_parallel_loading_workers middleware "
    "mm_encoder_attn_backend mm_encoder_attn_dtype mm_encoder_fp8_scale_path mm_encoder_fp8_scale_save_path "
    "mm_processor_kwargs model_loader_extra_config num_gpu_blocks_override otlp_traces_endpoint "
    "override_attention_dtype override_pooler_config pooler_config preemption_mode "
    "prefix_cache_retention_interval prefix_match_unit prompt_adapters quantization quantization_config "
    "quantization_param_path reasoning_config reasoning_parser response_role revision root_path rope_theta "
    "safetensors_load_strategy scheduler_cls served_model_name show_hidden_metrics_for_version spec_method "
    "spec_model speculative_config speculative_model speculative_model_quantization ssl_ca_certs ssl_certfile "
    "ssl_ciphers ssl_keyfile task tokenizer tokenizer_pool_extra_config tokenizer_revision tool_call_parser "
    "tool_server tool_strict_level uds video_pruning_rate watermark_config weight_transfer_config".split()
)
"""Options that may be None, in some release at least: an empty text or `None` leaves them unset."""
FILES = frozenset(
    {"mm_encoder_fp8_scale_path", "quantization_param_path", "tool_parser_plugin", "reasoning_parser_plugin"}
)
"""Kept options that name a file or folder: scales, and plugins that are imported by their path."""
FILES_OR_NAMES = frozenset({"hf_config_path", "qlora_adapter_name_or_path"})
"""Kept options that name a folder, or a repository where no such folder is there."""
LISTS_OF_FILES = frozenset({"prompt_adapters"})
"""Kept options that name several folders or repositories, each as `name=path`."""

NAMED_FILES: Mapping[Path, Names] = {
    **{("serve", "args", name): Names() for name in FILES},
    **{("serve", "args", name): Names(or_name=True) for name in FILES_OR_NAMES},
}
"""Facts whose value is the path of something that is read."""

TAKES = {
    "switch": (Take.SWITCH, Kind.TEXT),
    "both": (Take.BOTH, Kind.TEXT),
    "boolean": (Take.BOOLEAN, Kind.TEXT),
    "maybe": (Take.MAYBE, Kind.TEXT),
    "append": (Take.APPEND, Kind.TEXT),
    "texts": (Take.MANY, Kind.TEXT),
    "ints": (Take.MANY, Kind.INT),
    "numbers": (Take.MANY, Kind.NUMBER),
    "text": (Take.ONE, Kind.TEXT),
    "int": (Take.ONE, Kind.INT),
    "number": (Take.ONE, Kind.NUMBER),
    "human": (Take.ONE, Kind.HUMAN),
    "human-auto": (Take.ONE, Kind.HUMAN_AUTO),
    "json": (Take.ONE, Kind.JSON),
    "json-or-text": (Take.ONE, Kind.JSON_OR_TEXT),
    "loose": (Take.ONE, Kind.LOOSE),
}


def nearest(version: str | None) -> str | None:
    """The read release by whose table a version is parsed.

    The last one not above it; None where no version is known.
    """
    if version is None or not order(version)[0][0:1] or order(version)[0] == (0,):
        return None
    lower = [read for read in READ if order(read)[0] <= order(version)[0]]
    return lower[-1] if lower else OLDEST


def following(version: str | None) -> str | None:
    """The next release that was read, for a version that lies between two of them; None for all others."""
    read = nearest(version)
    if version is None or read is None or order(version)[0] <= order(read)[0]:
        return None
    return next((each for each in READ if order(each)[0] > order(version)[0]), None)


def is_read(version: str | None) -> bool:
    """Whether the rules of that version were read: it lies between the oldest and the newest read release."""
    return nearest(version) is not None and not below(version, OLDEST) and not beyond(version, NEWEST)


@lru_cache(maxsize=64)
def options(read: str) -> Table:
    """The options of a read release."""
    held = ((name, at(steps, read)) for name, steps in DATA.options.items())
    return table([_option(name, text, read) for name, text in held if text is not NOTHING])


@lru_cache(maxsize=1)
def history() -> dict[str, tuple[str, str]]:
    """Name of every option that any read release has -> first and last release; `""`: still there."""
    return {name: (steps[0][0], DATA.last(steps)) for name, steps in DATA.options.items()}


@lru_cache(maxsize=64)
def names(read: str) -> frozenset[str]:
    """The names of the options of a read release."""
    return frozenset(name for name, steps in DATA.options.items() if at(steps, read) is not NOTHING)


def last_spelled(name: str, steps: Steps) -> Iterator[tuple[str, frozenset[str]]]:
    """The last release of each way to spell an option that a newer release spells otherwise, with its short spellings."""
    for step, after in pairwise(steps):
        if len(step) > 1:
            yield READ[READ.index(after[0]) - 1], frozenset(str(step[1]).split()[1:])


def _option(name: str, text: str, read: str) -> Option:
    takes, *others = text.split()
    take, kind = shape(takes, TAKES)
    flags = tuple(others[1:]) if others[:1] == ["-"] else ("--" + name.replace("_", "-"), *others)
    off: list[str] = []
    if take is Take.BOTH:
        long = [flag for flag in flags if flag.startswith("--")]
        off = ["--no-" + flag[2:] for flag in long]
        if at_least(read, "0.33.0"):
            off += [flag.replace("--enable-", "--disable-", 1) for flag in long if flag.startswith("--enable-")]
            off += [flag.replace("--disable-", "--enable-", 1) for flag in long if flag.startswith("--disable-")]
    return Option(name=name, flags=flags, off=tuple(off), take=take, kind=kind)
