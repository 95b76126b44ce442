"""`lmdeploy serve api_server`'s options, read at 0.16 and 0.18; older spellings are kept beside them."""

from __future__ import annotations

from lockllm.engines.kernel.argparse import Option, Table, Take, table
from lockllm.engines.kernel.values import Kind
from lockllm.facts.variables import recorded

_TEXT = """
server-name backend dtype model-format model-name chat-template tool-call-parser reasoning-parser revision download-dir
log-level device communicator moe-a2a-backend generation-config speculative-algorithm speculative-draft-model
logprobs-mode proxy-url role migration-backend distributed-executor-backend dist-init-addr quant-policy
allow-origins-regex dllm-unmasking-strategy model-impl
"""
_INT = """
server-port tp dp ep cp nnodes node-rank dp-rank session-len max-batch-size num-gpu-blocks num-cpu-blocks
cache-block-seq-len max-prefill-token-num num-tokens-per-iter max-prefill-iters async max-concurrent-requests
max-log-len vision-max-batch-size speculative-num-draft-tokens piecewise-cudagraph-max-tokens kernel-block-size
dllm-block-length dllm-denoising-steps attn-tp-size mlp-tp-size moe-tp-size
prefix-cache-state-budget prefix-cache-decode-state-interval speculative-dflash-block-size
"""
_FLOAT = "cache-max-entry-count rope-scaling-factor dllm-confidence-threshold"
_SWITCHES = """
enable-prefix-caching trust-remote-code eager-mode ssl allow-terminate-by-client enable-abort-handling
disable-fastapi-docs disable-metrics enable-metrics disable-vision-encoder enable-microbatch enable-eplb
language-only language-model-only enable-return-routed-experts allow-credentials qos-config enable-cors
empty-init
"""
_LISTS = (
    "api-keys allow-origins allow-methods allow-headers adapters cudagraph-capture-batch-sizes allowed-media-domains"
)
_JSON = "hf-overrides kv-transfer-config"

FACTS = {
    "tp": "serve.tensor_parallel_size",
    "dp": "serve.data_parallel_size",
    "ep": "serve.expert_parallel_size",
    "dtype": "serve.dtype",
    "session_len": "serve.max_model_len",
    "max_batch_size": "serve.max_num_seqs",
    "enable_prefix_caching": "serve.enable_prefix_caching",
    "eager_mode": "serve.enforce_eager",
    "trust_remote_code": "serve.trust_remote_code",
    "tool_call_parser": "serve.tool_call_parser",
    "reasoning_parser": "serve.reasoning_parser",
    "generation_config": "serve.generation_config",
    "speculative_algorithm": "serve.speculative.method",
    "speculative_num_draft_tokens": "serve.speculative.num_speculative_tokens",
    "max_prefill_token_num": "serve.max_num_batched_tokens",
}
"""Option -> the neutral fact that holds its value as it stands."""

KEPT_TOO = frozenset({"max_prefill_token_num"})
"""Options that are kept under their own name as well."""

KV_CACHE = {
    "4": "int4", "int4": "int4", "8": "int8", "int8": "int8", "16": "fp8_e4m3", "fp8": "fp8_e4m3",
    "fp8_e4m3": "fp8_e4m3", "17": "fp8_e5m2", "fp8_e5m2": "fp8_e5m2", "42": "turbo_quant", "turbo_quant": "turbo_quant",
}  # fmt: skip
"""`--quant-policy` -> the KV cache's dtype; 0 and none: the model's."""

OPERATIONAL_BECAUSE = {
    "where and under which name it is reached": "server_name server_port model_name proxy_url dist_init_addr",
    "who may ask": "ssl allow_origins allow_methods allow_headers allow_credentials allow_origins_regex allowed_media_domains",
    "which routes are there, for who calls them": "allow_terminate_by_client enable_abort_handling disable_fastapi_docs",
    "what is written to logs and measured": "log_level max_log_len disable_metrics enable_metrics",
    "where files are put": "download_dir",
}
"""Reason -> options that lock nothing, because they move no token."""
OPERATIONAL = frozenset(name for names in OPERATIONAL_BECAUSE.values() for name in names.split())
PER_NODE = frozenset({"node_rank", "dp_rank"})
SECRETS = frozenset({"api_keys"})

READ = recorded("lmdeploy")
"""Variables that change results."""


def _options() -> list[Option]:
    kinds = (
        (_TEXT, Take.ONE, Kind.TEXT), (_INT, Take.ONE, Kind.INT), (_FLOAT, Take.ONE, Kind.NUMBER),
        (_SWITCHES, Take.SWITCH, Kind.TEXT), (_LISTS, Take.ANY, Kind.TEXT), (_JSON, Take.ONE, Kind.JSON_OR_TEXT),
    )  # fmt: skip
    return [
        Option(name=name.replace("-", "_"), flags=(f"--{name}",), take=take, kind=kind)
        for names, take, kind in kinds
        for name in names.split()
    ]


TABLE: Table = table(_options())
