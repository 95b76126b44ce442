"""SGLang's option table of each release, and what each option means.

Read from the parsers that `srt/server_args.py` (0.3.4 to 0.5.18) and `srt/arg_groups/fields/*.py` (0.5.20 to 0.5.23) build.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from lockllm.engines import Installed, Names
from lockllm.engines.kernel.argparse import Option, Table, Take, table
from lockllm.engines.kernel.release_data import NOTHING, at, load, shape, words
from lockllm.engines.kernel.values import Kind
from lockllm.facts.fact import Path

DATA = load("sglang")
VERSIONS = DATA.releases
NEWEST = VERSIONS[-1]

TAKES = {
    "switch": (Take.SWITCH, Kind.TEXT),
    "retired": (Take.SWITCH, Kind.TEXT),  # replaced by another option; still in force
    "idle": (Take.SWITCH, Kind.TEXT),  # accepted with a warning, and nothing comes of it
    "gone": (Take.SWITCH, Kind.TEXT),  # known, and refused
    "either": (Take.BOTH, Kind.TEXT),
    "text": (Take.ONE, Kind.TEXT),
    "texts": (Take.MANY, Kind.TEXT),
    "texts*": (Take.ANY, Kind.TEXT),
    "text?": (Take.MAYBE, Kind.TEXT),
    "int": (Take.ONE, Kind.INT),
    "ints": (Take.MANY, Kind.INT),
    "amount": (Take.ONE, Kind.SI),
    "float": (Take.ONE, Kind.NUMBER),
    "floats": (Take.MANY, Kind.NUMBER),
    "float?": (Take.MAYBE, Kind.NUMBER),
    "json": (Take.ONE, Kind.STRICT_JSON),
    "bool1": (Take.ONE, Kind.TEXT),
}

_BARE: dict[str, Any] = {"text?": "", "float?": 0.5}
"""The value of an option whose argument may be left out, and is."""

ALIASES = {
    "tensor-parallel-size": "tp-size",
    "pipeline-parallel-size": "pp-size",
    "data-parallel-size": "dp-size",
    "expert-parallel-size": "ep-size",
    "ep": "ep-size",
    "attention-context-parallel-size": "attn-cp-size",
    "attention-data-parallel-size": "attn-dp-size",
    "moe-data-parallel-size": "moe-dp-size",
    "decode-context-parallel-size": "dcp-size",
    "nccl-init-addr": "dist-init-addr",
    "model": "model-path",
    "speculative-draft-model": "speculative-draft-model-path",
    "grpc-http-sidecar-port": "smg-http-sidecar-port",
    "enable-hicache": "enable-hierarchical-cache",
    "context-bucket": "cuda-graph-prefill-max-context",
    "hierarchical-sparse-attention-extra-config": "hisparse-config",
    "speculative-dflash-draft-window-size": "speculative-draft-window-size",
}
"""Another spelling -> the name under which its value is told."""

FACTS = {
    "tp_size": "serve.tensor_parallel_size",
    "pp_size": "serve.pipeline_parallel_size",
    "dp_size": "serve.data_parallel_size",
    "ep_size": "serve.expert_parallel_size",
    "dtype": "serve.dtype",
    "quantization": "serve.quantization",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "context_length": "serve.max_model_len",
    "max_running_requests": "serve.max_num_seqs",
    "attention_backend": "serve.attention_backend",
    "random_seed": "serve.seed",
    "load_format": "serve.load_format",
    "page_size": "serve.page_size",
    "trust_remote_code": "serve.trust_remote_code",
    "reasoning_parser": "serve.reasoning_parser",
    "tool_call_parser": "serve.tool_call_parser",
    "enable_deterministic_inference": "serve.batch_invariant",
    "disable_cuda_graph": "serve.enforce_eager",
    "tokenizer_mode": "tokenizer.mode",
    "speculative_algorithm": "serve.speculative.method",
    "speculative_num_steps": "serve.speculative.num_steps",
    "speculative_eagle_topk": "serve.speculative.eagle_topk",
    "speculative_num_draft_tokens": "serve.speculative.num_draft_tokens",
    "speculative_accept_threshold_single": "serve.speculative.accept_threshold_single",
    "speculative_accept_threshold_acc": "serve.speculative.accept_threshold_acc",
}
"""Option -> the neutral fact that holds its value as it stands."""

SAMPLING_SOURCES = {"model": "auto", "openai": "openai"}
"""Values of `--sampling-defaults` as `serve.generation_config` spells them."""

JSON = frozenset(
    """
    json-model-override-args model-loader-extra-config preferred-sampling-params hicache-storage-backend-extra-config
    limit-mm-data-per-request mm-process-config default-chat-template-kwargs speculative-adaptive-config
    cuda-graph-config radix-eviction-policy-config unified-cache-external-linker-config hisparse-config
    """.split()
)
"""Options whose text is JSON; argparse takes any text, and the server parses it."""

BUILTIN_TEMPLATES = frozenset(
    """
    llama-2 mistral devstral llama-4 phi-4-mm chatml chatml-llava vicuna_v1.1 llama_3_vision llava_llama_3
    internlm2-chat internvl-2-5 qwen2-vl deepseek-ocr unlimited-ocr paddle-ocr deepseek-vl2 gemma-it gme-qwen2-vl
    minicpmv janus-pro minicpmo kimi-vl qwen2-audio moss-vl points-v15-chat whisper janus llava-v1.6-34b
    """.split()
)

PER_NODE = frozenset(
    {"node_rank", "base_gpu_id", "gpu_id_step", "disaggregation_ib_device", "mooncake_ib_device", "numa_node"}
)

FILES = frozenset(
    {
        "quantization_param_path", "dllm_algorithm_config", "pdmux_config_path", "flexkv_config_file",
        "lmcache_config_file", "decrypted_config_file", "decrypted_draft_config_file", "ds_channel_config_path",
        "speculative_dspark_confidence_sts_path", "speculative_dspark_sps_table_path",
        "speculative_ngram_external_corpus_path", "kt_weight_path", "kt_amx_weight_path", "rl_quant_profile",
        "modelopt_checkpoint_restore_path",
    }
)  # fmt: skip
"""Options whose value names a file or folder whose content moves results."""
FILES_OR_NAMES = frozenset(
    {
        "deepep_config", "init_expert_location", "model_checksum", "speculative_token_map", "completion_template",
        "speculative_adaptive_config", "uno_lora_path", "hicache_storage_backend_extra_config",
    }
)  # fmt: skip
"""Options that take a name, JSON or the path of a file (`@FILE` too): what is there as a file counts by its content."""

NAMED_FILES: Mapping[Path, Names] = {
    **{("serve", "args", name): Names() for name in FILES},
    **{("serve", "args", name): Names(or_name=True) for name in FILES_OR_NAMES},
}
"""Facts whose value is the path of something that is read."""

SECRETS = frozenset({"api_key", "admin_api_key", "ssl_keyfile_password", "watermark_key", "watermark_key_b"})

OPERATIONAL_BECAUSE = {
    "where and under which name it is reached": (
        "enable_http_worker_reuseport fastapi_root_path gated_launch_port grpc_mode grpc_port "
        "grpc_response_timeout_secs host port served_model_name smg_grpc_mode smg_http_sidecar_port"
    ),
    "who may ask, and how the connection is secured": (
        "allowed_media_domains enable_http2 enable_ssl_refresh http2_initial_connection_window_size "
        "http2_max_concurrent_streams ssl_ca_certs ssl_certfile ssl_keyfile"
    ),
    "its content is read in its place": "config",
    "what is written to logs": (
        "crash_dump_folder decode_log_interval enable_request_time_stats_logging log_level log_level_http log_requests "
        "log_requests_format log_requests_level log_requests_target show_time_cost uvicorn_access_log_exclude_prefixes"
    ),
    "what is measured": (
        "bucket_e2e_request_latency bucket_inter_token_latency bucket_time_to_first_token collect_tokens_histogram "
        "debug_tensor_dump_layers debug_tensor_dump_output_folder debug_tensor_dump_prefill_only "
        "enable_expert_distribution_metrics enable_forward_pass_metrics enable_layerwise_nvtx_marker enable_metrics "
        "enable_metrics_for_all_schedulers enable_mfu_metrics enable_profile_cuda_graph enable_trace "
        "expert_balancedness_report_mode expert_distribution_recorder_buffer_size expert_distribution_recorder_mode "
        "export_metrics_to_file export_metrics_to_file_dir extra_metric_labels forward_pass_metrics_ipc_name "
        "forward_pass_metrics_worker_id generation_tokens_buckets kv_events_config load_publish_endpoint "
        "load_snapshot_publish_interval load_watch_interval msprobe_dump_config oltp_traces_endpoint otlp_service_name "
        "otlp_traces_endpoint prefill_delayer_forward_passes_buckets prefill_delayer_wait_seconds_buckets "
        "prompt_tokens_buckets spec_trace_dir tokenizer_metrics_allowed_custom_labels "
        "tokenizer_metrics_custom_labels_header trace_modules"
    ),
    "what answers carry beside the text, and in how many pieces": "enable_cache_report stream_interval weight_version",
    "where files are put": (
        "delete_ckpt_after_loading download_dir file_storage_path file_storage_pth modelopt_checkpoint_save_path "
        "modelopt_export_path weight_cache_socket weight_cache_timeout"
    ),
    "how the parts of one server find each other, and how long they wait": (
        "disaggregation_bootstrap_port dist_init_addr dist_timeout elastic_ep_scale_timeout encoder_bootstrap_port "
        "encoder_register_urls encoder_urls engine_info_bootstrap_port mm_per_request_timeout nccl_port pdlb_url "
        "remote_instance_weight_loader_backend remote_instance_weight_loader_send_weights_group_ports "
        "remote_instance_weight_loader_start_seed_via_transfer_engine soft_watchdog_timeout watchdog_timeout"
    ),
    "how its processes are cared for": "custom_sigquit_handler gc_threshold gc_warning_threshold_secs skip_server_warmup warmups",
}
"""Reason -> options that lock nothing, because they move no token: each was read in the release's own help."""
OPERATIONAL = frozenset(name for names in OPERATIONAL_BECAUSE.values() for name in names.split())


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the options of one release."""

    version: str
    table: Table
    choices: Mapping[str, frozenset[str]]
    standing: Mapping[str, str]


def release(version: str, installed: Installed | None = None) -> Release:
    """The options of a release: by the source of the installed package where no table has it, else by the tables."""
    if installed is None or installed.table is None:
        return Release(version=version, table=of(version), choices=choices(version), standing=standing(version))
    few = {name: frozenset(map(str, each)) for name, each in installed.choices.items()}
    return Release(version=version, table=installed.table, choices=few, standing=installed.standing)


def operational(name: str) -> bool:
    """Whether an option locks nothing: names, ports, logs, metrics, TLS, rendezvous."""
    return name in OPERATIONAL


@lru_cache(maxsize=64)
def of(version: str) -> Table:
    """The options of a release; between two that were read, those that either may have; past the newest, its own."""
    found: dict[str, Option] = {}
    for name, text in _held(version):
        made = _option(name, text)
        before = found.get(name)
        flags = tuple(dict.fromkeys((*before.flags, *made.flags))) if before is not None else made.flags
        off = tuple(dict.fromkeys((*before.off, *made.off))) if before is not None else made.off
        found[name] = msgspec.structs.replace(made, flags=flags, off=off)
    return table(list(found.values()))


@lru_cache(maxsize=64)
def standing(version: str) -> dict[str, str]:
    """The options of a release that are on their way out -> `retired`, `idle` or `gone`."""
    taken = ((name, text.partition(" ")[0]) for name, text in _held(version))
    return {name: takes for name, takes in taken if takes in ("retired", "idle", "gone")}


@lru_cache(maxsize=64)
def choices(version: str) -> dict[str, frozenset[str]]:
    """Option -> the words that it takes in a release; between two that were read, those of either."""
    found: dict[str, frozenset[str]] = {}
    for name, steps in DATA.values.items():
        lists = [words(steps, each) for each in DATA.neighbors(version) if DATA.has(name, each)]
        if lists and all(each is not None for each in lists):
            found[name] = frozenset().union(*(each for each in lists if each is not None))
    return found


def _held(version: str) -> Iterator[tuple[str, str]]:
    """Every option that a version may have, with what it takes; twice where the releases around it differ."""
    for name, steps in DATA.options.items():
        held = (at(steps, each) for each in DATA.neighbors(version))
        yield from ((name, text) for text in dict.fromkeys(held) if text is not NOTHING)


def _option(name: str, text: str) -> Option:
    kind, *others = text.split()
    take, value = shape(kind, TAKES)
    long = name.replace("_", "-")
    flags = tuple(others[1:]) if others[:1] == ["-"] else (f"--{long}", *others)
    value = Kind.JSON_OR_TEXT if long in JSON and value is Kind.TEXT else value
    off = tuple("--no-" + flag[2:] for flag in flags) if take is Take.BOTH else ()
    bare: Any = () if take is Take.ANY else _BARE.get(kind, True)
    return Option(name=name, flags=flags, off=off, take=take, kind=value, bare=bare)
