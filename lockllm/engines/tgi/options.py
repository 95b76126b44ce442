"""TGI's options (launcher, router, shard) and variables, read at v3.3.7; older spellings are kept beside them."""

from __future__ import annotations

from lockllm.engines.kernel.argparse import Option, Table, Take, table
from lockllm.engines.kernel.values import Kind
from lockllm.facts.variables import recorded

_TEXT = """
model-id revision sharded quantize dtype kv-cache-dtype hostname shard-uds-path master-addr huggingface-hub-cache
weights-cache-override rope-scaling otlp-endpoint otlp-service-name api-key ngrok-authtoken ngrok-edge ngrok-domain
ngrok-username ngrok-password tokenizer-config-path lora-adapters usage-stats uds-path logger-level
tokenizer-name master-shard-uds-path
"""
_INT = """
validation-workers num-shard speculate max-concurrent-requests max-best-of max-stop-sequences max-top-n-tokens
max-input-tokens max-total-tokens max-batch-prefill-tokens max-batch-total-tokens max-waiting-tokens max-batch-size
port prometheus-port master-port max-client-batch-size payload-limit graceful-termination-timeout
"""
_FLOAT = "waiting-served-ratio cuda-memory-fraction rope-factor watermark-gamma watermark-delta"
_SWITCH = """
trust-remote-code disable-custom-kernels json-output ngrok disable-grammar-support env enable-prefill-logprobs
disable-usage-stats disable-crash-reports auto-convert
"""
_LISTS = "cuda-graphs cors-allow-origin"
_MORE = {"port": ("-p",), "env": ("-e",), "max-input-tokens": ("--max-input-length",)}

FACTS = {
    "num_shard": "serve.tensor_parallel_size",
    "quantize": "serve.quantization",
    "dtype": "serve.dtype",
    "kv_cache_dtype": "serve.kv_cache_dtype",
    "max_total_tokens": "serve.max_model_len",
    "max_batch_prefill_tokens": "serve.max_num_batched_tokens",
    "max_batch_size": "serve.max_num_seqs",
    "trust_remote_code": "serve.trust_remote_code",
}
"""Option -> the neutral fact that holds its value as it stands."""

BOTH = {"speculate": "serve.speculative.num_speculative_tokens", "cuda_memory_fraction": "serve.gpu_memory_share"}
"""Options that are kept under their own name and have a neutral one too."""

SECRETS = frozenset({"api_key", "ngrok_authtoken", "ngrok_password"})

OPERATIONAL_BECAUSE = {
    "where it is reached": (
        "hostname port prometheus_port shard_uds_path uds_path master_shard_uds_path master_addr master_port ngrok "
        "ngrok_edge ngrok_domain ngrok_username"
    ),
    "who may ask, and how much at once": "cors_allow_origin payload_limit",
    "what is written to logs and measured": (
        "json_output otlp_endpoint otlp_service_name env usage_stats disable_usage_stats disable_crash_reports logger_level"
    ),
    "where files are put": "huggingface_hub_cache weights_cache_override",
    "how its processes are cared for": "validation_workers graceful_termination_timeout",
}
"""Reason -> options that lock nothing, because they move no token."""
OPERATIONAL = frozenset(name for names in OPERATIONAL_BECAUSE.values() for name in names.split())

VARIABLES = recorded("tgi")
"""Variables that no flag has."""

QUANTIZED_IN_FLOAT16 = frozenset({"awq", "exl2", "gptq", "marlin"})


def _options() -> list[Option]:
    kinds = (
        (_TEXT, Take.ONE, Kind.TEXT), (_INT, Take.ONE, Kind.INT), (_FLOAT, Take.ONE, Kind.NUMBER),
        (_SWITCH, Take.SWITCH, Kind.TEXT), (_LISTS, Take.ONE, Kind.TEXT),
    )  # fmt: skip
    found = []
    for names, take, kind in kinds:
        for name in names.split():
            flags = (f"--{name}", *_MORE.get(name, ()))
            found.append(Option(name=name.replace("-", "_"), flags=flags, take=take, kind=kind))
    return found


TABLE: Table = table(_options())
BY_VARIABLE = {option.name.upper(): option for option in TABLE.options if option.name not in ("env", "uds_path")} | {
    "MAX_INPUT_LENGTH": next(option for option in TABLE.options if option.name == "max_input_tokens")
}
"""Variable -> the option that it sets where no flag does."""
